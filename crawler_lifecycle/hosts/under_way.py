"""The process's claimed attempts under way, and the outcomes for waiting activities."""

import asyncio
import logging
from collections.abc import Callable, Collection, Iterable, Mapping
from datetime import timedelta

from crawler_lifecycle.flows.ports.claims import AttemptKey, ClaimedStep, StepClaims
from crawler_lifecycle.hosts.attempts import NOT_ENDED, CallOutcome, Execution, Gone
from crawler_lifecycle.hosts.claiming import HostLease
from crawler_lifecycle.hosts.functions import new_link
from crawler_lifecycle.hosts.slots import Slots

logger = logging.getLogger(__name__)


class UnderWay:
    """Attempts by key. All methods belong to the host's event loop."""

    def __init__(
        self,
        claims: StepClaims,
        token: str,
        lasts: timedelta,
        release: Callable[[Collection[AttemptKey]], None],
    ) -> None:
        """Make the table. `release`: called for claims without an attempt under way, which renewals would keep."""
        self._release = release
        self._outcomes: dict[AttemptKey, asyncio.Future[CallOutcome]] = {}
        self._executions: dict[AttemptKey, Execution] = {}
        self._loop = asyncio.get_running_loop()
        self.lease = HostLease(claims, token, lasts, lambda: set(self._executions), self._notify)

    @property
    def executions(self) -> list[Execution]:
        return list(self._executions.values())

    def outcome(self, key: AttemptKey) -> "asyncio.Future[CallOutcome] | None":
        return self._outcomes.get(key)

    def is_claimed(self, key: AttemptKey) -> bool:
        """Return whether the process has a claim on the attempt, and not only asks for a claim."""
        return key in self._executions

    def reserve(self, key: AttemptKey) -> "asyncio.Future[CallOutcome]":
        """Note the attempt before its claim: a second activity waits for the outcome, and claims nothing."""
        future: asyncio.Future[CallOutcome] = asyncio.get_running_loop().create_future()
        self._outcomes[key] = future
        return future

    def execute(self, step: ClaimedStep, slots: Slots) -> Execution:
        """Note the claimed step. `slots`: the step's slot comes from here."""
        execution = Execution(step, slots, new_link(step))
        self._executions[execution.key] = execution
        return execution

    def settle(self, key: AttemptKey, outcome: CallOutcome | Exception = NOT_ENDED) -> None:
        """Tell the outcome to all waiting activities. The attempt is under way no longer."""
        self._executions.pop(key, None)
        future = self._outcomes.pop(key, None)
        if future is None or future.done():
            return
        if isinstance(outcome, Exception):
            future.set_exception(outcome)
            future.exception()  # without a waiting activity, the error is in the log already
        else:
            future.set_result(outcome)

    def settle_all(self, keys: Iterable[AttemptKey] | None = None) -> None:
        for key in list(self._outcomes if keys is None else keys):
            self.settle(key)

    async def wait(self, executions: Collection[Execution], seconds: float | None = None) -> None:
        futures = [self._outcomes[execution.key] for execution in executions if execution.key in self._outcomes]
        if futures:
            await asyncio.wait(futures, timeout=seconds)

    def _notify(self, held: Collection[AttemptKey], renewed: Mapping[AttemptKey, bool]) -> None:
        """Pass the renewals' news on from their thread."""
        self._loop.call_soon_threadsafe(self._take_news, held, renewed)

    def _take_news(self, held: Collection[AttemptKey], renewed: Mapping[AttemptKey, bool]) -> None:
        """Take a renewal's news: give lost attempts up, and stop attempts after people's cancels."""
        for key, execution in list(self._executions.items()):
            if key in held and key not in renewed:
                execution.leave(Gone.LOST)
            elif renewed.get(key):
                execution.stop()
        unused = renewed.keys() - self._outcomes.keys()
        if unused:
            self._release(unused)
