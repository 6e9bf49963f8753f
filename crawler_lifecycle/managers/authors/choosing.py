"""Choice: the jobs that a cycle of a generator's manager starts."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property

from crawler_lifecycle.managers.authors.link import ManagerLink
from crawler_lifecycle.managers.authors.parameters import FullJobParams
from crawler_lifecycle.managers.authors.policies import Caps
from crawler_lifecycle.model.manager_items import Job, Waiting


def was_renewed(item: Waiting) -> bool:
    """Return whether people let the item be tried again."""
    return item.attempt > 1 and not item.tries


@dataclass
class Choice:
    """The jobs that a cycle has chosen so far, beside the jobs under way."""

    link: ManagerLink
    room: int = 0  # jobs that may start in the cycle
    is_limited: bool = False  # whether only items that people tried again may start: too many items have failed
    caps: Caps = field(default_factory=lambda: Caps({}, ()))
    chosen: list[tuple[Waiting, FullJobParams]] = field(default_factory=list)
    after: Waiting | None = None  # the last item on the last page: the author is asked once about each item

    @property
    def missing(self) -> int:
        return self.room - len(self.chosen)

    @cached_property
    def running(self) -> Sequence[Job]:
        """The jobs under way, from a single reading: the author may ask for them with each item."""
        return self.link.running()

    @property
    def spiders(self) -> list[str]:
        """The spiders of the jobs under way and of the chosen jobs."""
        return [job.request.crawler for job in self.running] + [params["spider"] for _, params in self.chosen]
