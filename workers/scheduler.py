"""The scheduler service."""

from crawler_lifecycle.processes.scheduler import main

if __name__ == "__main__":
    main()
