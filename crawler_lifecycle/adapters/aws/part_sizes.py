"""Part sizes for an upload of unknown total size.

S3 takes 10,000 parts. Parts have the same size for as long as possible, because a part is held in memory and some
servers want equal parts; the last parts grow, so that 10,000 are enough.
"""

MOST_PARTS = 10_000
ALIKE = 5_000  # so many parts have the first size
STEP = 500  # then the size doubles every so many parts
LARGEST = 1024**3  # bytes: a part is held in memory


def part_size(number: int, first: int) -> int:
    """Return the part's size in bytes; numbers begin at 1."""
    if number <= ALIKE:
        return first
    doublings = (number - ALIKE - 1) // STEP + 1
    return max(first, min(first << doublings, LARGEST))
