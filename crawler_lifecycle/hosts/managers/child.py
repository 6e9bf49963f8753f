"""Main for a manager's object: imports the author's module, and runs the manager for its host.

The process ends with its host: the process kills itself as soon as the connection to the host breaks.
"""

import logging
import signal
import socket
import sys
import threading
from collections.abc import Collection, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from queue import SimpleQueue
from typing import Any, NoReturn

from crawler_lifecycle.errors import NotFound, NotReady, PermanentError
from crawler_lifecycle.flows.authors.modules import Modules, authors_traceback, load
from crawler_lifecycle.flows.model.turns import (
    Begun,
    Counts,
    Effects,
    ManagerIntent,
    Offered,
    Page,
    Reaction,
    Start,
    Wake,
)
from crawler_lifecycle.hosts.children import Channel, end_with_children, end_with_parent
from crawler_lifecycle.hosts.managers.calls import CALLS, PROBLEM
from crawler_lifecycle.managers.authors.arguments import BadArguments
from crawler_lifecycle.managers.authors.driving import drive
from crawler_lifecycle.managers.authors.link import AuthorsFailure
from crawler_lifecycle.model.manager_items import CodeProblem, Job, JobFilter, JobState, Waiting


class HostLink:
    """The link to the ledger through the host."""

    def __init__(self, channel: Channel) -> None:
        self._channel = channel
        self._messages: SimpleQueue[dict[str, Any]] = SimpleQueue()
        threading.Thread(target=self._receive, name="host", daemon=True).start()

    def next_message(self) -> dict[str, Any]:
        return self._messages.get()

    def tell(self, message: dict[str, Any]) -> None:
        try:
            self._channel.send(message)
        except OSError:
            end_with_children()

    def begin(self) -> Begun:
        begun: Begun = self._ask("begin")
        return begun

    def intent(self) -> ManagerIntent:
        intent: ManagerIntent = self._ask("intent")
        return intent

    def enter(self, phase: str, about: str | None = None) -> None:
        self.tell(_message("enter", phase, about))

    def ended(self, limit: int) -> Sequence[Job]:
        jobs: Sequence[Job] = self._ask("ended", limit)
        return jobs

    def react(self, reactions: Sequence[Reaction]) -> None:
        self._ask("react", list(reactions))

    def running(self) -> Sequence[Job]:
        jobs: Sequence[Job] = self._ask("running")
        return jobs

    def jobs(
        self, state: JobState, *, after: int = 0, limit: int, tags: Collection[str] = (), every_flow: bool = False
    ) -> Sequence[Job]:
        jobs: Sequence[Job] = self._ask("jobs", state, after, limit, list(tags), every_flow)
        return jobs

    def runs(self, chosen: JobFilter) -> Sequence[Job]:
        jobs: Sequence[Job] = self._ask("runs", chosen)
        return jobs

    def offer(self, page: Page) -> Offered:
        offered: Offered = self._ask("offer", page)
        return offered

    def waiting(self, limit: int, *, after: Waiting | None = None) -> Sequence[Waiting]:
        items: Sequence[Waiting] = self._ask("waiting", limit, after)
        return items

    def delay(self, numbers: Collection[int]) -> None:
        self._ask("delay", list(numbers))

    def start(self, starts: Sequence[Start]) -> Sequence[Job | str | None]:
        answers: Sequence[Job | str | None] = self._ask("start", list(starts))
        return answers

    def refuse(self, number: int, attempt: int, problem: str) -> None:
        self._ask("refuse", number, attempt, problem)

    def stop(self, reasons: Mapping[str, str] | None = None) -> None:
        self._ask("stop", None if reasons is None else dict(reasons))

    def commit(self, effects: Effects) -> Sequence[int]:
        numbers: Sequence[int] = self._ask("commit", effects)
        return numbers

    def find(self, keys: Collection[str]) -> Sequence[Job]:
        jobs: Sequence[Job] = self._ask("find", list(keys))
        return jobs

    def counts(self) -> Counts:
        counts: Counts = self._ask("counts")
        return counts

    def sleep(self, seconds: float | None, *, for_news: bool = True) -> Wake:
        wake: Wake = self._ask("sleep", seconds, for_news)
        return wake

    def wait_for(self, keys: Collection[str], seconds: float) -> Collection[str]:
        running: Collection[str] = self._ask("wait_for", list(keys), seconds)
        return running

    def close(self, reason: str, effects: Effects) -> bool:
        is_closed: bool = self._ask("close", reason, effects)
        return is_closed

    def now(self) -> datetime:
        return datetime.now(UTC)

    def _ask(self, name: str, *arguments: Any) -> Any:
        self.tell(_message(name, *arguments))
        message = self.next_message()
        if "error" in message:
            raise PermanentError(message["error"])
        return CALLS[name].answer.validate_python(message["answer"])

    def _receive(self) -> None:
        while (message := self._channel.receive()) is not None:
            self._messages.put(message)
        end_with_children()


def _message(name: str, *arguments: Any) -> dict[str, Any]:
    return {"call": name, "arguments": CALLS[name].arguments.dump_python(arguments, mode="json")}


def main() -> NoReturn:
    end_with_parent(signal.SIGKILL)
    logging.basicConfig(level=logging.INFO, format="%(levelname)s %(name)s: %(message)s")  # the host takes the lines
    link = HostLink(Channel(socket.socket(fileno=int(sys.argv[1]))))
    first = link.next_message()
    link.tell(_brought_on(link, first))
    link.next_message()  # the host ends the process
    end_with_children()


def _brought_on(link: HostLink, first: dict[str, Any]) -> dict[str, Any]:
    """Bring the manager on, and return the message about its end."""
    try:
        modules = load(first["targets"], None if first["folder"] is None else Path(first["folder"]))
        return {"closed": drive(_class(modules, first["manager"]), link)}
    except AuthorsFailure as failure:
        return _failure(failure.phase, failure.job, failure.error)
    except BadArguments as error:
        return _failure("", None, error.sentence)
    except NotReady as error:
        return _failure("", None, error.message)
    except (Exception, SystemExit) as error:  # noqa: BLE001 - author's code may raise any error while the object is made
        return _failure("", None, authors_traceback(error))


def _class(modules: Modules, name: str) -> Any:
    manager = modules.function(name)
    if problem := modules.broken.get(name.partition(":")[0]):
        raise NotReady(problem)
    if manager is None:
        raise NotFound(f"{name} is not in the modules")
    return manager


def _failure(phase: str, job: str | None, error: str) -> dict[str, Any]:
    """Return the message about a failure. Without a phase, the host knows the phase."""
    return {"failure": PROBLEM.dump_python(CodeProblem(phase=phase, job=job, error=error), mode="json")}


if __name__ == "__main__":
    main()
