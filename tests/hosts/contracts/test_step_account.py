"""The account for a host's database, with exactly the grants in docs/howto/host-steps.md."""

import asyncio
import re
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from uuid import uuid4

import pytest
import sqlalchemy as sa

from crawler_lifecycle.assembly.store import SqlStore
from crawler_lifecycle.database.database import Database
from crawler_lifecycle.database.migrate import upgrade
from crawler_lifecycle.database.schema import exports
from crawler_lifecycle.errors import LifecycleError
from crawler_lifecycle.flows import Graft, RunningJob, Workflow, crawl, each_task
from crawler_lifecycle.flows.model.turns import Counts, Effects
from crawler_lifecycle.flows.rules.ends import Refusal
from crawler_lifecycle.flows.rules.messages import GrowGroup
from crawler_lifecycle.model.manager_items import JobFilter
from crawler_lifecycle.model.records import RunRecord
from crawler_lifecycle.model.states import ExportKind, ExportState
from tests.hosts import authors
from tests.hosts.supervised import PATIENCE, hosted
from tests.kit.data.crawl_results import end_tasks
from tests.kit.data.databases import WITHOUT_TLS, create_database, execute
from tests.kit.data.flows import Flow, pushed
from tests.kit.data.managers import Managed, added, managed

PAGE = (Path(__file__).parents[3] / "docs" / "howto" / "host-steps.md").read_text()
STATEMENTS = [line for block in re.findall(r"```sql\n(.*?)```", PAGE, re.S) for line in block.splitlines()]


@pytest.fixture(scope="module")
def service(mariadb_server: int) -> Iterator[Database]:
    """A database with the schema, for the service's own account, which has all rights."""
    name = f"steps_{uuid4().hex[:12]}"
    url = f"{create_database(mariadb_server, name)}?{WITHOUT_TLS}"
    upgrade(url)
    database = Database(url)
    yield database
    database.close()
    execute(mariadb_server, f"DROP DATABASE {name}")


@pytest.fixture(scope="module")
def account(mariadb_server: int, service: Database) -> Iterator[Database]:
    """The same database for the account."""
    name = str(service.engine.url.database)
    for statement in STATEMENTS:
        named = re.sub(r"\bsteps\b", name, statement.replace("crawler.", f"{name}."))
        execute(mariadb_server, named.replace("a long password", "secret").removesuffix(";"))
    # the supervisor in these tests has the account, too, and writes the ends of flows
    execute(mariadb_server, f"GRANT SELECT, INSERT ON {name}.flow_ends TO {name}")
    database = Database(f"mysql://{name}:secret@127.0.0.1:{mariadb_server}/{name}?{WITHOUT_TLS}")
    yield database
    database.close()
    execute(mariadb_server, f"DROP USER {name}")


@pytest.mark.long
async def test_a_host_runs_steps_and_grafts(account: Database) -> None:
    assert SqlStore(account).records.installation(), "a host reads this before anything else"
    authors.reset()
    async with hosted(account) as host:
        flow = await host.play(
            Workflow("etl")
            .add_context({"operator": "ann", "factor": 10})
            .add_cascade("extract", authors.extract)
            .add_cascade("transform", authors.transform, deps="extract")
            .add_graft("graft", authors.graft, deps="transform")
            .add_cascade("fails", authors.fail, deps="graft")
        )
        assert flow.states == {
            "extract": "completed",
            "transform": "completed",
            "graft": "completed",
            "graft/mails/0": "completed",
            "graft/mails/1": "completed",
            "fails": "discarded",
        }


def keep_archive(service: Database, run: RunRecord, location: str) -> None:
    """Put the archive of the run's first end on record, as the run's worker does."""
    event = {"event_id": run.run_uid, "event": '{"end": 1}', "created_at": run.created_at}
    of_run = {"history_id": run.run_id, "kind": ExportKind.FILES_READY, "state": ExportState.DONE}
    with service.transaction() as tx:
        tx.execute(sa.insert(exports), {**event, **of_run, "location": location})


async def test_a_host_reads_the_receipts_of_a_crawl_and_of_its_tasks(account: Database, service: Database) -> None:
    """The host's account pushes the flow with the crawl; the service's account starts the crawl and ends its run."""
    workflow = Workflow("crawl").add("shop", crawl("books", tasks=2)).add("archive", authors.archive_of, deps="shop")
    flow = pushed(account, workflow.add_cascade("parse", each_task("shop", authors.run_of_task)))
    served = Flow(SqlStore(service), flow.id, flow.uid)
    served.go_on()
    (start,) = served.start_crawls(served.last("shop")).crawls
    run = served.run(start, tasks=2)
    served.store.flow_ledger.grow(GrowGroup(flow=served.flow, group=1, expected=2))
    end_tasks(service, run, [None, None])
    served.close(run)
    keep_archive(service, run, "s3://bucket/key")
    async with hosted(account) as host, asyncio.timeout(PATIENCE):
        await host.go_on(served)
        assert set(flow.states.values()) == {"completed"}
        assert await host.result(flow, "archive") == "s3://bucket/key"
        assert [await host.result(flow, f"parse/{task}") for task in (0, 1)] == [(0, run.run_id), (1, run.run_id)]


def test_a_second_graft_replaces_the_first(account: Database) -> None:
    flow = pushed(account, Workflow("graft").add_graft("graft", authors.graft))
    flow.begin_steps(flow.start("graft"))
    job = RunningJob(flow.id, "graft", flow_uid=flow.uid, is_grafter=True)
    for name in ("first", "second"):
        sub = Workflow().add_workflow("inside", Workflow().add(name, authors.nothing))
        flow.store.flow_doors.graft(flow.uid, Graft(job, sub).request)
    assert set(flow.states) == {"graft", "graft/inside/second"}


def test_all_requests_of_a_host_about_its_attempts(account: Database) -> None:
    flow = pushed(account, Workflow("begins").add_cascade("a", authors.nothing).add_cascade("b", authors.nothing))
    ledger, key = flow.store.step_ledger, (flow.uid, 0, 1)
    flow.begin_steps(flow.start("a"))
    assert ledger.renew("host", timedelta(seconds=9), [key]) == {key: False}
    ledger.note_cause(flow.uid, [1], "unknown_step")
    assert ledger.source(flow.uid, "a") == 0
    assert ledger.results(flow.uid, [0]) == {0: None}
    ledger.withdraw("host", [key])
    assert ledger.renew("host", timedelta(seconds=9), [key]) == {}


def test_a_step_may_push_append_cancel_and_retry(account: Database) -> None:
    flow = pushed(account, Workflow("pushed", id="pushed").add_cascade("a", authors.nothing))
    flow.append("more", Workflow().add_cascade("b", authors.nothing))
    assert flow.push(Workflow("pushed", id="pushed").add_cascade("a", authors.async_nothing)).changed
    assert flow.cancel("a").count == 1
    assert flow.retry("a").count == 1


@pytest.mark.parametrize(
    "statement",
    [
        "UPDATE histories SET crawler = 'x'",
        "INSERT INTO histories (id) VALUES (1)",
        "UPDATE task_histories SET attempt = 9",
        "DELETE FROM flows",
        "DELETE FROM flow_logs",
        "UPDATE installation SET uid = 'x'",
        "SELECT * FROM scope_limits",
        "CREATE TABLE mine (id int)",
    ],
)
def test_the_account_may_do_nothing_else(account: Database, statement: str) -> None:
    with pytest.raises((LifecycleError, sa.exc.SQLAlchemyError), match=r"denied|command"), account.transaction() as tx:
        tx.exec_driver_sql(statement)


def test_a_host_writes_the_ledger_of_a_manager(account: Database, service: Database) -> None:
    flow = managed(account, "shops/account")
    assert flow.offer("a", "b", read=2) == [1, 2]
    flow.managers.delay(flow.mine, [2])
    assert flow.commit(added("c"), lines=("one more",)) == [3]
    start = flow.started(1)
    third = flow.started(3)
    run = Managed(SqlStore(service), flow.id, flow.uid).run_of(third)
    flow.commit(job_tags={third.job.key: ["DONE"]}, call="tags")
    runs = flow.managers.runs(flow.mine, JobFilter(tags=("DONE",), limit=9))
    assert [job.run_id for job in runs] == [run.run_id]
    assert flow.managers.runs(flow.mine, JobFilter(labels=("project:7",), limit=9)) == []
    flow.managers.refuse(flow.mine, 1, start.job.attempt, Refusal("no such crawler"))
    flow.managers.close(flow.mine, "finished", Effects(), 0)
    assert flow.managers.counts(flow.mine) == Counts(cancelled=1, running=1, refused=1)
