"""Process for a manager's object: its messages, its lines for the log, and the watch over its time."""

import logging
import os
import threading
from collections import deque
from collections.abc import Mapping
from pathlib import Path
from time import monotonic
from typing import Any

from crawler_lifecycle import logs
from crawler_lifecycle.errors import Fenced, LifecycleError, TemporaryError
from crawler_lifecycle.hosts.children import Child
from crawler_lifecycle.hosts.managers.calls import CALLS, PROBLEM, WITHOUT_ANSWER
from crawler_lifecycle.hosts.managers.desk import Desk
from crawler_lifecycle.hosts.managers.setbacks import Phases
from crawler_lifecycle.model.manager_items import CodeProblem

logger = logging.getLogger(__name__)
output = logging.getLogger("crawler_lifecycle.managers.output")
MAIN = "crawler_lifecycle.hosts.managers.child"
OURS = ("CRAWLER_", "TEMPORAL_")  # beginnings for our variables' names
END_SECONDS = 1.0  # from the last message to the process's end
NONSENSE = "the process of the manager has sent a message that is no call"


class ObjectProcess:
    """A process with the manager's object. A thread receives its messages, so its end wakes a waiting desk."""

    def __init__(self, desk: Desk, about: dict[str, str], first: Mapping[str, object], folder: Path) -> None:
        """Start the process in the folder. `first`: its first message. `about`: names for the log."""
        self._desk = desk
        self._about = about
        self._messages: deque[dict[str, Any] | None] = deque()
        desk.box.begin_object(self)
        self._child = Child(MAIN, _without_ours(), self._log, folder)
        self._child.channel.limit_sending(desk.phases.hook_seconds)
        self._child.send(first)
        threading.Thread(target=self._receive, name="manager-messages", daemon=True).start()

    def serve(self) -> CodeProblem | None:
        """Answer the object's calls until the process has ended. Return its failure."""
        problem = self._served()
        if self._desk.is_closed or self._desk.box.must_leave:
            return None
        return problem

    def kill(self) -> None:
        self._child.kill_if_alive()

    def end(self) -> None:
        """Kill the process, and wait for its last lines."""
        self._child.kill_if_alive()
        self._child.await_lines(END_SECONDS)

    def _served(self) -> CodeProblem | None:
        phases = self._desk.phases
        while True:
            try:
                message = self._next(phases)
            except TimeoutError:
                self.kill()
                return self._problem(f"author's code took longer than {phases.limit:g} s")
            if message is None:
                return self._problem(f"the process of the manager {self._child.cause_of_end(END_SECONDS)}")
            if (last := self._last(message)) is not None:
                return last
            self._take(message)
            if self._desk.is_outdated:
                logger.info("a run was reopened after the reaction to its end: the object is made anew")
                return None

    def _next(self, phases: Phases) -> dict[str, Any] | None:
        """Wait for a message; None: the process has ended. TimeoutError: author's code takes too long."""
        box, began_at = self._desk.box, monotonic()
        if not box.wait(lambda: bool(self._messages), phases.remaining):
            raise TimeoutError
        phases.spend(monotonic() - began_at)
        return self._messages.popleft()

    def _last(self, message: dict[str, Any]) -> CodeProblem | None:
        """Return the failure in the object's last message; None for a call."""
        if "closed" in message:
            return self._problem("the object has ended, and its end is not recorded")
        try:
            if "failure" in message:
                failure = PROBLEM.validate_python(message["failure"])
                return failure if failure.phase else self._problem(failure.error)
            message["arguments"] = CALLS[message["call"]].arguments.validate_python(tuple(message["arguments"]))
        except (ValueError, KeyError, TypeError):
            logger.warning("%s", NONSENSE, exc_info=True)
            return self._problem(NONSENSE)
        return None

    def _take(self, call: dict[str, Any]) -> None:
        name = call["call"]
        try:
            answer = self._answer(name, call["arguments"])
        except TemporaryError:
            if self._desk.box.must_leave:
                raise
            return  # the process has ended while the database is away
        # an outdated object gets no answer: it would call the next hook before its end
        if name not in WITHOUT_ANSWER and not self._desk.is_outdated:
            self._child.send(answer)

    def _answer(self, name: str, arguments: tuple[Any, ...]) -> dict[str, Any]:
        call = CALLS[name].bound(arguments)
        try:
            value = getattr(self._desk, name)(*call.args, **call.kwargs)
        except (Fenced, TemporaryError):
            raise
        except LifecycleError as error:
            return {"error": error.message}
        return {"answer": CALLS[name].answer.dump_python(value, mode="json")}

    def _problem(self, error: str) -> CodeProblem:
        phases = self._desk.phases
        return CodeProblem(phase=phases.name, job=phases.about, error=error)

    def _receive(self) -> None:
        while (message := self._child.channel.receive()) is not None:
            self._put(message)
        self._put(None)
        self._desk.box.end_object(self)

    def _put(self, message: dict[str, Any] | None) -> None:
        self._messages.append(message)
        self._desk.box.wake()

    def _log(self, line: str) -> None:
        with logs.about(**self._about):
            output.info("%s", line)
        self._desk.output.add(line)
        self._desk.box.wake()


def _without_ours() -> dict[str, str]:
    """Return the environment for author's code, without the host's own access to database and Temporal.

    Settings are read in capitals and small letters.
    """
    return {name: value for name, value in os.environ.items() if not name.upper().startswith(OURS)}
