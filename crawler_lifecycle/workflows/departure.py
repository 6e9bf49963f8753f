"""What has ended is on its way out of the cluster: a stop waits for it, but not for what something holds there."""

from datetime import datetime, timedelta

from temporalio import workflow

from crawler_lifecycle.workflows.looks import Looked

PATIENCE = timedelta(minutes=1)  # since anything left
LONGEST_PAUSE = timedelta(seconds=15)
LEAVES_FIRST = "what-has-ended-leaves-before-the-proof"


class Departure:
    """`until`: how long it is waited for; while it is, nothing runs, and there is nothing to force."""

    def __init__(self) -> None:
        self.until: datetime | None = None
        self._fewest: int | None = None

    def goes_on(self, looked: Looked) -> bool:
        """As long as it becomes less."""
        if not looked.leaving or not workflow.patched(LEAVES_FIRST):
            return False
        if self.until is None or self._fewest is None or looked.leaving < self._fewest:
            self._fewest, self.until = looked.leaving, workflow.now() + PATIENCE
        return workflow.now() < self.until

    def out_of_sight(self) -> None:
        """Whether anything has left is not known: what the next look shows is waited for anew."""
        self._fewest = None
