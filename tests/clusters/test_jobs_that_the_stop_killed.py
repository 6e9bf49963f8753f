from collections.abc import Callable

import pytest

from crawler_lifecycle.model.deployment import DeploymentRequest
from tests.kit.clusters.clusters import LocalBench
from tests.kit.waiting import until

pytestmark = pytest.mark.regression(
    "A job that a forced stop had killed was shown with the end `sigkill_unknown`, as if nobody knew who killed it"
)

ENDS_ITSELF_WHEN_ASKED = "trap 'kill -9 $$' TERM; echo up; while :; do sleep 0.1; done"
DOES_NOT_LISTEN = "trap '' TERM; echo up; while :; do sleep 0.1; done"


def killed(bench: LocalBench, request: DeploymentRequest) -> None:
    bench.cluster.stop(request.run_uid, [(0, 1)])
    bench.cluster.kill(request.run_uid, [(0, 1)])


def asked(bench: LocalBench, request: DeploymentRequest) -> None:
    bench.cluster.stop(request.run_uid, [(0, 1)])


@pytest.mark.parametrize(
    ("script", "end", "told"),
    [
        (DOES_NOT_LISTEN, killed, "ended: killed by the stop"),
        (ENDS_ITSELF_WHEN_ASKED, asked, "ended: sigkill_unknown"),
    ],
)
def test_the_last_event_names_the_killer(
    local: LocalBench, script: str, end: Callable[[LocalBench, DeploymentRequest], None], told: str
) -> None:
    request = local.request(script)
    local.cluster.deploy(request)
    until(lambda: "up" in local.cluster.log(request.run_uid, 0, 1, 0).text, "the job to have its trap")
    end(local, request)
    assert local.until_ended(request).exit_code == 137
    (evidence,) = local.cluster.evidence(request.run_uid, [(0, 1)])
    assert evidence.events[-1].endswith(f" {told}")
