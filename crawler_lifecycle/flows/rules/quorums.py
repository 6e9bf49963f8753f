"""Quorums: when enough members are completed, and when enough cannot be reached any more."""

from collections.abc import Sequence
from math import ceil

from crawler_lifecycle.flows.rules.network import CANCELLED, DISCARDED, OPEN, REFUSED, SATISFIED, Node
from crawler_lifecycle.flows.rules.rows import NeedRow

MOST_NAMES = 3  # in a title
ROUNDING = 1e-9  # 0.7 * 10 is more than 7


def quorum_value(node: Node, need: NeedRow, ignored: int, *, may_grow: bool, has_open_groups: bool) -> int:
    """Return the quorum's value from its counts. Ignored failures count as completed.

    `may_grow`: members may still join. `has_open_groups`: an empty group may still wait for its own needs.
    """
    if not node.total and need.share is not None:
        return OPEN if may_grow or has_open_groups else SATISFIED
    failed = (0 if ignored & CANCELLED else node.cancelled) + (0 if ignored & DISCARDED else node.discarded)
    enough = need.count or ceil((need.share or 0) * node.total - ROUNDING)
    good = node.total - node.open - failed
    if need.wait and (node.open or may_grow):
        return OPEN
    if good >= enough and (need.share is None or not may_grow):
        return SATISFIED
    return OPEN if good + node.open >= enough or may_grow else REFUSED


def title(paths: Sequence[str]) -> str:
    """Return the quorum's name for reasons."""
    shown = [*paths[:MOST_NAMES], "..."] if len(paths) > MOST_NAMES else paths
    return f"any_of({', '.join(shown)})"
