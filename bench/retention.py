"""Retention passes beside a client's statements, with kills: rows, bytes and times have to stay constant.

Ended runs are spread evenly over a year, each with three tasks and a folder. In a round the passes' clock
advances, and the oldest runs become old. A process removes them and is killed several times, and as many new runs are
added. Meanwhile a client measures its statements, in turns beside the pass and while the pass is held between two
transactions. The benchmark fails unless exactly the old runs have left, and all pending runs have stayed.
"""

import multiprocessing
import threading
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from itertools import cycle
from multiprocessing.process import BaseProcess
from multiprocessing.synchronize import Event
from pathlib import Path
from statistics import median, quantiles
from tempfile import TemporaryDirectory
from time import perf_counter, sleep
from types import SimpleNamespace
from typing import Any, cast
from uuid import uuid4

from sqlalchemy import Connection, column, delete, func, insert, literal, select, table, text, update
from sqlalchemy import Table as Rows

from bench.databases import AS_INSTALLED, Row
from bench.measuring import seconds_of
from bench.table import Scale, Table
from crawler_lifecycle.assembly.store import SqlStore
from crawler_lifecycle.clusters.ports import Cluster
from crawler_lifecycle.database.database import Database
from crawler_lifecycle.database.migrate import upgrade
from crawler_lifecycle.database.schema import audit_findings, exports, histories, history_logs, removed_runs
from crawler_lifecycle.model.audits import FindingKind
from crawler_lifecycle.model.deployment import Crawler
from crawler_lifecycle.model.records import RunFilter, RunRecord
from crawler_lifecycle.model.requests import RunRequest
from crawler_lifecycle.model.states import ExportState, RunStatus
from crawler_lifecycle.model.supervision import ListedJob
from crawler_lifecycle.retention.model import Ages, Folders, KeepReason
from crawler_lifecycle.retention.passes import Retention
from crawler_lifecycle.retention.store import CHILDREN, RetentionStore
from crawler_lifecycle.runs.ports import NewRun
from tests.kit.data.crawl_results import end_tasks
from tests.kit.data.databases import create_database, ref_to, running_mariadb
from tests.kit.data.exports import event_of

TASKS = 3
LOG_TAIL = "x" * 400
YEAR = timedelta(days=365)
BEGIN = datetime(2024, 1, 1, tzinfo=UTC)  # the first leaving run's end
LONG_AGO = BEGIN - YEAR
PENDING = 100  # runs from long ago
CAUSES = (KeepReason.FOREIGN, KeepReason.EXPORT, KeepReason.FINDING, KeepReason.JOB, None)  # None: the run is open
KILLED_AT = (0.25, 0.5, 0.75, 1.0)  # removed shares; at 1, folders are left
TURNS = 8  # in a row, beside the pass and without
SETTLING = 0.3  # seconds: the pass's transaction ends
PAUSE = 0.02
COPIED = 5_000
MEGA = 1_000_000
# the tables' files, in bytes; the sizes in `tables` are estimates
FILE_SIZE = "SELECT SUM(FILE_SIZE) FROM information_schema.INNODB_SYS_TABLESPACES WHERE NAME LIKE 'crawler/%'"
Times = dict[str, list[float]]


def measure(scale: Scale) -> Table:
    with TemporaryDirectory(prefix="bench-retention-") as folder, running_mariadb(*AS_INSTALLED) as port:
        url = create_database(port, "crawler")
        upgrade(url)
        with closing(Database(url)) as database:
            soak = _Soak(scale, database, url, Path(folder))
            rows = list(soak.rows())
    columns = ("round", "runs", "rows", "MB", "folders", "kills", "s of passes")
    return Table((*columns, *(f"{name}, {figure}" for name in soak.acts for figure in ("ms", "ratio"))), rows)


@dataclass
class _Soak:
    scale: Scale
    database: Database
    url: str
    folder: Path
    added: int = 0
    beside: Times = field(default_factory=dict)
    without: Times = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.store = SqlStore(self.database)
        self.template = self._template()
        self.first = self.template.run_id + PENDING + 1
        self.acts: dict[str, Callable[[], object]] = {
            "list": lambda: self.store.records.page(RunFilter(), limit=50),
            "detail": lambda: self.store.records.details(self.first + self.added - 1),
            "insert": self._insert,
        }
        self.with_jobs = self._pending()

    def rows(self) -> Iterator[Row]:
        while self.added < self.scale.retained:
            self._add(min(COPIED, self.scale.retained - self.added))
        yield (0, *self._sizes(), 0, "-", *["-"] * 2 * len(self.acts))
        for number in range(1, self.scale.retention_rounds + 1):
            beside, without = {name: list[float]() for name in self.acts}, {name: list[float]() for name in self.acts}
            kills, seconds = self._remove(number * self.scale.leaving, beside, without)
            self._add(self.scale.retained + number * self.scale.leaving - self.added)
            self._check(number * self.scale.leaving)
            yield (number, *self._sizes(), kills, seconds, *_compared(beside, without, median))
            for name in self.acts:
                self.beside.setdefault(name, []).extend(beside[name])
                self.without.setdefault(name, []).extend(without[name])
        blank = ["-"] * 6
        yield ("all, median", *blank, *_compared(self.beside, self.without, median))
        yield ("all, 95 %", *blank, *_compared(self.beside, self.without, lambda times: quantiles(times, n=20)[-1]))

    def _remove(self, leaving: int, beside: Times, without: Times) -> tuple[int, float]:
        """Let runs leave until `leaving` runs have left. Return the kills, and the passes' seconds."""
        context, began_from = multiprocessing.get_context("spawn"), leaving - self.scale.leaving
        marks, kills, seconds = [began_from + share * self.scale.leaving for share in KILLED_AT], 0, 0.0
        before = BEGIN + leaving * self._step
        while True:
            ready, may_go_on = context.Event(), context.Event()
            arguments = (self.url, self.folder, before + YEAR, self.with_jobs, ready, may_go_on)
            process = context.Process(target=make_pass, args=arguments)
            process.start()
            ready.wait()
            removed = -1
            while process.is_alive() and not (marks and removed >= marks[0]):
                may_go_on.set()
                began = perf_counter()
                self._turns(beside, process)
                seconds += perf_counter() - began
                removed = self._removed()
                may_go_on.clear()
                sleep(SETTLING)
                self._turns(without, process)
            process.kill()
            process.join()
            if process.exitcode == 0:
                return kills, seconds
            if not marks or removed < marks.pop(0):
                raise AssertionError(f"a pass ended with {process.exitcode}")
            kills += 1

    def _turns(self, times: Times, process: BaseProcess) -> None:
        """Measure the statements a few times, as long as there is a pass."""
        for _ in range(TURNS):
            spent = {name: 1000 * seconds_of(act) for name, act in self.acts.items()}
            with self.database.transaction() as tx:
                newest = tx.scalar(select(func.max(histories.c.id)))
                for rows in (*CHILDREN, histories):
                    tx.execute(delete(rows).where(_run_id(rows) == newest))
            if not process.is_alive():
                return
            for name, milliseconds in spent.items():
                times[name].append(milliseconds)
            self._add(1)
            sleep(PAUSE)

    def _insert(self) -> RunRecord:
        entry = Crawler(name="books", command=["true"])
        new = NewRun(RunRequest(crawler="books"), entry, TASKS, f"crawl-books-{uuid4()}", str(uuid4()))
        return self.store.runs.create(new)

    @property
    def _step(self) -> timedelta:
        return YEAR / self.scale.retained

    def _template(self) -> RunRecord:
        """Make the template for all runs."""
        run = self.store.runs.mark_started(ref_to(self._insert()))
        end_tasks(self.database, run, [None] * TASKS)
        event = event_of(run)
        self.store.runs.open_export(ref_to(run), event)
        self.store.runs.settle_export(ref_to(run), event.event_id, ExportState.DONE, "there", None)
        run = self.store.runs.close(ref_to(run), RunStatus.COMPLETED, "all_succeeded")
        with self.database.transaction() as tx:
            tx.execute(update(histories).values(export_state=ExportState.DONE, end_number=1))
            tx.execute(text("UPDATE task_histories SET log_tail = :tail"), {"tail": LOG_TAIL})
        return run

    def _pending(self) -> list[str]:
        """Add old pending runs. Return the run_uids with a job."""
        first, with_jobs = self.template.run_id + 1, list[str]()
        with self.database.transaction() as tx:
            self._copy(tx, first, PENDING, LONG_AGO)
            runs = tx.execute(select(histories.c.id, histories.c.run_uid).where(histories.c.id >= first)).all()
            for run, cause in zip(runs, cycle(CAUSES), strict=False):
                change: dict[str, Any] = {}
                match cause:
                    case KeepReason.FOREIGN:
                        change = {"installation": str(uuid4())}
                    case KeepReason.EXPORT:
                        change = {"export_state": ExportState.PENDING}
                    case KeepReason.FINDING:
                        tx.execute(insert(audit_findings), _finding(run.run_uid))
                    case KeepReason.JOB:
                        with_jobs.append(run.run_uid)
                    case None:
                        change = {"status": RunStatus.PROCESSING, "finished_at": None}
                if change:
                    tx.execute(update(histories).where(histories.c.id == run.id).values(change))
        self._make_folders(first)
        return with_jobs

    def _add(self, count: int) -> None:
        if count <= 0:
            return
        first = self.first + self.added
        with self.database.transaction() as tx:
            self._copy(tx, first, count, BEGIN + self.added * self._step)
        self.added += count
        self._make_folders(first)

    def _copy(self, tx: Connection, first: int, count: int, ended_at: datetime) -> None:
        """Copy the template's rows in the server, for RunIDs from `first`."""
        numbers = table(f"seq_{first}_to_{first + count - 1}", column("seq"))
        seconds = (numbers.c.seq - first) * self._step.total_seconds()
        at = func.timestampadd(text("SECOND"), seconds, literal(ended_at))
        ids = {name: func.uuid() for name in ("run_uid", "workflow_id", "first_execution_run_id")}
        times = dict.fromkeys(("created_at", "begun_at", "started_at", "finished_at"), at)
        for rows in (histories, *CHILDREN):
            values: dict[str, Any] = dict(rows.c.items())
            if rows is histories:
                values |= {"id": numbers.c.seq, **ids, **times}
            else:
                values["history_id"] = numbers.c.seq
            if rows is exports:
                values["event_id"] = func.uuid()
            if rows is history_logs:
                del values["id"]
            chosen = select(*values.values()).select_from(rows).join(numbers, literal(1) == 1)
            chosen = chosen.where(_run_id(rows) == self.template.run_id)
            tx.execute(insert(rows).from_select(list(values), chosen, include_defaults=False))

    def _make_folders(self, first: int) -> None:
        with self.database.read() as connection:
            for run_uid in connection.scalars(select(histories.c.run_uid).where(histories.c.id >= first)):
                folder = self.folder / "files" / run_uid
                folder.mkdir(parents=True)
                (folder / "items.json").write_text("[]")

    def _removed(self) -> int:
        with self.database.read() as connection:
            return (connection.scalar(select(func.max(removed_runs.c.run_id))) or self.first - 1) - self.first + 1

    def _check(self, leaving: int) -> None:
        """Raise AssertionError unless exactly the old runs have left, with their folders."""
        with self.database.read() as connection:
            runs = dict(connection.execute(select(histories.c.id, histories.c.run_uid)).tuples().all())
            gone = set(connection.scalars(select(removed_runs.c.run_id)))
        stayed = {*range(self.template.run_id, self.first), *range(self.first + leaving, self.first + self.added)}
        report = RetentionStore(self.database).last().report
        assert report is not None
        assert report.problem is None, report
        assert report.held == {cause: PENDING // len(CAUSES) for cause in CAUSES if cause}, report
        assert set(runs) == stayed, "a pending or young run has left, or an old run has not"
        assert gone == set(range(self.first, self.first + leaving))
        folders = {path.name for path in (self.folder / "files").iterdir()}
        assert folders == {uid for run_id, uid in runs.items() if run_id != self.template.run_id}

    def _sizes(self) -> tuple[int, int, float, int]:
        with self.database.read() as connection:
            counts = [connection.scalar(select(func.count()).select_from(rows)) or 0 for rows in (histories, *CHILDREN)]
            size = float(connection.scalar(text(FILE_SIZE)) or 0)
        return counts[0], sum(counts), size / MEGA, sum(1 for _ in (self.folder / "files").iterdir())


class _Held(threading.Event):
    """Holds a pass between two transactions."""

    def __init__(self, go_on: Event) -> None:
        super().__init__()
        self._go_on = go_on

    def wait(self, timeout: float | None = None) -> bool:
        is_set = super().wait(timeout)
        self._go_on.wait()
        return is_set


def make_pass(url: str, folder: Path, now: datetime, with_jobs: list[str], ready: Event, go_on: Event) -> None:
    """Make a pass in a process with kills."""
    jobs = [ListedJob(uid, run_uid=uid, key=(0, 1), made_at=None) for uid in with_jobs]
    with closing(Database(url)) as database:
        retention = Retention(
            store=RetentionStore(database),
            flows=SqlStore(database).flow_doors,
            cluster=lambda: cast("Cluster", SimpleNamespace(inventory=lambda: iter([jobs]))),
            ages=Ages(runs=YEAR, flows=YEAR, logs=timedelta(days=30), archives=None, lines=timedelta(days=30)),
            folders=Folders(folder / "files", None, folder / "exports"),
            holder="bench",
            clock=lambda: now,
        )
        ready.set()
        if retention.make_pass(_Held(go_on)) is None:
            raise AssertionError("another process has the claim")


def _run_id(rows: Rows) -> Any:
    return rows.c.id if rows is histories else rows.c.history_id


def _finding(run_uid: str) -> dict[str, Any]:
    return {
        **{"kind": FindingKind.UNDELIVERED, "subject": run_uid, "run_uid": run_uid, "message": "m", "acts": 0},
        **{"first_seen_at": LONG_AGO, "last_seen_at": LONG_AGO, "last_seen_by": str(uuid4())},
    }


def _compared(beside: Times, without: Times, figure: Callable[[list[float]], float]) -> Iterator[float]:
    """Yield the milliseconds without a pass, and the ratio beside a pass, for every statement."""
    for name, times in without.items():
        alone = figure(times)
        yield alone
        yield figure(beside[name]) / alone
