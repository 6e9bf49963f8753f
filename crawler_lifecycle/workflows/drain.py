"""The end of a stop: jobs that have ended and were deleted leave the cluster, where they still take room.

A stop waits for them, but not for jobs that something (mostly a finalizer of somebody else) holds in the cluster.
"""

from datetime import datetime, timedelta

from temporalio import workflow

PATIENCE = timedelta(minutes=1)  # without progress, while the cluster could be seen


class DrainWait:
    """Wait for jobs that are leaving, for as long as they become fewer. While it waits, nothing runs."""

    def __init__(self) -> None:
        self._until: datetime | None = None
        self._fewest = 0
        self._hidden_since: datetime | None = None

    @property
    def has_begun(self) -> bool:
        return self._until is not None

    @property
    def is_seen(self) -> bool:
        """Whether the last look has shown the jobs that leave. Frequent looks are of use only then."""
        return self.has_begun and self._hidden_since is None

    def is_draining(self, leaving: int) -> bool:
        """Return whether to wait on, when a look has shown so many jobs that are leaving."""
        if not leaving:
            return False
        now = workflow.now()
        if self._until is None or leaving < self._fewest:
            self._fewest, self._until = leaving, now + PATIENCE
        elif self._hidden_since is not None:
            self._until += now - self._hidden_since
        self._hidden_since = None
        return now < self._until

    def note_outage(self) -> None:
        """A look has shown nothing: the time until the next one that does is no time without progress."""
        self._hidden_since = self._hidden_since or workflow.now()
