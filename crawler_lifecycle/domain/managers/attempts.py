"""An item's attempts: changes from attempt to attempt."""

from collections.abc import Mapping


def changed_arguments(before: Mapping[str, str], after: Mapping[str, str]) -> dict[str, str | None]:
    """Return the arguments with other values than before. None: the argument is gone."""
    gone = dict.fromkeys(before.keys() - after.keys())
    return {**{name: value for name, value in after.items() if before.get(name) != value}, **gone}
