"""WorkFlowManager with its bases: the name, command line, tags, stats and state of every manager."""

import argparse
import logging
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from importlib import import_module
from pprint import pformat
from typing import Any, ClassVar
from uuid import uuid4

from crawler_lifecycle.errors import BadInput
from crawler_lifecycle.flows.authors.program import run_manager
from crawler_lifecycle.flows.model.turns import Begun, Counts, Effects
from crawler_lifecycle.managers.authors.arguments import (
    ManagerParser,
    given,
    number_of_jobs,
    program_name,
    with_program,
)
from crawler_lifecycle.managers.authors.collecting import Collected, Stats
from crawler_lifecycle.managers.authors.link import ManagerLink
from crawler_lifecycle.managers.authors.owned_jobs import checked_word, job_dict, milliseconds
from crawler_lifecycle.managers.authors.parameters import JobDict, JobKey
from crawler_lifecycle.managers.authors.requesting import project_labels, request_of
from crawler_lifecycle.managers.authors.starting import JobStarts
from crawler_lifecycle.managers.authors.tasks import script_params
from crawler_lifecycle.model.manager_items import JobState

logger = logging.getLogger(__name__)
FILES = "crawler_lifecycle.files"  # by name: a manager without files needs no client for S3
PROJECT_ID = "PROJECT_ID"  # variable with the project of all jobs
FINISHING, OWN_TAGS = "finishing", "own_tags"  # subjects in the stored memory
KEPT_TAGS = ("FLOW_ID=", "NAME=", "PARENT_NAME=")
FINISHED = "finished"  # close reason of a manager without another reason
WITH_FAILURES = "finished_with_failures"


@dataclass(frozen=True)
class Project:
    """A project as `get_project` returns it."""

    key: str


class BaseScript(JobStarts):
    """The base of scripts: command line, flow, tags, stats and state. Authors derive from BaseLoopScript on."""

    name: str = ""
    flow_id_required: bool = False
    default_project_id: int | str | None = None
    children_tags: Sequence[str] = ()
    PROGRAMS: ClassVar[Mapping[str, Mapping[str, Any]]] = {}

    def __init__(self) -> None:
        super().__init__()
        self.is_resumed = False
        self._begun: Begun | None = None
        self.close_reason: str | None = None  # by `finish`
        self._asked_to_stop: set[JobKey] = set()
        self._collected = Collected()
        self._flow_tags: list[str] = []
        self._children_tags: list[str] = []
        self.args = argparse.Namespace()
        self._close_reason: str | None = None
        self._own_reason: str | None = None  # of the present cycle, without a request by the author
        program = program_name(self.name or type(self).__name__)
        self.argparser = ManagerParser(prog=program, description=self.description, epilog=self._programs_help())
        self.add_argparser_options()
        self.args = self.parse_args()
        try:
            self._take_arguments()
        except BadInput as error:  # the parser ends the process's own command line with the usage and the cause
            self.argparser.error(f"argument --{error.field.replace('_', '-')}: {error.expected}")

    @property
    def description(self) -> str:
        return type(self).__doc__ or ""

    # the command line

    def add_argparser_options(self) -> None:
        add = self.argparser.add_argument
        add("--project-id", default=self.default_project_id, help="project of all jobs: their label `project:ID`")
        add("--flow-id", help="family of the flow; default: a new id")
        add("--children-tag", "-t", action="append", default=[], help="tag for all jobs; may be repeated")
        add("--load-sc-settings", action="store_true", help="refused: settings come from the catalogue")

    def _programs_help(self) -> str | None:
        """Return the end of the help: the names in PROGRAMS with descriptions, and the options around them."""
        if not self.PROGRAMS:
            return None
        programs = ((name, self.PROGRAMS[name].get("description")) for name in sorted(self.PROGRAMS))
        names = ", ".join(f"{name} ({text})" if text else name for name, text in programs)
        return (
            f"-g PROGRAM, --program PROGRAM: begin with the arguments of a program: {names}. "
            "-v NAME:VALUE,..., --program-variables NAME:VALUE,...: values for {NAME} in the program's arguments"
        )

    def parse_args(self) -> argparse.Namespace:
        return self.argparser.parse_args(with_program(self.argparser, given(), self.PROGRAMS))

    def _take_arguments(self) -> None:
        args = self.args
        if args.load_sc_settings:
            raise BadInput("load_sc_settings", "there is no Scrapy Cloud: settings come from catalogue and request")
        project_id = self.parse_project_id(args)
        self.project_id = os.environ.get(PROJECT_ID) if project_id is None else project_id
        project_labels(self.project_id)  # raises for an impossible project
        self.name = self.name or getattr(args, "name", None) or type(self).__name__
        self._children_tags = [*self.children_tags, *args.children_tag]

    def parse_project_id(self, args: argparse.Namespace) -> int | str | None:
        """Return the project in the arguments; None for the project in the variable PROJECT_ID, if there is one."""
        project_id: int | str | None = args.project_id
        return project_id

    def get_project(self, project_id: int | str | None = None) -> Project:
        """Return the project, or the project of the manager's jobs."""
        return Project(str(self.project_id if project_id is None else project_id))

    def generate_flow_id(self) -> str:
        return str(uuid4())

    # the flow

    def attach(self, link: ManagerLink, begun: Begun) -> None:
        """Give the manager its place in its flow."""
        self._link, self._begun = link, begun
        self._has_pending_jobs = begun.incarnation > 1
        self.is_resumed = self._has_pending_jobs or self.acquire_all_jobs
        self.name = begun.name  # the stored name, even if the class has been renamed since
        self._flow_tags = [*begun.tags, *(tag for tag in self._flow_tags if tag not in begun.tags)]
        self._close_reason = begun.close_reason
        self._collected.load(begun.state, begun.stats)

    @property
    def begun(self) -> Begun:
        if self._begun is None:
            raise RuntimeError("the manager has not begun")
        return self._begun

    @property
    def flow_id(self) -> str | None:
        if self._begun is None:
            flow_id: str | None = getattr(self.args, "flow_id", None)
            return flow_id
        return self._begun.family

    @property
    def state(self) -> dict[str, Any]:
        """The author's own values, which are stored with each reaction and each cycle."""
        return self._collected.state

    @property
    def stats(self) -> Stats:
        return self._collected.stats

    @property
    def finishing(self) -> dict[JobKey, str]:
        return self._collected.memory.setdefault(FINISHING, {})

    @property
    def new_tags(self) -> dict[JobKey, list[str]]:
        return self._collected.job_tags

    def get_job_metadata(self, jobkey: JobKey | None = None) -> Any:
        if jobkey is not None or self._begun is None:
            return super().get_job_metadata(jobkey)
        family = [f"FLOW_ID={self.flow_id}"] if self.flow_id else []
        own: JobDict = {
            "key": self._begun.flow_id,
            "spider": f"py:{self.name}",
            "tags": [*family, f"NAME={self.name}", *self._flow_tags, *self._own_tags],
            "state": "running",
            "pending_time": milliseconds(self._begun.first_began_at),
            "running_time": milliseconds(self._begun.first_began_at),
        }
        return own

    def get_own_jobkey_from_env(self) -> JobKey | None:
        """Return the id of the flow, as the key of the script's own job; None outside a flow."""
        return None if self._begun is None else self._begun.flow_id

    def append_flow_tag(self, tag: str) -> None:
        """Add the tag to the manager, and to every job that starts from now on."""
        if tag not in self._flow_tags:
            request_of({"spider": "any"}, [*self.get_tags(), tag])  # a tag that no run accepts would stop all starts
            self._flow_tags.append(tag)
            self._collected.add_tag(tag)

    def schedule_script(
        self,
        cmd: Sequence[str],
        tags: Sequence[str] | None = None,
        units: float | None = None,
        project_id: int | str | None = None,
        **_more: Any,
    ) -> Any:
        """Start a script as `schedule_spider` does: the catalogue's entry `py:NAME`, with its words in `cmd_args`."""
        params = script_params(cmd)
        arguments = params["spider_args"] or {}
        return self.schedule_spider(params["spider"], tags=tags, units=units, project_id=project_id, **arguments)

    @property
    def _own_tags(self) -> dict[str, bool]:
        """The manager's own tags, which its jobs do not get."""
        return self._collected.memory.setdefault(OWN_TAGS, {})

    def add_job_tags(self, jobkey: JobKey | None = None, tags: Sequence[str] | None = None) -> None:
        """Add tags to the job, by which lists find its run; or to the manager itself."""
        if jobkey is None:
            self._own_tags.update(dict.fromkeys([tag for tag in tags or () if not tag.startswith(KEPT_TAGS)], True))
            return
        self._change_tags(jobkey, lambda former: {*former, *(tags or ())})

    async def async_add_job_tags(self, jobkey: JobKey | None = None, tags: Sequence[str] | None = None) -> None:
        self.add_job_tags(jobkey, tags)

    def _change_tags(self, jobkey: JobKey, change: Callable[[set[str]], set[str]]) -> None:
        former = self.get_job_tags(jobkey)
        changed = sorted(change(set(former)))
        if changed != former and self.get_job_metadata(jobkey) is not None:
            request_of({"spider": "any"}, changed)  # raises for a tag that no run accepts
            self._refuse_others("tags", jobkey)
            self.new_tags[jobkey] = changed

    def _refuse_others(self, what: str, jobkey: JobKey) -> None:
        if not self.link.find([jobkey]):
            raise BadInput(what, f"{jobkey} is no job of this manager, which changes its own jobs alone")

    def remove_job_tags(self, tags: Sequence[str], jobkey: JobKey | None = None) -> None:
        """Remove tags of a job; or the manager's own, flow tags among them. FLOW_ID, NAME and PARENT_NAME always stay.

        All jobs that start from now on go without the removed flow tags.
        """
        tags = [tag for tag in tags if not tag.startswith(KEPT_TAGS)]
        if jobkey is not None:
            self._change_tags(jobkey, lambda former: former.difference(tags))
            return
        for tag in tags:
            self._own_tags.pop(tag, None)
        gone = [tag for tag in tags if tag in self._flow_tags]
        self._flow_tags = [tag for tag in self._flow_tags if tag not in gone]
        self._collected.remove_tags(gone)

    def get_tags(self) -> list[str]:
        """Return the tags of all jobs."""
        own = [f"PARENT_NAME={self.name}"] if self.flow_id else []
        family = [f"FLOW_ID={self.flow_id}"] if self.flow_id else []
        return sorted({*family, *own, *self._children_tags, *self._flow_tags})

    def _make_children_tags(self, tags: Sequence[str] | None) -> Sequence[str] | None:
        """Return all tags of a job that starts. `tags`: the job's own."""
        return sorted({*(tags or []), *self.get_tags()}) or None

    def log(self, message: str) -> None:
        """Add a line to the flow's timeline."""
        self._collected.lines.append(message)

    # storing

    def take_effects(self) -> Effects:
        """Return the requests so far as effects, for a call that stores them."""
        return self._collected.take()

    def commit(self) -> list[int]:
        """Store the requests so far. Return the numbers of the added items."""
        effects = self._collected.take_if_any()
        numbers = [] if effects is None else list(self.link.commit(effects))
        self._stop_finished_jobs()
        return numbers

    def _stop_finished_jobs(self) -> None:
        """Ask the jobs to stop that the author has finished. The reasons are stored: the next object asks again."""
        if reasons := self._unasked_stops():
            self.link.stop(reasons)
            self._asked_to_stop.update(reasons)

    def _unasked_stops(self) -> dict[JobKey, str]:
        return {key: reason for key, reason in self.finishing.items() if key not in self._asked_to_stop}

    # files

    def init_fshelper(self) -> Any:
        """Return the functions for files, such as with credentials: `FSHelper(aws_key=..., aws_secret=...)`."""
        return import_module(FILES).FSHelper()

    @cached_property
    def fshelper(self) -> Any:
        return self.init_fshelper()


class BaseLoopScript(BaseScript):
    """A script that its host runs in cycles."""

    loop_mode: float = 0  # longest pause between two cycles in seconds; 0: a single cycle
    max_running_time: float = 0  # seconds; 0: no limit
    at_limit: str = "leave"  # at the end of max_running_time: leave the crawls under way, or `drain` or `stop` them
    wake_on_end: bool = True  # whether an end of a job begins the next cycle at once
    stats_interval: float = 120  # without effect: stats are stored with each reaction
    workflow_loop_enabled: bool = True  # False: no further cycle
    needs_cycles: bool = False  # whether the class makes no sense with a single cycle
    may_start: bool = True  # whether people let jobs start
    _is_closed = False

    def add_argparser_options(self) -> None:
        super().add_argparser_options()
        add = self.argparser.add_argument
        add("--loop-mode", type=float, default=self.loop_mode, metavar="SECONDS", help="longest pause between cycles")
        add("--max-running-time", type=float, default=self.max_running_time, metavar="SECONDS")

    def _take_arguments(self) -> None:
        super()._take_arguments()
        self.loop_mode, self.max_running_time = self.args.loop_mode, self.args.max_running_time

    def check(self) -> None:
        """Raise BadInput for a manager that cannot do its work."""
        if self.needs_cycles and not self.loop_mode:
            raise BadInput("loop_mode", "this manager needs the seconds between its cycles")

    @property
    def seconds_to_next(self) -> float | None:
        """Seconds until the next cycle; None for the usual pause."""
        return None

    # the end

    def refusals(self, counts: Counts) -> int:
        """Return the number of refused items that count as failures."""
        return counts.refused

    def set_close_reason(self, reason: str) -> None:
        self._close_reason = self._collected.close_reason = reason

    def get_close_reason(self) -> str | None:
        return self._close_reason or self._own_reason

    def finish(self, jobkey: JobKey | None = None, close_reason: str | None = None) -> None:
        """Ask the job to stop. Its close reason is the given one, and its hooks follow the proof that nothing runs.

        Without a key, the manager closes after the cycle, unless the reason is `finished`.
        """
        reason = close_reason or FINISHED
        if jobkey is None:
            self.close_reason = reason
            if reason != FINISHED:
                self.set_close_reason(reason)
        elif self.is_running(jobkey):
            self._refuse_others("finish", jobkey)
            self.finishing[jobkey] = checked_word("close_reason", reason)

    def is_closed(self) -> bool:
        """Return whether the manager has come to its end."""
        return self._is_closed

    def is_max_time_ran_out(self) -> bool:
        """Return whether `max_running_time` is over."""
        began_at = self.begun.first_began_at
        return 0 < self.max_running_time < (self.link.now() - began_at).total_seconds()

    def close_on_record(self, reason: str) -> bool:
        """Store the end with the requests so far. False: people have added items, and the manager continues."""
        if self._unasked_stops():
            self.commit()  # the reasons are stored before the stop requests are sent
        effects = self.take_effects()
        self._is_closed = self.link.close(reason, effects)
        if not self._is_closed:
            self._own_reason = None  # the further items may end in another way
            self.link.commit(effects)
        return self._is_closed

    def print_stats(self) -> None:
        """Log the stats."""
        logger.info("%s", pformat(dict(self.stats.get_stats())))

    def upload_stats(self) -> None:
        """Do nothing: stats are stored with each reaction and each cycle."""

    def maybe_upload_stats(self) -> None:
        """Do nothing, as `upload_stats`."""

    # methods for authors

    def on_start(self, resumed: bool = False) -> Any:
        """Called once for each object of the manager, after the resume hooks."""

    def on_close(self) -> Any:
        """Called before the manager's end is stored.

        Called again before the next end if people have added items meanwhile, or the process died: the manager
        continues.
        """

    def base_loop_tasks(self) -> Any:
        """Called before each cycle."""

    def workflow_loop(self) -> Any:
        """Make one cycle. Return whether the manager continues."""
        raise NotImplementedError

    def resume_workflow(self) -> Any:
        """Called before `on_start` if another process has taken the script over."""

    def run(self) -> Any:
        """Start the manager in a flow, host the manager, and follow the flow to its end."""
        return run_manager(self)


class WorkFlowManager(BaseLoopScript):
    """A manager of crawls. Authors derive from its specializations."""

    default_max_jobs: int = 1000
    flow_id_required: bool = True
    acquire_all_jobs: bool = False
    dont_acquire_finished_jobs: bool = False
    _reacts = False  # whether the manager has hooks for ends
    base_failed_outcomes: Sequence[str] = (
        "failed",
        "killed by oom",
        "cancelled",
        "cancel_timeout",
        "memusage_exceeded",
        "diskusage_exceeded",
        "cancelled (stalled)",
    )

    def __init__(self) -> None:
        self.failed_outcomes = list(self.base_failed_outcomes)
        super().__init__()

    def add_argparser_options(self) -> None:
        if not self.name:
            self.argparser.add_argument("name", help="name of the manager")
        most = self.default_max_jobs
        self.argparser.add_argument("--max-running-jobs", type=number_of_jobs, default=most, help=f"default: {most}")
        super().add_argparser_options()

    @property
    def max_running_jobs(self) -> int:
        most: int = self.args.max_running_jobs
        return most

    @property
    def _most_at_once(self) -> int:  # type: ignore[override]
        return self.max_running_jobs

    def resume_workflow(self) -> Any:
        """Call the resume hooks for the previous jobs. Called before `on_start` if the manager is resumed."""
        return self.act(self._resume_workflow())

    async def _resume_workflow(self) -> None:
        """Call the hooks that the author has overridden. Jobs for the other hooks are not read."""
        hooks: dict[JobState, Callable[..., Any]] = {}
        if not self.has_only_ours("resume_running_job_hook"):
            hooks[JobState.RUNNING] = self.resume_running_job_hook
        if not self.dont_acquire_finished_jobs and not self.has_only_ours("resume_finished_job_hook"):
            hooks[JobState.FINISHED] = self.resume_finished_job_hook
        for state, hook in hooks.items():
            for job in self._pages(state):
                if state is JobState.RUNNING or job.has_reaction or not self._reacts:  # or the hooks for its end follow
                    await self.call(hook, job_dict(job), job=job.key)
            self.commit()

    def resume_running_job_hook(self, job: JobDict) -> Any:
        """Called for each job under way after another process has taken the manager over."""

    def resume_finished_job_hook(self, job: JobDict) -> Any:
        """Called for each ended job after another process has taken the manager over."""


class CachedFinishedJobsMixin:
    """Kept for imports: jobs' ends are always read with one statement."""

    def update_finished_cache(self, project_id: int | str | None = None) -> None:
        """Do nothing: there is no cache."""
