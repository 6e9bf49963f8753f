"""`python -m crawler_lifecycle.cli` is `crawlctl`."""

from crawler_lifecycle.cli import main

if __name__ == "__main__":
    main(prog_name="crawlctl")
