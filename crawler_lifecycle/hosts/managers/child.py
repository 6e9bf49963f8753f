"""Main for a manager's object: imports the author's module, and runs the manager for its host.

The process ends with its host: the process kills itself as soon as the connection to the host breaks.
"""

import logging
import signal
import socket
import sys
import threading
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from queue import SimpleQueue
from types import SimpleNamespace
from typing import Any, NoReturn, cast

from crawler_lifecycle.errors import NotFound, NotReady, PermanentError
from crawler_lifecycle.flows.authors.modules import Modules, authors_traceback, load
from crawler_lifecycle.hosts.children import Channel, end_with_children, end_with_parent
from crawler_lifecycle.hosts.managers.calls import CALLS, CLOCK, PROBLEM, WITHOUT_ANSWER
from crawler_lifecycle.managers.authors.arguments import BadArguments
from crawler_lifecycle.managers.authors.driving import drive
from crawler_lifecycle.managers.authors.link import AuthorsFailure, ManagerLink
from crawler_lifecycle.model.manager_items import CodeProblem


class HostChannel:
    """The host at the other end of the channel."""

    def __init__(self, channel: Channel) -> None:
        self._channel = channel
        self._messages: SimpleQueue[dict[str, Any]] = SimpleQueue()
        threading.Thread(target=self._receive, name="host", daemon=True).start()

    def link(self) -> ManagerLink:
        """Return the link to the ledger through the host: each call is a message."""
        calls = {name: partial(self._call, name) for name in CALLS}
        return cast(ManagerLink, SimpleNamespace(**calls, **{CLOCK: partial(datetime.now, UTC)}))

    def next_message(self) -> dict[str, Any]:
        return self._messages.get()

    def tell(self, message: dict[str, Any]) -> None:
        try:
            self._channel.send(message)
        except OSError:
            end_with_children()

    def _call(self, name: str, *arguments: Any, **named: Any) -> Any:
        self.tell({"call": name, "arguments": CALLS[name].in_order(*arguments, **named)})
        if name in WITHOUT_ANSWER:
            return None
        message = self.next_message()
        if "error" in message:
            raise PermanentError(message["error"])
        return CALLS[name].answer.validate_python(message["answer"])

    def _receive(self) -> None:
        while (message := self._channel.receive()) is not None:
            self._messages.put(message)
        end_with_children()


def main() -> NoReturn:
    end_with_parent(signal.SIGKILL)
    logging.basicConfig(level=logging.INFO, format="%(levelname)s %(name)s: %(message)s")  # the host takes the lines
    host = HostChannel(Channel(socket.socket(fileno=int(sys.argv[1]))))
    host.tell(_brought_on(host.link(), host.next_message()))
    host.next_message()  # the host ends the process
    end_with_children()


def _brought_on(link: ManagerLink, first: dict[str, Any]) -> dict[str, Any]:
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
