"""`JobStarts` has `schedule_spider`, and the starts of items that a script has chosen."""

from collections.abc import Callable, Iterator, Sequence
from copy import deepcopy
from itertools import islice, takewhile
from typing import Any
from uuid import uuid4

from crawler_lifecycle.errors import BadInput, PermanentError
from crawler_lifecycle.flows.model.turns import SCHEDULED, Start
from crawler_lifecycle.managers.authors.collecting import Collected
from crawler_lifecycle.managers.authors.owned_jobs import OwnedJobs, params_of
from crawler_lifecycle.managers.authors.parameters import FullJobParams, JobKey, check_parts
from crawler_lifecycle.managers.authors.requesting import item_of, request_of
from crawler_lifecycle.model.manager_items import Item, Job, Origin, Waiting

ITEMS_IN_A_PAGE = 200
# keys of items that the author starts: with the parameters of the command line, or with the given parameters alone
WITH_COMMAND_LINE, AS_GIVEN = "start", "start as given"


class JobStarts(OwnedJobs):
    """Starts jobs, the author's own and those of a cycle."""

    _collected: Collected
    _most_at_once = 1000  # jobs under way, above which pending jobs wait

    def __init__(self) -> None:
        self._chosen: Waiting | None = None
        self._has_pending_jobs = False
        self._has_refusals = False  # since the cycle's beginning: other items may start instead
        self._unnamed: FullJobParams = {}  # the chosen item's parameters without a name in `schedule_spider`

    def commit(self) -> list[int]:
        raise NotImplementedError

    def log(self, message: str) -> None:
        raise NotImplementedError

    def get_tags(self) -> list[str]:
        raise NotImplementedError

    def _make_children_tags(self, tags: Sequence[str] | None) -> Sequence[str] | None:
        raise NotImplementedError

    def effective(self, params: FullJobParams) -> FullJobParams:
        """Return the parameters over those of the command line."""
        return deepcopy(params)

    def own_tags(self, waiting: Waiting) -> list[str]:  # noqa: ARG002 - for specializations
        """Return the tags by which a job that starts is known."""
        return []

    def note_progress(self) -> None:
        """Process the start of a job."""

    def schedule_spider(
        self,
        spider: str,
        tags: Sequence[str] | None = None,
        units: float | None = None,
        project_id: int | str | None = None,
        **kwargs: Any,
    ) -> Any:
        """Start a job with these parameters alone, without those of the command line, and return its key.

        An override is called for each start, with all parameters of the job.
        """
        settings = kwargs.pop("job_settings", None)
        params: FullJobParams = {
            **self._unnamed,
            "spider": spider,
            "spider_args": kwargs,
            "job_settings": settings,
            "tags": list(tags or ()),
            "units": units,
            "project_id": project_id,
        }
        chosen, self._chosen = self._chosen, None
        if chosen is None:
            chosen = self._added(item_of(params, deepcopy, self.get_tags(), Origin.ADDED, new_key(AS_GIVEN)))
        return None if chosen is None else self.start_all([(chosen, params)], deepcopy)[0]

    async def async_schedule_spider(self, spider: str, *arguments: Any, **parameters: Any) -> Any:
        """Start a job as `schedule_spider` does."""
        return self.schedule_spider(spider, *arguments, **parameters)

    def _added(self, item: Item) -> Waiting | None:
        """Store a further item. None: the item is refused."""
        self._collected.add.append(item)
        number = self.commit()[-1]
        if item.request is None:
            return None
        return Waiting(number=number, attempt=1, origin=Origin.ADDED, override=item.override, request=item.request)

    async def start_pending_jobs(self) -> None:
        if not self._has_pending_jobs:
            return
        room = max(0, self._most_at_once - self.link.counts().running)
        added = takewhile(_is_before_the_generators, self._waiting())
        pending = list(islice(filter(_is_start_by_author, added), room + 1))
        self._has_pending_jobs = len(pending) > room
        for waiting in pending[:room]:
            await self.call(self.start_pending_job, waiting)

    async def start_pending_job(self, waiting: Waiting) -> None:
        """Start the job with the parameters of the author's own start."""
        self.start_all([(waiting, {**params_of(waiting), "spider": waiting.request.crawler})], deepcopy)

    def _waiting(self) -> Iterator[Waiting]:
        after: Waiting | None = None
        while page := self.link.waiting(ITEMS_IN_A_PAGE, after=after):
            yield from page
            after = page[-1]

    def start_all(
        self,
        chosen: Sequence[tuple[Waiting, FullJobParams]],
        effective: Callable[[FullJobParams], FullJobParams] | None = None,
    ) -> list[JobKey | None]:
        """Start the items at once, and return the keys of their jobs. An item without a possible request is refused.

        `effective`: completes the parameters; by default, with those of the command line.
        """
        complete = effective or self.effective
        starts = [
            start for waiting, params in chosen if (start := self._start_of(waiting, params, complete)) is not None
        ]
        answers = self.link.start(starts) if starts else ()
        self._has_pending_jobs |= None in answers
        keys = {
            start.number: answer.key for start, answer in zip(starts, answers, strict=True) if isinstance(answer, Job)
        }
        if keys:
            self._collected.stats.note(SCHEDULED, len(keys))
            self.note_progress()
        for start, answer in zip(starts, answers, strict=True):
            if isinstance(answer, str):
                request = start.request
                self._handle_refusal(
                    answer,
                    spider=request.crawler,
                    add_tag=list(request.tags),
                    units=request.memory_factor,
                    job_args=dict(request.arguments),
                    job_settings=dict(request.settings),
                )
        return [keys.get(waiting.number) for waiting, _ in chosen]

    def _start_of(
        self, waiting: Waiting, params: FullJobParams, effective: Callable[[FullJobParams], FullJobParams]
    ) -> Start | None:
        """Return the item's start. None: the item is refused, as its parameters over the manager's make no request."""
        tags, shown = self.own_tags(waiting), params
        try:
            check_parts(params)
            shown = effective(params)
            tags = list(self._make_children_tags([*(shown.get("tags") or []), *tags]) or [])
            request = request_of({**shown, "tags": None}, tags)
            return Start(number=waiting.number, attempt=waiting.attempt, generation=waiting.generation, request=request)
        except BadInput as error:
            general = self._make_children_tags([]) or []
            request_of(
                self.effective({"spider": waiting.request.crawler}), general
            )  # raises if the manager is to blame
            problem = error.message
        self.link.refuse(waiting.number, waiting.attempt, problem)
        self._handle_refusal(
            problem,
            spider=shown.get("spider") or waiting.request.crawler,
            add_tag=tags,
            units=shown.get("units"),
            job_args=shown.get("spider_args") or {},
            job_settings=shown.get("job_settings") or {},
        )
        return None

    def _handle_refusal(self, problem: str, **schedule_kwargs: Any) -> None:
        self._has_refusals = True
        self.link.enter("handle_schedule_error")
        self.handle_schedule_error(PermanentError(problem), **schedule_kwargs)

    def handle_schedule_error(self, e: Exception, **schedule_kwargs: Any) -> Any:
        """Called for each permanently refused start. The job is stored as refused."""
        self.log(f"{schedule_kwargs['spider']} is refused: {e}")

    def handle_schedule_duplicate_error(self, **schedule_kwargs: Any) -> Any:
        """Kept for `super()`: a start has a key, so a repeated start is no second job, and never an error."""


def new_key(kind: str) -> str:
    """Return the key of an item that the author starts: if the process dies, the next knows the start by it."""
    return f"{kind}:{uuid4().hex}"


def _is_before_the_generators(waiting: Waiting) -> bool:
    return waiting.is_delayed or waiting.origin is Origin.ADDED or bool(waiting.tries)


def _is_start_by_author(waiting: Waiting) -> bool:
    """Return whether the author has started the item: its first attempt waits, and the cycle has not delayed it."""
    return waiting.attempt == 1 and not waiting.is_delayed and kind_of(waiting) in (WITH_COMMAND_LINE, AS_GIVEN)


def kind_of(waiting: Waiting) -> str:
    return (waiting.key or "").partition(":")[0]
