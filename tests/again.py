"""`python -m tests.again FOLDER... -- OPTIONS`: the files in these folders in which a test has just failed, once more.

Whole files: what a test left behind may be found only at the end of its file, by the last one.
"""

import json
import sys
import time
from pathlib import Path

import pytest

FAILED = Path(".pytest_cache/v/cache/lastfailed")
JUST_NOW = 120.0


def files(failed: list[str], folders: list[str]) -> list[str]:
    chosen = {name.partition("::")[0] for name in failed}
    return sorted(file for file in chosen if any(Path(file).is_relative_to(folder) for folder in folders))


def main() -> int:
    cut = sys.argv.index("--")
    is_new = FAILED.exists() and time.time() - FAILED.stat().st_mtime < JUST_NOW
    found = files(list(json.loads(FAILED.read_text())), sys.argv[1:cut]) if is_new else []
    if not found:
        print("no test of these folders has failed: it was something else", file=sys.stderr)
        return 1
    print(f"again: {' '.join(found)}", flush=True)
    return pytest.main(["-q", *found, *sys.argv[cut + 1 :]])


if __name__ == "__main__":
    raise SystemExit(main())
