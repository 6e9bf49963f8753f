"""The account for a host's database, with exactly the grants in docs/howto/host-steps.md."""

import re
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from uuid import uuid4

import pytest
import sqlalchemy as sa

from crawler_lifecycle.adapters.sql.database import Database
from crawler_lifecycle.adapters.sql.migrate import check, upgrade
from crawler_lifecycle.contract.managers.turns import Counts, Effects
from crawler_lifecycle.domain.flows.unstarted import Refusal
from crawler_lifecycle.errors import LifecycleError
from crawler_lifecycle.flows import Graft, RunningJob, Workflow
from tests.contracts.flows import pushed
from tests.contracts.managers import added, managed
from tests.databases import WITHOUT_TLS, create_database, execute
from tests.services.flows import authors
from tests.services.flows.supervised import hosted

PAGE = (Path(__file__).parents[2] / "docs" / "howto" / "host-steps.md").read_text()
STATEMENTS = [line for block in re.findall(r"```sql\n(.*?)```", PAGE, re.S) for line in block.splitlines()]


@pytest.fixture(scope="module")
def account(mariadb_server: int) -> Iterator[Database]:
    """A database for the account, with the schema."""
    name = f"steps_{uuid4().hex[:12]}"
    url = create_database(mariadb_server, name)
    upgrade(f"{url}?{WITHOUT_TLS}")
    for statement in STATEMENTS:
        named = re.sub(r"\bsteps\b", name, statement.replace("crawler.", f"{name}."))
        execute(mariadb_server, named.replace("a long password", "secret").removesuffix(";"))
    # the supervisor in these tests has the account, too, and writes the ends of flows
    execute(mariadb_server, f"GRANT SELECT, INSERT ON {name}.flow_ends TO {name}")
    database = Database(f"mysql://{name}:secret@127.0.0.1:{mariadb_server}/{name}?{WITHOUT_TLS}")
    yield database
    database.close()
    execute(mariadb_server, f"DROP DATABASE {name}")
    execute(mariadb_server, f"DROP USER {name}")


async def test_a_host_runs_steps_and_grafts(account: Database) -> None:
    check(account)
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


def test_a_second_graft_replaces_the_first(account: Database) -> None:
    flow = pushed(account, Workflow("graft").add_graft("graft", authors.graft))
    flow.claim(flow.start("graft"))
    job = RunningJob(flow.id, "graft", flow_uid=flow.uid, is_grafter=True)
    for name in ("first", "second"):
        sub = Workflow().add_workflow("inside", Workflow().add(name, authors.nothing))
        flow.store.flow_doors.graft(flow.uid, Graft(job, sub).request)
    assert set(flow.states) == {"graft", "graft/inside/second"}


def test_all_requests_of_a_host_about_its_claims(account: Database) -> None:
    flow = pushed(account, Workflow("claims").add_cascade("a", authors.nothing).add_cascade("b", authors.nothing))
    claims = flow.store.step_claims
    flow.claim(flow.start("a"))
    claims.begin(flow.uid, [flow.last("a")], "host")
    assert claims.renew("host", timedelta(seconds=9))[flow.uid, 0, 1] is False  # other tests' claims are there, too
    claims.note_cause(flow.uid, [1], "unknown_step")
    assert claims.source(flow.uid, "a") == 0
    assert claims.results(flow.uid, [0]) == {0: None}
    claims.release("host", [(flow.uid, 0, 1)])
    assert (flow.uid, 0, 1) not in claims.renew("host", timedelta(seconds=9))
    claims.release("host")


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


def test_a_host_writes_the_ledger_of_a_manager(account: Database) -> None:
    flow = managed(account, "shops/account")
    assert flow.offer("a", "b", read=2) == [1, 2]
    flow.managers.delay(flow.mine, [2])
    assert flow.commit(added("c"), lines=("one more",)) == [3]
    start = flow.started(1)
    flow.managers.refuse(flow.mine, 1, start.job.attempt, Refusal("no such crawler"))
    flow.managers.close(flow.mine, "finished", Effects(), 0)
    assert flow.managers.counts(flow.mine) == Counts(cancelled=2, refused=1)
