"""`make verdict-soak`: a million lives of jobs, each looked at again and again through disturbances, on every core.

The first life that goes wrong is told by its seed: `python -m tests.verdict_soak --seed N` lives it again.
"""

import argparse
import os
import time
from collections import Counter
from multiprocessing import get_context
from random import Random, SystemRandom

from tests.worlds import live

LIVES_IN_A_BATCH = 500


def soak(batch: int) -> tuple[int, Counter[str], int | None]:
    """The looks of a batch of lives, how they ended, and the seed of one that went wrong."""
    looks, ends = 0, Counter[str]()
    for seed in range(batch * LIVES_IN_A_BATCH, (batch + 1) * LIVES_IN_A_BATCH):
        try:
            looked, row = live(Random(seed))
        except Exception:  # noqa: BLE001 - whatever it is, the seed tells more
            return looks, ends, seed
        looks += looked
        ends[row.status] += 1
    return looks, ends, None


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--lives", type=int, default=1_000_000)
    parser.add_argument("--first", type=int, help="batch to begin with; default: another one every time")
    parser.add_argument("--seed", type=int, help="only this life, with what goes wrong")
    asked = parser.parse_args()
    if asked.seed is not None:
        print(*live(Random(asked.seed)))
        return 0
    first = SystemRandom().randrange(2**40) if asked.first is None else asked.first
    return _soak_from(first, -(-asked.lives // LIVES_IN_A_BATCH))


def _soak_from(first: int, batches: int) -> int:
    began, looks, lives, ends, shown = time.monotonic(), 0, 0, Counter[str](), 0.0
    print(f"from batch {first} on, {batches * LIVES_IN_A_BATCH:,} lives", flush=True)
    with get_context("spawn").Pool(os.cpu_count()) as pool:
        for done in pool.imap_unordered(soak, range(first, first + batches)):
            looks, lives, ends = looks + done[0], lives + LIVES_IN_A_BATCH, ends + done[1]
            if done[2] is not None:
                print(f"WRONG: python -m tests.verdict_soak --seed {done[2]}")
                return 1
            seconds = time.monotonic() - began
            if seconds - shown > 5:
                shown = seconds
                print(
                    f"{looks:>11,} looks, {lives:>9,} lives, {seconds:6.0f} s, {dict(ends.most_common())}", flush=True
                )
    print(f"{looks:,} looks at {lives:,} lives, and no row was wrong")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
