import pytest

from crawler_lifecycle.assembly.store import SqlStore
from crawler_lifecycle.flows import Workflow, crawl
from crawler_lifecycle.flows.model.requests import PushFlow
from crawler_lifecycle.flows.rules.requesting import (
    LONGEST_VALUE,
    MOST_CHANGES,
    MOST_JOBS,
    changes_in_words,
    changes_of_jobs,
)
from tests.client.conftest import Hand
from tests.kit.authors.work import SlowWorker, plain
from tests.kit.service.commands import Crawlctl

pytestmark = pytest.mark.regression("A retry with other arguments left no trace of the arguments that were changed")


def last_line(crawlctl: Crawlctl) -> str:
    """Return the newest line in the flow's timeline, without its time."""
    return str(crawlctl("flow", "show", "w").stdout.splitlines()[-1].split("Z  ")[1])


@pytest.mark.long
def test_the_timeline_has_old_and_new_arguments_and_their_author(stored: SqlStore, crawlctl: Crawlctl) -> None:
    workflow = Workflow(id="w").add("shop", crawl("books", arguments={"lang": "de", "depth": "2"}))
    workflow.add("load", SlowWorker.new({"size": 1, "name": "x"})).add("report", plain, deps="load")
    stored.flow_doors.push(PushFlow(definition=workflow.definition()))
    flow = Hand(stored, "w", stored.flow_records.uid_of("w"))
    flow.cancel()
    changed = ("--arg", "size=3", "--arg", "day=monday", "--arg", "name=x", "--actor", "ann")
    assert crawlctl("flow", "retry", "w", "load", *changed).exit_code == 0
    assert (
        last_line(crawlctl)
        == 'retried by ann (token embedded): 1 job; arguments of load: size 1 -> 3, day unset -> "monday"'
    )
    flow.cancel()
    assert crawlctl("flow", "retry", "w", "load", "--arg", "size=4", "--actor", "ben").exit_code == 0
    assert last_line(crawlctl) == "retried by ben (token embedded): 1 job; arguments of load: size 3 -> 4", (
        "the last retry's value"
    )
    assert crawlctl("flow", "retry", "w", "shop", "--arg", "lang=fr", "--actor", "ben").exit_code == 0
    assert last_line(crawlctl) == 'retried by ben (token embedded): 1 job; arguments of shop: lang "de" -> "fr"'
    flow.cancel()
    assert crawlctl("flow", "retry", "w", "--actor", "ben").exit_code == 0
    assert last_line(crawlctl) == "retried by ben (token embedded): 3 jobs", (
        "a retry without arguments says nothing about arguments"
    )


def test_a_job_that_is_left_out_has_no_changes(stored: SqlStore, crawlctl: Crawlctl) -> None:
    workflow = Workflow(id="w").add("load", SlowWorker.new({"size": 1})).add("other", SlowWorker.new({"size": 2}))
    stored.flow_doors.push(PushFlow(definition=workflow.definition()))
    Hand(stored, "w", stored.flow_records.uid_of("w")).cancel("load")
    assert crawlctl("flow", "retry", "w", "load", "other", "--arg", "size=3", "--actor", "ann").exit_code == 6
    assert last_line(crawlctl) == "retried by ann (token embedded): 1 job; arguments of load: size 1 -> 3"


def test_changes_are_shortened() -> None:
    work = SlowWorker.new({"text": "a" * 1000, "same": 1}).work
    words = changes_in_words(work, None, {"text": "b" * 1000, "same": 1})
    old, _, new = words.removeprefix("text ").partition(" -> ")
    assert (old, len(old), len(new)) == (f'"{"a" * (LONGEST_VALUE - 2)}…', LONGEST_VALUE, LONGEST_VALUE)
    assert changes_in_words(work, None, {"same": 1}) == "no other value"
    many = changes_in_words(work, {}, {str(number): number for number in range(30)})
    assert (many.count("unset"), many.endswith(f", {30 - MOST_CHANGES} more")) == (MOST_CHANGES, True)
    jobs = changes_of_jobs({f"job {number}": "x" for number in range(40)})
    assert (jobs.count(": x"), jobs.endswith(f"; {40 - MOST_JOBS} more")) == (MOST_JOBS, True)
