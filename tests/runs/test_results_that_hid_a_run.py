import pytest

from crawler_lifecycle.model.crawl_results import CrawlResult
from crawler_lifecycle.model.looks import OutcomeFacts
from crawler_lifecycle.model.states import TaskStatus
from crawler_lifecycle.model.task_changes import TaskChange
from crawler_lifecycle.runs.activities import reconciliation
from crawler_lifecycle.runs.model import StopTasks
from tests.kit.clusters.clusters import LocalBench
from tests.kit.service.rig import Rig
from tests.kit.waiting import until

pytestmark = pytest.mark.regression(
    "A crawl wrote a number of 400 digits, or long results in Chinese: no look at its run succeeded any more"
)

HUGE = 'printf \'{"crawl_result": 1, "result": 1%0400d}\' 0 > $CRAWL_RESULT'
TEMPORALS_LIMIT = 2 << 20


def test_a_look_survives_a_number_of_400_digits(local: LocalBench) -> None:
    request = local.request(HUGE)
    local.cluster.deploy(request)
    assert local.until_ended(request).exit_code == 0
    assert local.cluster.evidence(request.run_uid, [(0, 1)])


def test_changes_in_any_script_fit_a_payload() -> None:
    facts = OutcomeFacts(
        job_uid="uid", succeeded=True, result=CrawlResult(result="\N{CJK UNIFIED IDEOGRAPH-6F22}" * 1300)
    )
    change = TaskChange(task=0, attempt=1, version=1, status=TaskStatus.SUCCEEDED, facts=facts)
    page = list(reconciliation._limited_to_payload([change] * 3000))
    assert 100 < len(page) < 3000
    assert sum(len(item.model_dump_json().encode()) for item in page) < TEMPORALS_LIMIT


def test_a_stop_goes_on_whatever_reading_the_evidence_raises(rig: Rig, monkeypatch: pytest.MonkeyPatch) -> None:
    plan = rig.started("sleepy", tasks=1)

    def fails(*_: object, **__: object) -> None:
        raise OverflowError("int too large to convert to float")

    monkeypatch.setattr(type(rig.bench.cluster), "evidence", fails)
    rig.do(rig.stopping.k8_stop_task, StopTasks(run=plan.run))
    look = rig.bench.cluster.look
    until(lambda: all(job.gone for job in look(plan.run.run_uid).jobs.values()), "the job to end")
    assert look(plan.run.run_uid).jobs
