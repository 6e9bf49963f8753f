"""A local crawl's account lies in its job's folder, whatever a program makes of the file."""

import json
import re
from datetime import UTC, datetime

import pytest

from crawler_lifecycle.model.crawl_results import CrawlResult
from tests.kit.clusters.clusters import LocalBench

ACCOUNT = json.dumps({"crawl_result": 1, "outcome": "banned", "stats": {"items": 3}})


def account_of(local: LocalBench, script: str) -> tuple[CrawlResult | None, list[str]]:
    """Run the script to its end. Return its account and the lines about an account that cannot be used."""
    request = local.request(script)
    local.cluster.deploy(request)
    look = local.until_ended(request)
    assert look.facts
    assert look.facts.job_uid == look.uid
    (evidence,) = local.cluster.evidence(request.run_uid, [(0, 1)])
    return look.facts.result, [line for line in evidence.events if "CRAWL_RESULT" in line]


@pytest.mark.parametrize("code", [0, 3])
def test_an_account_counts_after_every_end(local: LocalBench, code: int) -> None:
    result, lines = account_of(local, f"echo '{ACCOUNT}' > $CRAWL_RESULT; exit {code}")
    assert result == CrawlResult(outcome="banned", stats={"items": 3})
    assert lines == []


def test_without_an_account_nothing_is_said(local: LocalBench) -> None:
    assert account_of(local, "exit 0") == (None, [])


@pytest.mark.parametrize(
    ("script", "problem"),
    [
        ("echo nonsense > $CRAWL_RESULT", "expected"),
        ('printf \'{"crawl_result": 1, "result": 1%0400d}\' 0 > $CRAWL_RESULT', "numbers"),
        ("head -c 5000 /dev/zero > $CRAWL_RESULT", "5000 bytes, and 4000 are allowed"),
        ("printf '\\377\\376' > $CRAWL_RESULT", "expected"),
        ("mkfifo $CRAWL_RESULT", "cannot be read"),
        ("ln -s /etc/hostname $CRAWL_RESULT", "cannot be read"),
        ("mkdir $CRAWL_RESULT", "cannot be read"),
    ],
)
def test_what_is_no_account_is_a_line_among_the_events(local: LocalBench, script: str, problem: str) -> None:
    result, lines = account_of(local, script)
    assert result is None
    (line,) = lines
    assert problem in line


def test_steps_are_told_in_the_clock_of_the_page(local: LocalBench) -> None:
    """The times ended in +00:00, beside times that the page shows as UTC."""
    request = local.request("exit 0")
    local.cluster.deploy(request)
    local.until_ended(request)
    (evidence,) = local.cluster.evidence(request.run_uid, [(0, 1)])
    step = re.compile(r"\d{4}-\d\d-\d\dT[\d:]{8}\.\d{3}Z (deployed|started, .*|ended: .*)")
    assert len(evidence.events) == 3
    assert all(step.fullmatch(line) for line in evidence.events)


def test_facts_are_of_the_end_on_record(local: LocalBench) -> None:
    request = local.request("exit 3")
    before = datetime.now(UTC)
    local.cluster.deploy(request)
    facts = local.until_ended(request).facts
    assert facts
    assert (facts.succeeded, facts.told_to_end, facts.exit_code, facts.reason) == (False, False, 3, "exit_3")
    assert facts.started_at
    assert facts.ended_at
    assert before <= facts.started_at <= facts.ended_at
