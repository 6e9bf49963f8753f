"""A crawl that wrote `banned` and exited with 1 was `failed` for its crawl manager, its list and its notices, while a
graph with a retry rule had the word."""

import pytest

from crawler_lifecycle.database.database import Database
from crawler_lifecycle.managers import Breaker, RetryRule
from crawler_lifecycle.model.crawl_results import CrawlResult
from crawler_lifecycle.model.states import RunStatus, TaskStatus
from crawler_lifecycle.testing import ManagerPlay, failed
from tests.kit.data.crawl_results import end_tasks
from tests.kit.data.managers import managed
from tests.managers.authors import shops_with

pytestmark = pytest.mark.regression(
    "A crawl that wrote `banned` and exited with 1 was `failed` for its manager, its list and its notices"
)


@pytest.mark.parametrize(
    ("own", "reason", "word"),
    [
        ("banned", "exit_1", "banned"),
        ("finished", "exit_1", "failed"),
        ("cancelled", "exit_1", "failed"),
        (None, "exit_1", "failed"),
        ("banned", "oom_killed", "killed by oom"),
    ],
)
def test_the_word_is_the_runs_outcome_and_reaches_the_manager(
    database: Database, own: str | None, reason: str, word: str
) -> None:
    flow = managed(database)
    flow.offer("a")
    start = flow.started()
    run = flow.run_of(start)
    end_tasks(database, run, [CrawlResult(outcome=own)], TaskStatus.FAILED, reason)
    flow.close(run, RunStatus.FAILED, "main_job_failed")
    assert flow.store.runs.get(run.run_id).outcome == word
    (job,) = flow.ended()
    assert (job.outcome, job.is_failed) == (word, True)


def test_rules_and_breakers_and_hooks_of_a_manager_see_the_word() -> None:
    words: list[str] = []

    class Banned(shops_with(names="ab", retry_policy={"banned": RetryRule(tries=1, pause=60)})):  # type: ignore[misc]
        breakers = (Breaker(key="{spider}", failures=2, last=2, pause=600),)

        def bad_outcome_hook(self, spider: str, outcome: str, job_args_override: object, jobkey: str) -> None:
            words.append(outcome)
            super().bad_outcome_hook(spider, outcome, job_args_override, jobkey)

    play = ManagerPlay(Banned)
    play.cycle()
    play.end(outcome=failed("banned"))
    play.cycle()
    assert words == ["banned", "banned"]
    assert [item.outcome for item in play.items] == ["banned", "banned"]
    assert [job.attempt for job in play.started] == [1, 1]
    play.skip(seconds=599)
    assert len(play.started) == 2, "the breaker holds the spider back, longer than the rule's pause"
    play.skip(seconds=2)
    assert [job.attempt for job in play.started] == [1, 1, 2, 2]
    assert play.until_closed(failed("banned")) == "finished_with_failures"
    assert play.counts.failed == 2
