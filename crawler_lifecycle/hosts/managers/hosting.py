"""Run a manager, restarting its process as needed, until its end is recorded.

A manager has a thread in the host. The thread serves the object's process, and waits in a single place: its box.
"""

import asyncio
import logging
import threading
from concurrent.futures import Future
from dataclasses import dataclass
from uuid import uuid4

from crawler_lifecycle import logs
from crawler_lifecycle.delivery.ports import FlowSupervisors
from crawler_lifecycle.errors import Fenced, TemporaryError
from crawler_lifecycle.flows.authors.modules import Modules
from crawler_lifecycle.flows.model.turns import NO_EFFECTS, Effects, ManagerIntent
from crawler_lifecycle.flows.model.values import to_text
from crawler_lifecycle.flows.ports.steps import BegunStep
from crawler_lifecycle.flows.rules.words import BY_REQUEST
from crawler_lifecycle.hosts.calling import work_of
from crawler_lifecycle.hosts.managers.crawls import PAUSES, Crawls, ManagerCatalogue
from crawler_lifecycle.hosts.managers.desk import Desk, Output, patiently
from crawler_lifecycle.hosts.managers.inbox import Inbox
from crawler_lifecycle.hosts.managers.process import ObjectProcess
from crawler_lifecycle.hosts.managers.setbacks import Phases, Setbacks, pause_after
from crawler_lifecycle.hosts.outcomes import STOPPED, Ended
from crawler_lifecycle.managers.ports import ManagerLedger, ManagerRef
from crawler_lifecycle.model.flow_states import EndKind
from crawler_lifecycle.model.manager_items import CodeProblem
from crawler_lifecycle.settings.processes import FlowSettings

logger = logging.getLogger(__name__)
LEAVE_SECONDS = 0.7  # time for an object to leave on its own
LOOK_SECONDS = 10.0  # between looks at a paused manager; news come earlier
LARGEST_RESULT = 1_000_000  # bytes
CLOSE_REASONS = {ManagerIntent.STOP: "cancelled", ManagerIntent.LEAVE: "left", ManagerIntent.DRAIN: "drained"}


@dataclass(frozen=True)
class Managers:
    """The managers of a host."""

    ledger: ManagerLedger
    supervisors: FlowSupervisors
    catalogue: ManagerCatalogue
    modules: Modules
    inbox: Inbox
    token: str
    settings: FlowSettings

    def start(self, step: BegunStep) -> "ManagerRunning":
        """Bring the manager on. The host's event loop calls the method."""
        return ManagerRunning(self, step)


def managers_of(
    ledger: ManagerLedger,
    supervisors: FlowSupervisors,
    catalogue: ManagerCatalogue,
    modules: Modules,
    token: str,
    settings: FlowSettings,
) -> Managers:
    """Return the managers for the host with the token."""
    return Managers(ledger, supervisors, catalogue, modules, Inbox(ledger, token), token, settings)


class ManagerRunning:
    """A manager under way, in a thread of the host. `end`: STOPPED if another host continues the manager."""

    def __init__(self, managers: Managers, step: BegunStep) -> None:
        self._managers = managers
        self._ledger = managers.ledger
        self._step = step
        self._ref = ref = ManagerRef(step.flow_uid, step.start.number, step.start.attempt, managers.token)
        self._about = {"flow": step.flow_id, "manager": step.path}
        self._crawls = Crawls(
            managers.ledger, managers.supervisors, ref, step.flow_id, self._note_change, managers.catalogue
        )
        self._box = managers.inbox.open(ref, self._crawls.stop)
        self._setbacks = Setbacks(managers.settings.manager_tries)
        self._output = Output()
        self._child = ""  # id of the present object's process
        self._process: ObjectProcess | None = None
        self._ended: Future[Ended] = Future()
        self.end: asyncio.Task[Ended] = asyncio.create_task(_awaited(self._ended))
        threading.Thread(target=self._run, name=step.path, daemon=True).start()

    def stop(self) -> None:
        """People's cancel reaches the manager by its ledger."""
        self._box.wake()

    def leave(self) -> None:
        """Give the manager up at once, for another host."""
        self._box.leave()
        timer = threading.Timer(LEAVE_SECONDS, self._kill)
        timer.daemon = True
        timer.start()

    def _kill(self) -> None:
        if self._process is not None:
            self._process.kill()

    def _note_change(self) -> None:
        self._box.note_change()

    def _run(self) -> None:
        end: Ended | Exception = STOPPED
        with logs.about(**self._about):
            try:
                end = self._brought_to_its_end()
            except Fenced as error:
                logger.info("the manager has another host: %s", error.message)
            except TemporaryError as error:  # the host leaves the manager while the database is away
                logger.warning("the manager is left: %s", error.message)
            except Exception as error:
                logger.exception("the host of the manager failed")
                end = error
        self._managers.inbox.close(self._ref, self._box)
        self._crawls.close()
        if isinstance(end, Exception):
            self._ended.set_exception(end)
        else:
            self._ended.set_result(end)

    def _brought_to_its_end(self) -> Ended:
        """Run object after object until the end is stored. STOPPED: the host leaves the manager."""
        is_first = True
        while not self._box.must_leave:
            self._child = str(uuid4())
            desk = self._begun()
            if is_first:
                self._setbacks.take_over(desk.begun.setbacks)
                is_first = False
            self._crawls.begin()
            if desk.begun.is_closed or self._closed_while_paused(desk):
                return self._after_close(desk)
            if self._box.must_leave:
                break
            problem = self._object(desk)
            if desk.is_closed:
                return self._after_close(desk)
            if problem is not None:
                self._after(problem, desk)
        return STOPPED

    def _begun(self) -> Desk:
        """Return a desk for the present object; a repeated beginning is no further incarnation."""
        managers, settings = self._managers, self._managers.settings
        begun = patiently(lambda: self._ledger.begin(self._ref, self._child), self._box)
        phases = Phases(settings.hook_seconds, settings.page_seconds)
        rest = (managers.catalogue, self._setbacks, phases, self._output)
        return Desk(self._ledger, self._ref, begun, self._box, self._crawls, *rest)

    def _closed_while_paused(self, desk: Desk) -> bool:
        """Wait while a failure pauses the manager. Return whether people have ended the manager meanwhile."""
        was_paused = False
        while not self._box.must_leave and patiently(lambda: self._ledger.problem(self._ref), self._box) is not None:
            was_paused, intent = True, desk.intent()
            if intent is ManagerIntent.STOP:
                self._crawls.stop()
            if self._may_close(intent, desk) and desk.close(CLOSE_REASONS[intent], NO_EFFECTS):
                return True
            self._wait_for_people(intent, 1.0 if intent in CLOSE_REASONS else LOOK_SECONDS, has_problem=True)
        if was_paused:
            self._setbacks.clear()
        return False

    def _may_close(self, intent: ManagerIntent, desk: Desk) -> bool:
        """Return whether a paused manager may close. A drained manager waits for the reactions to its ends as well."""
        if intent not in CLOSE_REASONS or intent is ManagerIntent.LEAVE:
            return intent is ManagerIntent.LEAVE
        if desk.running():
            return False
        return intent is ManagerIntent.STOP or not patiently(lambda: self._ledger.ended(self._ref, 1), self._box)

    def _object(self, desk: Desk) -> CodeProblem | None:
        """Run an object in a process until the process ends. Return its failure."""
        modules = self._managers.modules
        folder = None if modules.folder is None else str(modules.folder)
        function = work_of(self._step).function
        first = {"targets": list(modules.targets), "folder": folder, "manager": function}
        self._process = process = ObjectProcess(desk, self._about, first, modules.working_directory)
        try:
            return None if self._box.must_leave else process.serve()  # `leave` may have come before the process
        finally:
            self._process = None
            process.end()
            desk.keep_output(at_once=True)
            self._box.begin_object(None)

    def _after(self, problem: CodeProblem, desk: Desk) -> None:
        """Note the failure. A failing job is held back; otherwise, the next object comes after a pause.

        After too many failures, the manager is paused until people resume the flow.
        """
        holds_job = problem.job in desk.offered_ends.values()
        problem = self._setbacks.note(problem, holds_job=holds_job)
        logger.warning("%s failed, for the %d. time without progress", problem.phase, problem.failures)
        if self._setbacks.is_too_much(problem):
            self._setbacks.clear()  # after a resume, the counts begin anew
            desk.note_setbacks(NO_EFFECTS)
            patiently(lambda: self._ledger.pause(self._ref, problem), self._box)
            return
        lines = problem.error.strip().splitlines() or [""]
        desk.note_setbacks(Effects(lines=(f"{problem.phase} failed: {lines[-1]}",)))
        if not holds_job:
            self._wait_for_people(desk.intent(), pause_after(problem.failures))

    def _wait_for_people(self, intent: ManagerIntent, seconds: float, *, has_problem: bool = False) -> None:
        """Wait, but not longer than until people change the intent or clear the problem, or the host leaves."""
        box = self._box
        box.take()

        def is_over() -> bool:
            news = box.news
            return box.must_leave or (news is not None and (news.intent, news.has_problem) != (intent, has_problem))

        box.wait(is_over, seconds)

    def _after_close(self, desk: Desk) -> Ended:
        """Wait for the runs of all attempts: after the step's end, no host makes the last starts.

        STOPPED: the host leaves before.
        """
        looks = 0
        while not self._box.must_leave:
            if not patiently(lambda: self._ledger.unstarted(self._ref), self._box):
                return self._end_of(desk)
            looks += 1
            self._box.wait(lambda: self._box.must_leave, PAUSES.seconds(looks))  # no event announces a new run
        return STOPPED

    def _end_of(self, desk: Desk) -> Ended:
        """Return the step's end for a manager whose end is stored."""
        begun, intent = self._begun().begun, desk.intent()
        values = {"close_reason": begun.close_reason, "counts": desk.counts().model_dump(), "stats": begun.stats}
        result = to_text("result", values, LARGEST_RESULT)
        if intent in (ManagerIntent.STOP, ManagerIntent.LEAVE):
            return Ended(EndKind.CANCELLED, reason=BY_REQUEST, outcome=begun.close_reason, result=result)
        return Ended(EndKind.COMPLETED, outcome=begun.close_reason, result=result)


async def _awaited(future: Future[Ended]) -> Ended:
    return await asyncio.wrap_future(future)
