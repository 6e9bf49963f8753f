"""The last wait of a stop: until the leaving jobs (ended and deleted) take no room in the cluster.

A stop waits as long as the number of leaving jobs falls. So a job held in the cluster by a foreign finalizer does not
delay the stop indefinitely.
"""

from datetime import datetime, timedelta

from temporalio import workflow

PATIENCE = timedelta(minutes=1)  # longest wait without progress; time in which looks failed does not count


class DrainWait:
    """State of the wait for leaving jobs. During the wait no job runs."""

    def __init__(self) -> None:
        self._until: datetime | None = None  # end of the wait, if there is no progress; None: the wait has not begun
        self._fewest = 0  # fewest leaving jobs in a look
        self._failing_since: datetime | None = None  # when a look failed, if no later look has succeeded

    @property
    def has_begun(self) -> bool:
        return self._until is not None

    @property
    def shows_leaving_jobs(self) -> bool:
        """Whether the last look has shown leaving jobs, so that frequent looks are useful."""
        return self.has_begun and self._failing_since is None

    def must_go_on(self, leaving: int) -> bool:
        """Note a look with `leaving` jobs that are leaving, and return whether to wait for another look."""
        if not leaving:
            return False
        now = workflow.now()
        if self._until is None or leaving < self._fewest:
            self._fewest, self._until = leaving, now + PATIENCE
        elif self._failing_since is not None:
            self._until += now - self._failing_since
        self._failing_since = None
        return now < self._until

    def note_failed_look(self) -> None:
        """Do not count the time until the next successful look as time without progress."""
        self._failing_since = self._failing_since or workflow.now()
