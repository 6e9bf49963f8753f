"""A person deletes a Job so that its pod stays, before anybody has written down that there was one. The task is
deployed again, under the same name: the new Job tells its own pod to end, and a stop was proved while the other ran."""

from pathlib import Path

import pytest

from tests.clusters.acting import Acting
from tests.kit.clusters.api_servers import an_api_server

pytestmark = pytest.mark.regression("A stop was proved while the pod of an earlier Job of the same name still ran")


@pytest.mark.parametrize("tasks", [1, 30])
def test_a_stop_ends_them(tmp_path: Path, tasks: int) -> None:
    with an_api_server() as server:
        acting = Acting(server, tmp_path)
        left = acting.pod(acting.deploy())
        left["metadata"] |= {"name": "left", "ownerReferences": []}
        left["metadata"]["labels"] = left["metadata"]["labels"] | {"batch.kubernetes.io/controller-uid": "earlier"}
        server.objects.update(jobs={}, pods={})
        server.put("pods", left)
        for task in range(tasks):
            job = acting.deploy(task)
            owner = {"kind": "Job", "name": job["metadata"]["name"], "uid": job["metadata"]["uid"], "controller": True}
            acting.pod(job)["metadata"]["ownerReferences"] = [owner]
        acting.stopping.ask(acting.run_uid, [(task, 1) for task in range(tasks)])
        deleted = [seen.path.rpartition("/")[2] for seen in server.asked("DELETE", "/pods/")]
        assert deleted == ["left"], "and no other: their Jobs tell these"
