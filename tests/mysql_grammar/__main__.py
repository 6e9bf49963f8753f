"""`python -m tests.mysql_grammar FOLDER`: parse the statements that `make test-mysql` has written there.

The parser is a package for Node.js; npm installs it into a temporary folder.
"""

import shutil
import subprocess
import sys
from pathlib import Path
from tempfile import TemporaryDirectory

VERSION = "8.0.19"  # the oldest that the service supports
FILES = ("package.json", "package-lock.json", "parse.js")


def main() -> int:
    if missing := [program for program in ("node", "npm") if shutil.which(program) is None]:
        print(f"missing on this machine: {', '.join(missing)}")
        return 1
    with TemporaryDirectory(prefix="grammar-") as folder:
        for name in FILES:
            shutil.copy(Path(__file__).with_name(name), folder)
        subprocess.run(["npm", "ci", "--ignore-scripts", "--no-audit", "--no-fund", "--silent"], cwd=folder, check=True)
        parse = ["node", "parse.js", str(Path(sys.argv[1]).absolute()), VERSION]
        return subprocess.run(parse, cwd=folder, check=False).returncode


if __name__ == "__main__":
    raise SystemExit(main())
