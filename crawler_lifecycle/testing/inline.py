"""Run a workflow in memory from its push to its end, and return the result."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Self

from crawler_lifecycle.flows.authors.running import Context
from crawler_lifecycle.flows.authors.workflow import Workflow
from crawler_lifecycle.flows.model.records import FlowStatus, Why
from crawler_lifecycle.model.flow_states import FlowState, MemberState
from crawler_lifecycle.testing.memory import NOW
from crawler_lifecycle.testing.outcomes import Answer, Time
from crawler_lifecycle.testing.play import Play
from crawler_lifecycle.testing.scenario import Crawl, Failure, Scenario


def run_inline(
    workflow: Workflow,
    *,
    crawls: Mapping[str, Crawl | Sequence[Crawl]] | None = None,
    fails: Mapping[str, int | Sequence[Failure]] | None = None,
    approvals: Mapping[str, bool | Answer] | None = None,
    results: Mapping[str, Any] | None = None,
    takes: Mapping[str, Time] | None = None,
    deaths: Mapping[str, int] | None = None,
    calls: bool = True,
    now: datetime = NOW,
) -> "Result":
    """Run the workflow in memory, in virtual time, and return its end.

    Steps' functions are called. Crawls complete, and approvals wait, except where the arguments choose outcomes: see
    Scenario. Keys are jobs' paths, patterns such as `sites/*`, and for crawls also crawlers' names.
    """
    scenario = Scenario(
        crawls=crawls or {},
        fails=fails or {},
        approvals=approvals or {},
        results=results or {},
        takes=takes or {},
        deaths=deaths or {},
        calls=calls,
    )
    play = Play(workflow, scenario, now=now)
    play.run()
    play.check_scenario()
    return Result(play)


@dataclass(frozen=True)
class Result:
    """A workflow after a play. Dicts have jobs' paths as keys."""

    play: Play

    @property
    def status(self) -> FlowStatus:
        return self.play.status

    @property
    def state(self) -> FlowState:
        return self.status.state

    @property
    def ok(self) -> bool:
        """Whether all jobs without dependents are completed."""
        return self.status.ok

    @property
    def counts(self) -> dict[MemberState, int]:
        return self.status.counts

    @property
    def order(self) -> list[str]:
        """Started jobs' paths in order. A job with several attempts is in the list several times."""
        return self.play.order

    @property
    def states(self) -> dict[str, str]:
        return self.play.states

    @property
    def reasons(self) -> dict[str, str]:
        """Reasons for ends without success; without a reason, the words for the ends."""
        rows = self.play.ledger.members.values()
        failed = [row for row in rows if row.state.is_final and row.state is not MemberState.COMPLETED]
        return {row.path: row.reason or row.outcome or "" for row in failed}

    @property
    def open(self) -> list[str]:
        """Waiting jobs, such as an approval without an answer."""
        return [row.path for row in self.play.ledger.members.values() if not row.is_settled]

    @property
    def attempts(self) -> dict[str, int]:
        """Attempts' numbers."""
        return {row.path: row.attempt for row in self.play.ledger.members.values()}

    @property
    def started(self) -> dict[str, datetime]:
        """First starts."""
        return {row.path: row.started_at for row in self.play.ledger.members.values() if row.started_at is not None}

    @property
    def ended(self) -> dict[str, datetime]:
        """Last ends."""
        return {row.path: row.ended_at for row in self.play.ledger.members.values() if row.ended_at is not None}

    @property
    def duration(self) -> timedelta | None:
        return self.status.duration

    @property
    def contexts(self) -> dict[str, Context]:
        """Contexts as the functions got them in their last attempts."""
        return self.play.seen

    @property
    def results(self) -> dict[str, Any]:
        """Recorded results, crawls' receipts and decisions."""
        return {self.play.ledger.members[number].path: value for number, value in self.play.results().items()}

    @property
    def errors(self) -> dict[str, BaseException]:
        """Functions' last exceptions."""
        return self.play.errors

    @property
    def requests(self) -> dict[str, list[dict[str, Any]]]:
        """Requests for the crawls' runs, in order: crawler, arguments and further parameters."""
        return {
            path: [run.request.model_dump(mode="json", exclude_defaults=True, exclude={"flow"}) for run in runs]
            for path, runs in self.play.played_runs.items()
        }

    def recorded(self, path: str) -> Any:
        """Return a job's result, or a nested dict for a sub-workflow; None without a result."""
        return self.play.recorded(path)

    def why(self, path: str) -> Why:
        """Return why a job is in its state."""
        return self.play.why(path)

    def assert_completed(self) -> Self:
        """Raise AssertionError, with the first exception as its cause, unless all jobs are completed."""
        if self.state is not FlowState.COMPLETED:
            raise AssertionError(self._story()) from next(iter(self.errors.values()), None)
        return self

    def _story(self) -> str:
        lines = [f"the flow is {self.state}"]
        for path, state in self.states.items():
            if state != MemberState.COMPLETED:
                error, cause = self.errors.get(path), self.why(path).cause or self.reasons.get(path)
                text = f"{type(error).__name__}: {error}" if error is not None else cause
                lines.append(f"  {path}: {state}" + (f", {text}" if text else ""))
        return "\n".join(lines)
