import os
import signal

import pytest

from crawler_lifecycle.clusters.local.records import JobFolder, Spec
from tests.kit.clusters.clusters import LocalBench

pytestmark = pytest.mark.regression(
    "A scheduler service that was killed while it made a job left the job's draft in the cluster's folder for ever"
)


def _dies(*_: object) -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def test_what_a_killed_service_was_making_is_cleared_and_made_again(
    local: LocalBench, monkeypatch: pytest.MonkeyPatch
) -> None:
    request = local.request("exit 0")
    local.cluster.place_waiting()
    killed = os.fork()
    if killed == 0:
        monkeypatch.setattr(JobFolder, "write", _dies)  # in this copy of the process only
        try:
            local.cluster.deploy(request)
        finally:
            os._exit(1)
    assert os.waitstatus_to_exitcode(os.waitpid(killed, 0)[1]) == -signal.SIGKILL
    assert len(list(local.layout.new.iterdir())) == 1
    local.cluster.place_waiting()
    assert list(local.layout.new.iterdir()) == []
    assert local.cluster.deploy(request).created
    assert isinstance(local.folder_of(request).spec(), Spec)
    assert local.until_ended(request).exit_code == 0
