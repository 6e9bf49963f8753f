"""A play whose acts are given beforehand: each act comes at one of the manager's waits."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import timedelta

from crawler_lifecycle.flows.model.requests import RetryItems
from crawler_lifecycle.flows.model.turns import Counts
from crawler_lifecycle.flows.ports.steps import StepEnd
from crawler_lifecycle.flows.rules.messages import AttemptRef, ReadFlow
from crawler_lifecycle.managers.authors.workflow_manager import BaseLoopScript
from crawler_lifecycle.managers.ports import ManagerRef
from crawler_lifecycle.model.flow_states import EndKind
from crawler_lifecycle.runs.ports import SupervisorExecution
from crawler_lifecycle.testing import ManagerPlay, StartedJob
from crawler_lifecycle.testing.managed import FOR_EVER, HOST
from tests.kit.data.managers import Managed

Act = Callable[["Play"], object]


@dataclass
class Play:
    """A manager, object after object. Without further acts, the object is left."""

    kit: ManagerPlay

    def run(self, *acts: Act) -> str | None:
        """Run a new object with these acts. Return the close reason; None: the object was left."""
        self.kit.replace()
        self.kit.cycle()
        for act in acts:
            if self.kit.close_reason is None:
                act(self)
                self.kit.cycle()
        self.kit.replace()
        return self.kit.close_reason

    def crash(self, at: str, *acts: Act) -> None:
        """Run a new object with these acts; its process dies at the point."""
        self.kit.replace()
        deaths = self.kit.deaths
        self.kit.stage.is_fatal = lambda point: point == at and self.kit.deaths == deaths
        self.run(*acts)
        assert self.kit.deaths > deaths, f"the manager did not reach {at!r}"

    def end(self, *numbers: int, outcome: str = "finished") -> Act:
        return lambda _: self.end_now(*numbers, outcome=outcome)

    def end_now(self, *numbers: int, outcome: str = "finished") -> None:
        """End the running jobs with these numbers, or all."""
        for number in numbers or (None,):
            self.kit.end(number, outcome)

    @property
    def flow(self) -> Managed:
        managed = self.kit.managed
        return Managed(managed.store, managed.id, managed.uid, ref_to_manager=managed.ref)

    @property
    def manager(self) -> BaseLoopScript:
        return self.kit.manager

    @property
    def counts(self) -> Counts:
        return self.kit.counts

    @property
    def started(self) -> list[StartedJob]:
        return self.kit.started

    @property
    def numbers(self) -> list[int]:
        return [start.number for start in self.started]

    @property
    def spiders(self) -> list[str]:
        return [start.spider for start in self.started]

    @property
    def arguments(self) -> list[dict[str, str]]:
        return [dict(start.arguments) for start in self.started]

    @property
    def tags(self) -> list[Sequence[str]]:
        return [start.tags for start in self.started]

    @property
    def slept(self) -> list[float | None]:
        return self.kit.slept


def nothing(_: Play) -> None:
    """Let a cycle pass."""


def later(seconds: float) -> Act:
    """Let time pass, and no cycle."""

    def act(play: Play) -> None:
        play.kit.managed.clock.now += timedelta(seconds=seconds)

    return act


def play_of(make: Callable[[], BaseLoopScript], *arguments: str) -> Play:
    return Play(ManagerPlay(make, *arguments, family="shops"))


def retry_items(kit: ManagerPlay, *numbers: int) -> None:
    """Let items be tried again, or all failed items, as people do. A closed manager begins again."""
    managed, ref = kit.managed, kit.managed.ref
    if kit.close_reason is not None:
        former = AttemptRef(number=ref.member, generation=1, attempt=ref.attempt)
        end = StepEnd(managed.uid, former, EndKind.COMPLETED, kit.now)
        assert managed.store.step_ledger.end([end], HOST)
    managed.store.manager_doors.retry_items(managed.id, RetryItems(numbers=numbers or None))
    if kit.close_reason is not None:
        managed.ref, kit.close_reason = _claimed_again(kit), None


def _claimed_again(kit: ManagerPlay) -> ManagerRef:
    """Claim the attempt in the member's next generation as a host does."""
    managed = kit.managed
    flow = managed.store.flow_ledger.begin(managed.uid, SupervisorExecution(f"flow-{managed.uid}", "again", None))
    page = managed.store.flow_ledger.read(ReadFlow(flow=flow, since=-1))
    (member,), _ = page.rows.unpacked()
    start = AttemptRef(number=member.number, generation=member.generation, attempt=managed.ref.attempt + 1)
    managed.store.step_ledger.renew(HOST, FOR_EVER)
    claimed = managed.store.step_ledger.begin(flow, page.door, [start], HOST, HOST)
    assert not claimed.stale, "the manager's attempt is not free"
    return ManagerRef(managed.uid, member.number, start.attempt, HOST)
