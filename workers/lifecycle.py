"""The worker."""

from crawler_lifecycle.processes.lifecycle import main

if __name__ == "__main__":
    main()
