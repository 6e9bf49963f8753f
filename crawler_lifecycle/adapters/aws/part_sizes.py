"""How big are the parts of an upload whose size nobody knows before its end?

S3 takes 10,000 of them. All are of one size for as long as possible, since each is held in memory and some servers
want them alike; the last ones grow so that they are enough.
"""

MOST_PARTS = 10_000
ALIKE = 5_000
STEP = 500
LARGEST = 1024**3


def part_size(number: int, first: int) -> int:
    """Of the part of this number, from 1, in bytes."""
    if number <= ALIKE:
        return first
    doublings = (number - ALIKE - 1) // STEP + 1
    return max(first, min(first << doublings, LARGEST))
