"""A host for steps: `crawlctl host`."""

import sys

from crawler_lifecycle.cli.__main__ import run

if __name__ == "__main__":
    sys.argv.insert(1, "host")
    run()
