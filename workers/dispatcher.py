"""The dispatcher."""

from crawler_lifecycle.processes.dispatcher import main

if __name__ == "__main__":
    main()
