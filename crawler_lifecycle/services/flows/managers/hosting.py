"""Hosting: brings a claimed manager on, in one process after the other, until the manager's end is on record."""

import asyncio
import logging
import os
import threading
from concurrent.futures import Future
from dataclasses import dataclass
from time import monotonic
from typing import Any
from uuid import uuid4

from crawler_lifecycle.contract.flows.values import to_text
from crawler_lifecycle.contract.managers.turns import NO_EFFECTS, Intent, Problem
from crawler_lifecycle.domain.flows.ends import EndKind
from crawler_lifecycle.domain.flows.words import BY_REQUEST
from crawler_lifecycle.errors import Fenced, LifecycleError, TemporaryError
from crawler_lifecycle.ports import ClaimedStep, FlowSupervisors, ManagerLedger, ManagerRef
from crawler_lifecycle.services.flows.calling import work_of
from crawler_lifecycle.services.flows.children import Child
from crawler_lifecycle.services.flows.managers.calls import CALLS, PROBLEM
from crawler_lifecycle.services.flows.managers.desk import Desk, answer, patiently
from crawler_lifecycle.services.flows.managers.inbox import Box, Inbox
from crawler_lifecycle.services.flows.managers.starts import Starts
from crawler_lifecycle.services.flows.modules import Modules
from crawler_lifecycle.services.flows.outcomes import STOPPED, Ended
from crawler_lifecycle.settings.processes import FlowSettings

logger = logging.getLogger(__name__)
MAIN = "crawler_lifecycle.services.flows.managers.child"
LEAVE_SECONDS = 1.0  # time for an object to leave by itself
PAUSES = (1.0, 2.0, 5.0, 15.0, 60.0)  # seconds between processes after failures
OURS = ("CRAWLER_", "TEMPORAL_")  # beginnings of the names of our variables
DIED = "process"  # phase of an object whose process dies outside of author's code
CLOSE_REASONS = {Intent.STOP: "cancelled", Intent.LEAVE: "left", Intent.DRAIN: "drained"}


@dataclass(frozen=True)
class Patience:
    """Limits for authors' code."""

    hook_seconds: float
    page_seconds: float
    tries: int  # failures without progress until the manager is paused


@dataclass(frozen=True)
class Managers:
    """The managers of a host."""

    ledger: ManagerLedger
    supervisors: FlowSupervisors
    modules: Modules
    inbox: Inbox
    token: str
    patience: Patience

    def start(self, step: ClaimedStep) -> "ManagerRunning":
        """Bring the manager on. The host's event loop calls the method."""
        starts = Starts(self.ledger, self.supervisors, asyncio.get_running_loop())
        ref = ManagerRef(step.flow_uid, step.start.number, step.start.attempt, self.token)
        return ManagerRunning(self, step, ref, starts)


def managers_of(
    ledger: ManagerLedger, supervisors: FlowSupervisors, modules: Modules, token: str, settings: FlowSettings
) -> Managers:
    """Return the managers for a host that claims with the token."""
    patience = Patience(settings.hook_seconds, settings.page_seconds, settings.manager_tries)
    return Managers(ledger, supervisors, modules, Inbox(ledger, token), token, patience)


class ManagerRunning:
    """A manager under way, in a thread of the host. `end`: None if another host goes on with the manager."""

    def __init__(self, managers: Managers, step: ClaimedStep, ref: ManagerRef, starts: Starts) -> None:
        self._managers = managers
        self._ledger = managers.ledger
        self._step = step
        self._ref = ref
        self._starts = starts
        self._child = ""  # id of the present object's process
        self._box: Box = managers.inbox.open(ref)
        self._ended: Future[Ended] = Future()
        self.end: asyncio.Task[Ended] = asyncio.create_task(_awaited(self._ended))
        threading.Thread(target=self._run, name=step.path, daemon=True).start()

    def stop(self) -> None:
        """A cancel by people reaches the manager by its ledger."""
        self._box.wake()

    def leave(self) -> None:
        """Give the manager up at once, for another host."""
        self._box.leave()

    def _run(self) -> None:
        try:
            self._ended.set_result(self._brought_to_its_end())
        except Fenced as error:
            logger.info("manager %s of flow %s: %s", self._step.path, self._step.flow_id, error.message)
            self._ended.set_result(STOPPED)
        except TemporaryError as error:  # the host leaves the manager while the database is away
            logger.warning("manager %s of flow %s is left: %s", self._step.path, self._step.flow_id, error.message)
            self._ended.set_result(STOPPED)
        except Exception as error:
            logger.exception("manager %s of flow %s: the host failed", self._step.path, self._step.flow_id)
            self._ended.set_exception(error)
        finally:
            self._managers.inbox.close(self._ref)

    def _brought_to_its_end(self) -> Ended:
        """Run object after object until the end is on record. STOPPED: the host leaves the manager."""
        failures = 0
        while not self._box.must_leave:
            self._child = str(uuid4())
            desk = self._begun()
            if desk.begun.is_closed:
                return self._end_of(desk)
            if (ended := self._while_paused(desk)) is not None:
                return ended
            self._go_on_with_starts(desk)
            problem = self._object(desk)
            if desk.is_closed:
                return self._end_of(desk)
            if problem is None:
                continue
            failures = 1 if desk.has_progress else failures + 1
            self._note(desk, problem.model_copy(update={"failures": failures}))
            if failures < self._managers.patience.tries:
                self._pause(PAUSES[min(failures, len(PAUSES)) - 1])
        return STOPPED

    def _begun(self) -> Desk:
        """Return a desk for the present object; a repeated beginning is no further incarnation."""
        patience = self._managers.patience
        begun = patiently(lambda: self._ledger.begin(self._ref, self._child), self._box)
        return Desk(
            self._ledger, self._ref, begun, self._box, self._starts, patience.hook_seconds, patience.page_seconds
        )

    def _while_paused(self, desk: Desk) -> Ended | None:
        """Wait while a failure pauses the manager. Return the end if people end the manager meanwhile."""
        while patiently(lambda: self._ledger.problem(self._ref), self._box) is not None and not self._box.must_leave:
            intent = desk.intent()
            if intent in CLOSE_REASONS and (intent is Intent.LEAVE or not desk.running()):
                desk.close(CLOSE_REASONS[intent], NO_EFFECTS)
                return self._end_of(desk)
            self._pause(1.0)
        return STOPPED if self._box.must_leave else None

    def _go_on_with_starts(self, desk: Desk) -> None:
        """Make the starts that a former host has put on record."""
        patiently(lambda: self._starts.make(self._ref, self._ledger.unstarted(self._ref)), self._box)
        if desk.intent() is Intent.STOP:
            self._starts.stop(desk.running(), self._step.flow_id)

    def _object(self, desk: Desk) -> Problem | None:
        """Run an object in a process until the process ends. Return its failure."""
        modules = self._managers.modules
        child = Child(MAIN, _without_ours())
        self._box.kill = child.kill
        desk.box.deadline = monotonic() + self._managers.patience.page_seconds  # for the import
        folder = None if modules.folder is None else str(modules.folder)
        child.send({"targets": list(modules.targets), "folder": folder, "manager": work_of(self._step).function})
        leaving = threading.Thread(target=self._end_when_left, args=(child,), daemon=True)
        leaving.start()
        try:
            return self._serve(desk, child)
        finally:
            self._box.kill, self._box.deadline = None, None
            child.kill()

    def _serve(self, desk: Desk, child: Child) -> Problem | None:
        while (message := child.channel.receive()) is not None:
            if "failure" in message:
                return PROBLEM.validate_python(message["failure"])
            if "closed" in message:
                return None
            self._answer(desk, child, message)
        if desk.is_closed or self._box.must_leave:
            return None
        phase, job = desk.phase
        return Problem(phase=phase or DIED, job=job, error=f"the process of the manager {child.cause_of_end()}")

    def _answer(self, desk: Desk, child: Child, message: dict[str, Any]) -> None:
        name = message["call"]
        call = CALLS[name]
        try:
            value = answer(desk, name, call.arguments.validate_python(tuple(message["arguments"])))
        except (Fenced, TemporaryError):
            child.kill()
            raise
        except LifecycleError as error:
            child.send({"error": error.message})
            return
        child.send({"answer": call.answer.dump_python(value, mode="json")})

    def _end_when_left(self, child: Child) -> None:
        """Kill the process if it does not leave in time."""
        with self._box.changed:
            while child.is_alive and not self._box.must_leave:
                self._box.changed.wait(1.0)
        deadline = monotonic() + LEAVE_SECONDS
        while child.is_alive and monotonic() < deadline:
            threading.Event().wait(0.05)
        child.kill_if_alive()

    def _note(self, desk: Desk, problem: Problem) -> None:
        """Tell the failure in the flow's timeline; after too many failures, pause the manager."""
        logger.warning("manager %s of flow %s: %s failed", self._step.path, self._step.flow_id, problem.phase)
        if problem.failures >= self._managers.patience.tries:
            patiently(lambda: self._ledger.pause(self._ref, problem), self._box)
            return
        lines = problem.error.strip().splitlines() or [""]
        desk.commit(NO_EFFECTS.model_copy(update={"lines": (f"{problem.phase} failed: {lines[-1]}",)}))

    def _pause(self, seconds: float) -> None:
        with self._box.changed:
            if not self._box.must_leave:
                self._box.changed.wait(seconds)

    def _end_of(self, desk: Desk) -> Ended:
        """Return the step's end for a manager whose end is on record."""
        begun = self._begun().begun
        counts = desk.counts()
        result = {"close_reason": begun.close_reason, "counts": counts.model_dump(), "stats": begun.stats}
        if desk.intent() is Intent.STOP:
            return Ended(EndKind.CANCELLED, reason=BY_REQUEST)
        return Ended(EndKind.COMPLETED, outcome=begun.close_reason, result=to_text("result", result, 1_000_000))


def _without_ours() -> dict[str, str]:
    """Return the environment for author's code, without the host's own access to database and Temporal."""
    return {name: value for name, value in os.environ.items() if not name.startswith(OURS)}


async def _awaited(future: Future[Ended]) -> Ended:
    return await asyncio.wrap_future(future)
