"""The watcher."""

from crawler_lifecycle.processes.watcher import main

if __name__ == "__main__":
    main()
