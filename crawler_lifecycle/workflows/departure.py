"""What has ended is on its way out of the cluster: a stop waits for it, but not for what something holds there."""

from datetime import datetime, timedelta

from temporalio import workflow

from crawler_lifecycle.workflows.looks import Looked

PATIENCE = timedelta(minutes=1)  # since anything left, while it could be seen
LONGEST_PAUSE = timedelta(seconds=15)


class Departure:
    """`until`: how long it is waited for; while it is, nothing runs, and there is nothing to force."""

    def __init__(self) -> None:
        self.until: datetime | None = None
        self._fewest = 0
        self._hidden_since: datetime | None = None

    @property
    def longest_pause(self) -> timedelta | None:
        """None: it cannot be seen leaving, so there is no hurry."""
        return LONGEST_PAUSE if self.until is not None and self._hidden_since is None else None

    def goes_on(self, looked: Looked) -> bool:
        """As long as it becomes less."""
        if not looked.leaving:
            return False
        now = workflow.now()
        if self.until is None or looked.leaving < self._fewest:
            self._fewest, self.until = looked.leaving, now + PATIENCE
        elif self._hidden_since is not None:
            self.until += now - self._hidden_since
        self._hidden_since = None
        return now < self.until

    def out_of_sight(self) -> None:
        """Whether anything leaves is not known; that time does not count."""
        self._hidden_since = self._hidden_since or workflow.now()
