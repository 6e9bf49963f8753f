"""Jobs to try things with: one that sleeps, one that fails, one that does not end when it is asked to.

Usage: python tiny_jobs.py sleeper|failing|stubborn. The argument `seconds` (default 30) is read from CRAWL_ARGUMENTS.
"""

import json
import os
import signal
import sys
import time


def seconds() -> float:
    return float(json.loads(os.environ.get("CRAWL_ARGUMENTS", "{}")).get("seconds", "30"))


def sleeper() -> None:
    for second in range(1, int(seconds()) + 1):
        time.sleep(1)
        print(f"slept {second} s", flush=True)


def failing() -> None:
    print("something is wrong with me", file=sys.stderr)
    sys.exit(3)


def stubborn() -> None:
    signal.signal(signal.SIGTERM, lambda *_: print("asked to end, going on", flush=True))
    print("ready to be asked", flush=True)
    sleeper()


if __name__ == "__main__":
    {"sleeper": sleeper, "failing": failing, "stubborn": stubborn}[sys.argv[1]]()
