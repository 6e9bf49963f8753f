"""`make verdict-soak`: a million lives of jobs, each looked at again and again through disturbances, on every core.

Each batch of lives has seeds of its own, whichever process lives it. Every life that goes wrong is reported with its
seed: `python -m tests.worlds.verdict_soak --seed N` lives it again.
"""

import argparse
import os
import time
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from multiprocessing import get_context
from random import SystemRandom

from tests.worlds.playing import play

LIVES_IN_A_BATCH = 500
SECONDS_BETWEEN_LINES = 5.0
MOST_SHOWN = 20


@dataclass
class Soaked:
    """How many looks were made at how many lives, how the rows ended, and the seeds of lives that went wrong."""

    lives: int = 0
    looks: int = 0
    ends: Counter[str] = field(default_factory=Counter)
    wrong: list[int] = field(default_factory=list)

    def add(self, other: "Soaked") -> None:
        self.lives += other.lives
        self.looks += other.looks
        self.ends += other.ends
        self.wrong += other.wrong


def soak(batch: int) -> Soaked:
    """Live the lives of one batch."""
    soaked = Soaked()
    for seed in range(batch * LIVES_IN_A_BATCH, (batch + 1) * LIVES_IN_A_BATCH):
        soaked.lives += 1
        try:
            looks, row = play(seed)
        except Exception:  # noqa: BLE001 - an adapter that raises is as wrong as a false row, and the seed tells more
            soaked.wrong.append(seed)
            continue
        soaked.looks += looks
        soaked.ends[row.status] += 1
    return soaked


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--lives", type=int, default=1_000_000)
    parser.add_argument("--processes", type=int, default=os.cpu_count(), help="default: one a core")
    parser.add_argument("--first", type=int, help="batch to begin with; default: another one every time")
    parser.add_argument("--seed", type=int, help="only this life, with the failure")
    asked = parser.parse_args()
    if asked.seed is not None:
        print(*play(asked.seed))
        return 0
    first = SystemRandom().randrange(2**40) if asked.first is None else asked.first
    batches = range(first, first + -(-asked.lives // LIVES_IN_A_BATCH))
    print(
        f"from batch {first} on, {len(batches) * LIVES_IN_A_BATCH:,} lives in {asked.processes} processes", flush=True
    )
    with get_context("spawn").Pool(asked.processes) as pool:
        return report(total_of(pool.imap_unordered(soak, batches)))


def total_of(batches: Iterable[Soaked]) -> Soaked:
    total, began, shown = Soaked(), time.monotonic(), 0.0
    for batch in batches:
        total.add(batch)
        seconds = time.monotonic() - began
        if seconds - shown > SECONDS_BETWEEN_LINES:
            shown = seconds
            print(f"{seconds:6.0f} s, {_counts(total)}, {total.looks / seconds:,.0f} looks/s", flush=True)
    return total


def report(total: Soaked) -> int:
    """Print the sum of all processes. Return the exit code: 1 if a row was wrong."""
    print(f"ends: {', '.join(f'{status} {count:,}' for status, count in total.ends.most_common())}")
    print(f"{_counts(total)}")
    for seed in sorted(total.wrong)[:MOST_SHOWN]:
        print(f"WRONG: python -m tests.worlds.verdict_soak --seed {seed}")
    return 1 if total.wrong else 0


def _counts(total: Soaked) -> str:
    return f"{total.looks:,} looks at {total.lives:,} lives, {len(total.wrong):,} wrong rows"


if __name__ == "__main__":
    raise SystemExit(main())
