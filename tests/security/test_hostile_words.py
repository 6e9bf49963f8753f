"""Words full of what shells, databases, paths, formats and terminals take for orders: they stay words at every door."""

import json
import re
import tomllib
from datetime import timedelta
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from crawler_lifecycle.assembly.store import SqlStore
from crawler_lifecycle.clusters.adapters.catalogue import Catalogue
from crawler_lifecycle.clusters.kubernetes.act.job_spec import PodSettings, job_of
from crawler_lifecycle.clusters.kubernetes.naming import CRAWLER
from crawler_lifecycle.database.database import Database
from crawler_lifecycle.errors import BadInput
from crawler_lifecycle.model.deployment import Crawler, DeploymentRequest
from crawler_lifecycle.model.records import RunFilter
from crawler_lifecycle.model.requests import RunRequest, parse
from crawler_lifecycle.runs.cli.requests import make_request
from crawler_lifecycle.runs.ports import Claim
from tests.kit.clusters.schedulers import a_request
from tests.kit.data.databases import MakeRun, ref_to

HOSTILE = [
    "'; DROP TABLE histories; --",
    '" OR ""="',
    "\\'; SELECT 1 #",
    "$(touch pwned) `touch pwned` ${HOME} ; touch pwned | cat & < > *",
    "$(CRAWL_TASK) $$(HOME) $$",
    "../../../etc/passwd",
    "/etc/passwd",
    "..",
    "-rf --help",
    "%s %d %n %(name)s {0} {run_id} {{}}",
    "[crawlers.x]\\ncommand = []",
    "<script>alert(1)</script>",
    "\u202eabc\u2066 \u2028\u2029\u0085\ufeff\u200b",
    "é \u0065\u0301 🕷 ſ K İ ß",
    "a ",
    "a",
    "A",
]
TEXTS = st.one_of(st.sampled_from(HOSTILE), st.text(st.characters(exclude_categories=["Cs", "Cc"]), max_size=60))
NAMES = TEXTS.filter(lambda text: bool(text.strip()))
WHO = st.one_of(st.sampled_from(HOSTILE), st.text(st.characters(exclude_categories=["Cs"]), max_size=60))
VALUES = WHO.map(lambda text: text.replace("\0", ""))  # every door refuses zero bytes, as no program can be given them
QUICK = settings(max_examples=8, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])


def test_both_databases_keep_each_apart(database: Database, make_run: MakeRun) -> None:
    """Also those that differ in case, accents or a blank at the end; none is a pattern."""
    runs = {name: make_run(entry=Crawler(name=name, command=["true"])).run_id for name in (*HOSTILE, "%", "_", "\\%")}
    records = SqlStore(database).records
    for name, run_id in runs.items():
        found = records.page(RunFilter(crawler=name), limit=100)
        assert [(each.run_id, each.crawler) for each in found] == [(run_id, name)]


@QUICK
@given(name=NAMES, value=VALUES, who=WHO)
@example(name="a", value="\x1b[2J\r\n", who="\0")
def test_what_is_asked_is_what_a_job_is_deployed_with(
    database: Database, make_run: MakeRun, name: str, value: str, who: str
) -> None:
    """Through the database, as the claim gives it to the scheduler service; twice is the same request."""
    entry = Crawler(name=name, command=["true", value], environment={"A": value})
    run = make_run(entry=entry, arguments={name: value}, requested_by=who)
    kept = SqlStore(database).records.details(run.run_id)
    assert (kept.run.crawler, kept.log[0].actor) == (name, who.replace("\0", "\ufffd"))
    claim = SqlStore(database).claims.claim_main(ref_to(run), "token", timedelta(seconds=60))
    assert isinstance(claim, Claim)
    assert (claim.request.crawler, claim.request.arguments) == (entry, {name: value})
    assert DeploymentRequest.model_validate_json(claim.request.model_dump_json()) == claim.request


@QUICK
@given(name=NAMES, value=VALUES)
def test_a_kubernetes_job_says_it_in_values_only(name: str, value: str) -> None:
    """No name or path of the job is made of it, one label has what Kubernetes accepts, and nothing is expanded."""
    entry = Crawler(name=name, image="crawler:1", command=["crawl"], argument_flag="-a", environment={"A": value})
    job = job_of(a_request(crawler=entry, arguments={name: value}), PodSettings(files_claim="files"))
    [container] = job["spec"]["template"]["spec"]["containers"]
    assert [_expanded(part) for part in container["args"]] == ["-a", f"{name}={value}"]
    told = {each["name"]: _expanded(each["value"]) for each in container["env"] if "value" in each}
    assert (told["A"], json.loads(told["CRAWL_ARGUMENTS"])) == (value, {name: value})
    plain = job_of(
        a_request(crawler=Crawler(name="x", image="crawler:1", command=["crawl"])), PodSettings(files_claim="files")
    )
    for labels in (job["metadata"]["labels"], job["spec"]["template"]["metadata"]["labels"]):
        assert re.fullmatch(r"([A-Za-z0-9]([A-Za-z0-9_.-]{0,61}[A-Za-z0-9])?)?", labels.pop(CRAWLER, ""))
    del plain["metadata"]["labels"][CRAWLER]
    assert _shape(job["metadata"]) == _shape(plain["metadata"])


def _expanded(text: str) -> str:
    """As the kubelet does it: a reference to a variable that is not escaped would be replaced."""
    assert "$(" not in text.replace("$$", "")
    return text.replace("$$", "$")


def _shape(part: Any) -> Any:
    """Ids and hashes differ; what there is, and how long, does not."""
    return {name: _shape(value) for name, value in part.items()} if isinstance(part, dict) else len(str(part))


@QUICK
@given(name=NAMES, value=VALUES)
def test_the_doors_read_what_was_written(tmp_path: Path, name: str, value: str) -> None:
    """The command line, the JSON of Temporal and HTTP, and the catalogue's file."""
    typed = make_request(name, ((name, value),), {})
    assert (typed.crawler, typed.arguments) == (name, {name: value})
    assert parse(RunRequest, json.dumps({"crawler": name, "arguments": {name: value}})).arguments == {name: value}
    assert RunRequest.model_validate_json(typed.model_dump_json()) == typed
    path = tmp_path / f"{uuid4()}.toml"
    path.write_text(f"[crawlers.{_toml(name)}]\ncommand = ['true', {_toml(value)}]\n", encoding="utf-8")
    assert tomllib.loads(path.read_text(encoding="utf-8"))["crawlers"][name]
    assert Catalogue.load(path).entry(name).command == ["true", value]


@pytest.mark.parametrize("field", ["arguments", "settings"])
@given(name=NAMES, before=VALUES, after=VALUES)
def test_the_doors_refuse_a_zero_byte(field: str, name: str, before: str, after: str) -> None:
    """Cut off at the zero byte, a value would reach the program as another value."""
    value = f"{before}\0{after}"
    with pytest.raises(BadInput, match="zero byte"):
        parse(RunRequest, json.dumps({"crawler": "a", field: {name: value}}))
    with pytest.raises(BadInput, match="zero byte"):
        make_request("a", ((name, value),), {})


def _toml(text: str) -> str:
    return json.dumps(text, ensure_ascii=False).replace("\x7f", "\\u007f")
