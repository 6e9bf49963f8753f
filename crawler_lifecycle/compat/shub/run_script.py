"""Runs a script with the words of its task: `python -m crawler_lifecycle.compat.shub.run_script FILE`, in a crawl."""

import json
import os
import runpy
import shlex
import sys

from crawler_lifecycle.managers.authors.tasks import COMMAND_LINE


def main() -> None:
    """Run the file as the main module. Its command line is the crawl's argument `cmd_args`."""
    file = sys.argv[1]
    arguments = json.loads(os.environ.get("CRAWL_ARGUMENTS") or "{}")
    sys.argv[:] = [file, *shlex.split(arguments.get(COMMAND_LINE, ""))]
    runpy.run_path(file, run_name="__main__")


if __name__ == "__main__":
    main()
