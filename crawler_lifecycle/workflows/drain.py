"""The last wait of a stop: jobs that ended and were deleted leave the cluster, where they still take room.

A stop waits while the number of leaving jobs falls, but not for jobs that a foreign finalizer holds in the cluster.
"""

from datetime import datetime, timedelta

from temporalio import workflow

PATIENCE = timedelta(minutes=1)  # without progress, while the cluster could be seen


class DrainWait:
    """Wait for leaving jobs as long as their number falls. During the wait no job runs."""

    def __init__(self) -> None:
        self._until: datetime | None = None
        self._fewest = 0
        self._hidden_since: datetime | None = None

    @property
    def has_begun(self) -> bool:
        return self._until is not None

    @property
    def is_seen(self) -> bool:
        """Whether the last look has shown leaving jobs: frequent looks are of no use during an outage."""
        return self.has_begun and self._hidden_since is None

    def is_draining(self, leaving: int) -> bool:
        """Return whether to wait on after a look with so many leaving jobs."""
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
        """Do not count the time until the next successful look as time without progress."""
        self._hidden_since = self._hidden_since or workflow.now()
