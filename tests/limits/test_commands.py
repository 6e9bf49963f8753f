"""The commands for limits in Python, and what `crawlctl doctor` says about pauses and runs in line."""

from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from crawler_lifecycle.assembly.control import Control
from crawler_lifecycle.assembly.store import SqlStore
from crawler_lifecycle.base.requesters import Requester
from crawler_lifecycle.database.database import Database
from crawler_lifecycle.errors import BadInput, NotFound, NotReady, TemporaryError
from crawler_lifecycle.limits import commands as module
from crawler_lifecycle.limits.commands import LimitCommands, scopes_with_room
from crawler_lifecycle.model.limits import INSTALLATION, LimitChange, LimitRecord, PauseRequest, ScopeName
from crawler_lifecycle.settings.installation import Installation
from crawler_lifecycle.transport.http_client import HttpAnswer, HttpClient
from tests.kit.clusters.schedulers import TOKEN, SmallCluster, a_catalogue
from tests.kit.clusters.schedulers import served as served_scheduler
from tests.kit.data.databases import MakeRun, copy_of, ref_to

SITE = "site:example.com"


@pytest.fixture
def database_url(sqlite_template: Path, tmp_path: Path) -> str:
    """One kind is enough here: the tests in `contracts` have both."""
    return copy_of(sqlite_template, tmp_path)


@pytest.fixture
def limits(database_url: str, tmp_path: Path) -> Iterator[LimitCommands]:
    context = Control(Installation.with_variables(tmp_path, {"CRAWLER_DATABASE__URL": database_url})).context
    yield LimitCommands(replace(context, requester=Requester("ann")))
    context.close()


@pytest.fixture
def in_line(limits: LimitCommands, database: Database, make_run: MakeRun) -> LimitCommands:
    """One run of the site has begun, and another run of the site is in line."""
    limits.change(LimitChange(label=SITE, runs=1, allow_unknown=True))
    claims = SqlStore(database).claims
    for _ in range(2):
        claims.claim_main(ref_to(make_run(labels=[SITE])), "test", timedelta(seconds=60))
    return limits


def test_a_scope_without_limits_has_its_use(in_line: LimitCommands, make_run: MakeRun) -> None:
    crawler = make_run().crawler
    assert [record.scope for record in in_line.all()] == [INSTALLATION, f"label:{SITE}"]
    also = in_line.all(f"crawler:{crawler}")[-1]
    assert (also.scope, also.runs_begun, also.runs) == (f"crawler:{crawler}", 1, None)


def test_a_change_answers_with_all_limits(limits: LimitCommands) -> None:
    whole, site = limits.change(LimitChange(label=SITE, runs=2, allow_unknown=True))
    assert (whole.scope, whole.tasks) == (INSTALLATION, 1000)
    assert (site.scope, site.runs, site.changed_by) == (f"label:{SITE}", 2, "ann")
    (whole, _) = limits.change(LimitChange(tasks=20))
    assert (whole.tasks, whole.changed_by) == (20, "ann")


@pytest.fixture
def with_catalogue(database_url: str, tmp_path: Path) -> Iterator[LimitCommands]:
    entry = '[crawlers.{}]\ncommand = ["true"]\nlabels = ["site:{}.example"]\n'
    text = "".join(entry.format(name, name) for name in ("news", "shop"))
    with served_scheduler(SmallCluster(), a_catalogue(tmp_path, text)) as url:
        variables = {"CRAWLER_SCHEDULER__URL": url, "CRAWLER_SCHEDULER__TOKEN": TOKEN}
        installation = Installation.with_variables(tmp_path, {"CRAWLER_DATABASE__URL": database_url, **variables})
        context = Control(installation).context
        yield LimitCommands(context)
        context.close()


def test_names_that_exist_nowhere_are_refused(with_catalogue: LimitCommands, make_run: MakeRun) -> None:
    """A pause of a misspelt name was accepted, and paused nothing."""
    limits, crawler = with_catalogue, make_run(labels=[SITE]).crawler
    for scope, field, near in (
        ({"crawler": "news-"}, "crawler", "'news'"),
        ({"crawler": f"{crawler}x"}, "crawler", repr(crawler)),
        ({"label": "site:exmaple.com"}, "label", repr(SITE)),
        ({"label": "site:news.exmaple"}, "label", "'site:news.example'"),
    ):
        with pytest.raises(BadInput, match=near) as refused:
            limits.pause(PauseRequest.model_validate(scope | {"reason": "wrong"}))
        assert refused.value.field == field
        with pytest.raises(BadInput, match=near):
            limits.change(LimitChange.model_validate(scope | {"runs": 1}))
    assert [record.scope for record in limits.all()] == [INSTALLATION]


def test_an_unknown_label_is_refused_after_one_request(
    with_catalogue: LimitCommands, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each crawler's entry was requested, one after the other, before the refusal."""
    requests: list[str] = []
    send = HttpClient.request

    def counted(client: HttpClient, method: str, address: str, **content: Any) -> HttpAnswer:
        requests.append(address)
        return send(client, method, address, **content)

    monkeypatch.setattr(HttpClient, "request", counted)
    with pytest.raises(BadInput, match="did you mean"):
        with_catalogue.pause(PauseRequest(label="site:shop.exmaple", reason="wrong"))
    assert len(requests) == 1


def test_names_of_runs_limits_and_the_catalogue_are_accepted(with_catalogue: LimitCommands, make_run: MakeRun) -> None:
    limits, crawler = with_catalogue, make_run(labels=[SITE]).crawler
    scopes: tuple[dict[str, str], ...] = (
        {"crawler": "news"},
        {"label": "site:news.example"},
        {"crawler": crawler},
        {"label": SITE},
        {},
    )
    for scope in scopes:
        limits.pause(PauseRequest.model_validate(scope | {"reason": "rebuilt"}))
    limits.change(LimitChange(label="tenant:new", weight=3, allow_unknown=True))
    limits.change(LimitChange(label="tenant:new", weight=4))
    assert len(limits.all()) == len(scopes) + 1


def test_without_the_catalogue_only_known_names_are_accepted(limits: LimitCommands, make_run: MakeRun) -> None:
    crawler = make_run().crawler
    limits.pause(PauseRequest(crawler=crawler, reason="rebuilt"))
    with pytest.raises(TemporaryError, match=r"the catalogue cannot be asked: .*--allow-unknown"):
        limits.pause(PauseRequest(crawler="elsewhere", reason="rebuilt"))


def test_bad_requests_change_nothing(limits: LimitCommands) -> None:
    for request, field in (
        (LimitChange(), "runs"),
        (LimitChange(crawler="books", weight=2), "weight"),
        (LimitChange(crawler="books", label=SITE, runs=1), "label"),
    ):
        with pytest.raises(BadInput) as refused:
            limits.change(request)
        assert refused.value.field == field
    with pytest.raises(NotFound, match="crawler books is not paused"):
        limits.resume(ScopeName(crawler="books"))
    assert [(record.scope, record.changed_by) for record in limits.all()] == [(INSTALLATION, None)]


async def test_doctor_tells_pauses_and_the_line(in_line: LimitCommands) -> None:
    assert await in_line.check() == "1 run queued for a permit"
    in_line.pause(PauseRequest(crawler="books", reason="rebuilt"))
    line = await in_line.check()
    assert line.startswith("crawler books is paused since 20")
    assert line.endswith("by ann: rebuilt; 1 run queued for a permit")


async def test_doctor_misses_a_dispatcher_where_a_run_waits_without_a_cause(
    in_line: LimitCommands, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "DISPATCHER_PATIENCE", 0.0)
    in_line.change(LimitChange(label=SITE, runs=4))
    with pytest.raises(NotReady, match=r"1 run queued for label site:example\.com, which has room: no dispatcher"):
        await in_line.check()


@pytest.mark.parametrize(
    ("record", "has_room"),
    [
        (LimitRecord(scope="label:a:b", runs=2, runs_begun=2, runs_held=1), False),
        (LimitRecord(scope="label:a:b", runs=3, runs_begun=2, runs_held=1), False),
        (LimitRecord(scope="label:a:b", runs=4, runs_begun=2, runs_held=1), True),
        (LimitRecord(scope="label:a:b", runs=4, runs_begun=2, runs_held=0), False),
        (LimitRecord(scope="label:a:b", tasks=10, tasks_in_cluster=5, places_kept=2, runs_held=1), False),
        (LimitRecord(scope="label:a:b", tasks=10, tasks_in_cluster=5, places_kept=1, runs_held=1), True),
        (LimitRecord(scope="label:a:b", runs_held=1, paused_at=datetime(2026, 3, 1, tzinfo=UTC)), False),
    ],
)
def test_a_scope_has_room_only_beyond_what_may_be_kept(record: LimitRecord, *, has_room: bool) -> None:
    assert scopes_with_room([record]) == ([record] if has_room else [])
