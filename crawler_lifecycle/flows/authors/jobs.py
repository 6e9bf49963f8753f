"""Jobs, as authors know them: a crawl, a step or an approval, with options for its start and its retries."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from typing import Any, ClassVar, Self, TypedDict, TypeVar, Unpack

from pydantic import JsonValue

from crawler_lifecycle.base.limits import LARGEST_ARGUMENTS, MOST_ATTEMPTS
from crawler_lifecycle.base.names import checked_text, did_you_mean
from crawler_lifecycle.errors import BadInput
from crawler_lifecycle.flows.model.definition import ApprovalWork, CallForm, CrawlWork, ManagerWork, StepWork, Work
from crawler_lifecycle.flows.model.values import check_size, encode, size_of
from crawler_lifecycle.model.flow_retrying import RetryPolicy
from crawler_lifecycle.model.flow_states import Ready
from crawler_lifecycle.model.requests import RunParameters, RunRequest, refusals_as_bad_input
from crawler_lifecycle.model.retries import Retries
from crawler_lifecycle.model.states import Report

Kind = TypeVar("Kind")
START_OPTIONS = ("priority", "scheduled_at", "schedule_in")
RETRY_OPTIONS = ("max_attempts", "retries", "retry")
ARGUMENT_NAMES = ("args", "kwargs", "arguments")  # options in Chancy and Oban


class JobOptions(TypedDict, total=False):
    """Options for a job. Higher priorities start first; times may be seconds or a timedelta."""

    queue: str
    priority: int
    max_attempts: int
    retries: int  # attempts after the first
    retry: RetryPolicy
    timeout: float | timedelta
    scheduled_at: datetime
    schedule_in: float | timedelta
    isolate: bool
    tags: Iterable[str]  # words for the function, as `job.tags`
    when: str  # "ended" or "archived": when a crawl counts as completed for its dependents


@dataclass(frozen=True, kw_only=True)
class Job:
    """Options for all kinds. A job is immutable: a `with_` method returns another job."""

    priority: int = 0
    retry: RetryPolicy = field(default_factory=RetryPolicy)
    start_at: datetime | None = None
    delay_seconds: float | None = None
    options: ClassVar[tuple[str, ...]] = (*START_OPTIONS, *RETRY_OPTIONS)

    @property
    def title(self) -> str:
        """Name for pictures."""
        raise NotImplementedError

    @property
    def work(self) -> Work:
        """Work in the form of the contract."""
        raise NotImplementedError

    def with_priority(self, priority: int) -> Self:
        return self.with_options(priority=priority)

    def with_max_attempts(self, max_attempts: int) -> Self:
        return self.with_options(max_attempts=max_attempts)

    def with_scheduled_at(self, scheduled_at: datetime) -> Self:
        return self.with_options(scheduled_at=scheduled_at)

    def with_options(self, **options: Unpack[JobOptions]) -> Self:
        """Return the job with these options over its own; raise BadInput for unknown options."""
        changed = self
        for name, value in options.items():
            changed = changed._with(name, value)
        return changed

    def _with(self, name: str, value: Any) -> Self:
        if name == "priority":
            return replace(self, priority=_number(name, value))
        if name in ("max_attempts", "retries"):
            number = _number(name, value) + (name == "retries")
            if not 1 <= number <= MOST_ATTEMPTS:
                raise BadInput(name, f"makes {number} attempts, 1 to {MOST_ATTEMPTS} are possible")
            return replace(self, retry=self.retry.model_copy(update={"max_attempts": number}))
        if name == "retry":
            return replace(self, retry=_checked(name, value, RetryPolicy))
        if name == "scheduled_at":
            return replace(self, start_at=_moment(name, value))
        if name == "schedule_in":
            return replace(self, delay_seconds=seconds(name, value))
        raise BadInput(name, f"is no option of {self.title!r}{_possible(self, name)}")


@dataclass(frozen=True, kw_only=True)
class StepJob(Job):
    """A call to a function in the author's code."""

    options: ClassVar[tuple[str, ...]] = (*START_OPTIONS, *RETRY_OPTIONS, "queue", "timeout", "isolate", "tags")

    function: str
    form: CallForm = CallForm.CONTEXT
    arguments: JsonValue = None
    queue: str = "default"
    timeout_seconds: float | None = None
    isolate: bool = False
    tags: tuple[str, ...] = ()
    required: tuple[str, ...] = ()  # parameters for dependencies or context values
    keywords: tuple[str, ...] | None = field(default=None, compare=False)  # known parameters; None: no check

    @property
    def title(self) -> str:
        return self.work.title

    @property
    def work(self) -> StepWork:
        return StepWork(
            function=self.function,
            form=self.form,
            arguments=self.arguments,
            queue=self.queue,
            timeout_seconds=self.timeout_seconds,
            isolate=self.isolate,
            tags=self.tags,
        )

    def with_queue(self, queue: str) -> Self:
        return self.with_options(queue=queue)

    def with_kwargs(self, kwargs: Mapping[str, object] | None = None, /, **further: object) -> Self:
        """Return the job with keywords for its function, given as a dict or as keywords."""
        given = {**(kwargs or {}), **further}
        for name in given:
            if self.keywords is not None and name not in self.keywords:
                raise BadInput("arguments", f"{self.title} has no parameter {name!r}{_known(name, self.keywords)}")
        return self.with_arguments(given)

    def with_arguments(self, arguments: object) -> Self:
        encoded = encode("arguments", arguments)
        check_size(f"arguments of {self.function}", size_of(encoded), LARGEST_ARGUMENTS)
        return replace(self, arguments=encoded)

    def _with(self, name: str, value: Any) -> Self:
        if name == "queue":
            return replace(self, queue=_checked(name, value, str))
        if name == "timeout":
            return replace(self, timeout_seconds=seconds(name, value))
        if name == "isolate":
            return replace(self, isolate=_checked(name, value, bool))
        if name == "tags":
            return replace(self, tags=_tags(name, value))
        return super()._with(name, value)


@dataclass(frozen=True, kw_only=True)
class CrawlJob(Job):
    """A crawler's run."""

    options = (*START_OPTIONS, *RETRY_OPTIONS, "timeout", "when")

    request: RunParameters
    ready: Ready = Ready.ENDED
    label: str | None = None
    has_report: bool = True  # else the workflow's report counts

    @property
    def title(self) -> str:
        return self.request.crawler

    def reporting(self, report: Report | None) -> "CrawlJob":
        """Return the job with the workflow's report, unless the crawl has its own or the workflow has none."""
        if self.has_report or report is None:
            return self
        return replace(self, request=self.request.model_copy(update={"report": report}))

    @property
    def work(self) -> CrawlWork:
        return CrawlWork(request=self.request, ready=self.ready, label=self.label)

    def _with(self, name: str, value: Any) -> Self:
        if name == "when":
            if value not in tuple(Ready):
                raise BadInput(name, f"expected {' or '.join(Ready)}, not {value!r}")
            return replace(self, ready=Ready(value))
        if name == "timeout":
            limit = {"max_duration_seconds": max(1, round(seconds(name, value)))}
            return replace(self, request=self.request.model_copy(update=limit))
        return super()._with(name, value)


@dataclass(frozen=True, kw_only=True)
class ApprovalJob(Job):
    """A wait for a person's decision."""

    options = (*START_OPTIONS, "timeout")

    note: str | None = None
    timeout_seconds: float | None = None

    @property
    def title(self) -> str:
        return self.work.title

    @property
    def work(self) -> ApprovalWork:
        return ApprovalWork(note=self.note, timeout_seconds=self.timeout_seconds)

    def _with(self, name: str, value: Any) -> Self:
        if name == "timeout":
            return replace(self, timeout_seconds=seconds(name, value))
        if name in ("max_attempts", "retries", "retry"):
            raise BadInput(name, "is no option of an approval")
        return super()._with(name, value)


@dataclass(frozen=True, kw_only=True)
class NamedManagerJob(Job):
    """A crawl manager by its name in the catalogue, which has its class and its queue."""

    options: ClassVar[tuple[str, ...]] = START_OPTIONS

    named: ManagerWork

    @property
    def title(self) -> str:
        return self.named.title

    @property
    def work(self) -> ManagerWork:
        return self.named

    def _with(self, name: str, value: Any) -> Self:
        if name not in self.options:
            raise BadInput(name, f"is no option of a manager by its name; possible are {', '.join(self.options)}")
        return super()._with(name, value)


class CrawlParameters(TypedDict, total=False):
    """Parameters for a crawl's run, as for `crawlctl run`."""

    arguments: dict[str, str]
    settings: dict[str, str]
    tasks: int
    max_parallel: int
    allowed_failures: float
    memory_factor: float
    start_limit_seconds: int
    max_duration_seconds: int
    grace_seconds: int
    retries: Retries
    labels: list[str]  # for permits, beside `label`
    priority: int  # in the line for permits, from -100 to 100; default: the job's own priority
    tags: list[str]  # words for lists of runs
    report: str  # "all", "end" or "none": the notices of the run
    requested_by: str


def crawl(crawler: str, *, label: str | None = None, **parameters: Unpack[CrawlParameters]) -> CrawlJob:
    """Return a job that runs a crawler. `label`: for permits, such as `site:example.com`."""
    unknown = sorted(parameters.keys() - CrawlParameters.__optional_keys__)
    if unknown:
        raise BadInput(
            unknown[0], f"is no parameter of a crawl; possible are {sorted(CrawlParameters.__optional_keys__)}"
        )
    report = as_report(parameters.get("report"))
    with refusals_as_bad_input():
        request = RunRequest.model_validate({"crawler": crawler, **parameters, "report": report or Report.ALL})
        run = RunParameters.model_validate(request.model_dump())
        job = CrawlJob(request=run, label=label, has_report=report is not None)
        job.work  # noqa: B018 - the contract checks the label
    return job


def as_report(value: str | None) -> Report | None:
    if value is not None and value not in tuple(Report):
        raise BadInput("report", f"expected {', '.join(Report)}, not {value!r}")
    return None if value is None else Report(value)


def seconds(name: str, value: object) -> float:
    """Return a duration in seconds; raise BadInput for a value other than a positive duration."""
    number = value.total_seconds() if isinstance(value, timedelta) else value
    if isinstance(number, bool) or not isinstance(number, int | float) or not 0 < number < float("inf"):
        raise BadInput(name, f"expected a positive number of seconds or a timedelta, not {value!r}")
    return float(number)


def _possible(job: Job, name: str) -> str:
    """End a refusal with all options, and for arguments with the method for keywords."""
    is_hinted = isinstance(job, StepJob) and name in ARGUMENT_NAMES
    hint = f"; give keywords by @job() at the function, and {job.title}.job.with_kwargs(...)" if is_hinted else ""
    return f"; possible are {', '.join(job.options)}{hint}"


def _known(name: str, keywords: tuple[str, ...]) -> str:
    """End a refusal with the nearest parameter, or with all parameters."""
    if hint := did_you_mean(name, keywords):
        return hint
    return f"; it has {', '.join(map(repr, keywords))}" if keywords else "; it has none"


def _number(name: str, value: object) -> int:
    if isinstance(value, bool) or not isinstance(value, int):
        raise BadInput(name, f"expected a whole number, not {value!r}")
    return value


def _moment(name: str, value: object) -> datetime:
    if not isinstance(value, datetime) or value.tzinfo is None:
        raise BadInput(name, f"expected a time with a time zone, not {value!r}")
    return value


def _tags(name: str, value: object) -> tuple[str, ...]:
    """Return the tags in lower case and in their order, without repetitions."""
    if isinstance(value, str) or not isinstance(value, Iterable):
        raise BadInput(name, f"expected a list of texts, not {value!r}")
    return tuple(sorted({checked_text(name, tag).strip().lower() for tag in value}))


def _checked(name: str, value: object, kind: type[Kind]) -> Kind:
    if not isinstance(value, kind):
        raise BadInput(name, f"expected {kind.__name__}, not {value!r}")
    return value
