"""The HTTP API."""

from crawler_lifecycle.processes.api import main

if __name__ == "__main__":
    main()
