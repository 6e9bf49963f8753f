"""What has ended is on its way out of the cluster: a stop waits for it, but not for what something holds there."""

from datetime import datetime, timedelta

from temporalio import workflow

from crawler_lifecycle.workflows.looks import Looked

PATIENCE = timedelta(seconds=30)  # since anything left
LEAVES_FIRST = "what-has-ended-leaves-before-the-proof"


class Leaving:
    def __init__(self) -> None:
        self._left = 0
        self._until: datetime | None = None

    @property
    def is_all(self) -> bool:
        """Nothing runs any more, so there is nothing to force."""
        return self._until is not None

    def is_waited_for(self, looked: Looked) -> bool:
        """As long as it becomes less."""
        if not looked.leaving or not workflow.patched(LEAVES_FIRST):
            return False
        if self._until is None or looked.leaving < self._left:
            self._until = workflow.now() + PATIENCE
        self._left = looked.leaving
        return workflow.now() < self._until

    def is_not_all(self) -> None:
        self._until = None
