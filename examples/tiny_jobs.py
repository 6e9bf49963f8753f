"""Jobs to try things with: one that sleeps, one that fails, one that does not end when it is asked to, a small shop.

Usage: python tiny_jobs.py sleeper|failing|stubborn|shop. The argument `seconds` (default 30) is read from
CRAWL_ARGUMENTS. The shop has the arguments `pages` and `fragile`. `fragile=yes`: a crawl without `retry_num` is banned.
`fragile=always`: a crawl without `slow=yes` is banned.
"""

import json
import os
import signal
import sys
import time
from pathlib import Path


def argument(name: str, default: str) -> str:
    return str(json.loads(os.environ.get("CRAWL_ARGUMENTS", "{}")).get(name, default))


def seconds() -> float:
    return float(argument("seconds", "30"))


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


def shop() -> None:
    pages = int(argument("pages", "3"))
    time.sleep(float(argument("seconds", "0.2")))
    fragile = argument("fragile", "no")
    is_retry, is_slow = argument("retry_num", "0") != "0", argument("slow", "no") == "yes"
    is_banned = (fragile == "yes" and not is_retry) or (fragile == "always" and not is_slow)
    stats = {"pages": 1, "items": 0} if is_banned else {"pages": pages, "items": 10 * pages}
    content = {"crawl_result": 1, "outcome": "banned" if is_banned else "finished", "stats": stats}
    if "CRAWL_RESULT" in os.environ:
        Path(os.environ["CRAWL_RESULT"]).write_text(json.dumps(content))


if __name__ == "__main__":
    {"sleeper": sleeper, "failing": failing, "stubborn": stubborn, "shop": shop}[sys.argv[1]]()
