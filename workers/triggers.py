"""The trigger process."""

from crawler_lifecycle.processes.triggers import main

if __name__ == "__main__":
    main()
