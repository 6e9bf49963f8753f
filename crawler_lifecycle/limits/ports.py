"""Port for limits."""

from collections.abc import Mapping
from typing import Protocol

from crawler_lifecycle.limits.rules import Use
from crawler_lifecycle.model.limits import LimitRecord


class Limits(Protocol):
    """The recorded limits. A scope is a text as in `model.limits`."""

    def all(self, also: str | None = None) -> list[LimitRecord]:
        """Return the limits of every scope that has limits or a pause, with their use; the installation comes first.

        `also`: a scope that is returned even without limits, for its use.
        """

    def pauses(self) -> int:
        """Count the paused scopes."""

    def change(self, scope: str, values: Mapping[str, int | None], actor: str | None) -> None:
        """Write the named values (runs, tasks, weight) of the scope; None takes a value away."""

    def pause(self, scope: str, reason: str, actor: str | None) -> None:
        """Pause the scope. A paused scope gets the new reason, and stays paused since its first pause."""

    def resume(self, scope: str, actor: str | None) -> None:
        """End the scope's pause. NotFound if the scope is not paused."""

    def miscounted(self) -> dict[str, Use]:
        """Compare the sums for limits with the rows. Return the missing use by scope."""

    def correct_sums(self) -> None:
        """Add the missing use to the sums."""

    def known_names(self, kind: str) -> set[str]:
        """Return the names after `kind` (`crawler:` or `label:`) in limits and recent runs, as hints for people."""

    def is_known(self, scope: str) -> bool:
        """Return whether a limit or any run has the scope's crawler or label."""


class LimitStore(Protocol):
    @property
    def limits(self) -> Limits: ...
