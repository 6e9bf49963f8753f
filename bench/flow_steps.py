"""Steps that do nothing, for the benchmark of flows."""


def nothing() -> None:
    """Do nothing."""


def nothing_with(item: int, context: object) -> None:
    """Do nothing with an item."""
