"""`TaskOrder` names an order for people's lists with tasks."""

from enum import StrEnum


class TaskOrder(StrEnum):
    """Order for tasks. A minus reverses the order; tasks without a value come last in both directions."""

    TASK = "task"  # by number
    TASK_DOWN = "-task"
    STATUS = "status"  # from QUEUED to LOST
    STATUS_DOWN = "-status"
    DURATION = "duration"  # from the start to the end, or until now
    DURATION_DOWN = "-duration"
    EXIT_CODE = "exit_code"
    EXIT_CODE_DOWN = "-exit_code"

    @property
    def key(self) -> str:
        """The order without its direction."""
        return self.value.removeprefix("-")

    @property
    def is_down(self) -> bool:
        """Whether the largest value comes first."""
        return self.value.startswith("-")
