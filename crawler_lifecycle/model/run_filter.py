"""`RunFilter` chooses runs for people's lists."""

from datetime import datetime

from crawler_lifecycle.base.base import Message
from crawler_lifecycle.model.states import ListedStatus, RunStatus, Trigger


class RunFilter(Message):
    """Choice by all given values. An empty value chooses every run."""

    statuses: tuple[RunStatus, ...] = ()
    listed: tuple[ListedStatus, ...] = ()
    triggers: tuple[Trigger, ...] = ()
    crawler: str | None = None
    search: str | None = None  # in the crawler's name in any case, or the RunID
    reason: str | None = None
    outcome: str | None = None
    requested_by: str | None = None
    tag: str | None = None
    label: str | None = None
    since: datetime | None = None  # bounds for the creation time
    until: datetime | None = None
    flows: bool = False  # include runs in flows, as a tag or a label does
    flow: str | None = None  # the flow's id or uid; leaves out all other runs

    @property
    def may_read_all(self) -> bool:
        """Whether the database may have to read every run, for example if a text is found nowhere."""
        return not self.model_dump(exclude_defaults=True).keys() <= {"crawler", "flow", "flows"}


ALL_RUNS = RunFilter()
OPEN_RUNS = RunFilter(statuses=tuple(status for status in RunStatus if not status.is_over), flows=True)
