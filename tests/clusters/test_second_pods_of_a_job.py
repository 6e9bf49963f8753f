"""With two pods under the labels of a job, evidence, log and kept log are of the pod that decided the job's end.

The evidence named the pod that had failed, and the log and the kept log were of the newest pod. The log of the failed
pod was then removed with its Job for good.
"""

from collections.abc import Iterator
from pathlib import Path

import pytest

from crawler_lifecycle.clusters.kubernetes.act.job_spec import PodSettings
from crawler_lifecycle.clusters.kubernetes.cluster import KubernetesCluster, LogStorage
from tests.clusters.acting import Acting, ended_with
from tests.kit.clusters.api_servers import Json, an_access, an_api_server

pytestmark = pytest.mark.regression(
    "With two pods of a job, the evidence was of the failed pod and the log of the newest pod"
)

KEY = (0, 1)
EARLIER, LATER = "2026-11-20T08:00:00Z", "2026-11-20T09:00:00Z"


@pytest.fixture
def acting(tmp_path: Path) -> Iterator[Acting]:
    with an_api_server() as server:
        yield Acting(server, tmp_path)


@pytest.fixture(params=["of another Job", "of another phase", "ended by a person"])
def second(request: pytest.FixtureRequest, acting: Acting) -> Json:
    """The newer pod beside the pod with which the job failed."""
    job = acting.deploy()
    decided = put_pod(acting, job, "decided", ("Failed", 3), EARLIER)
    acting.server.logs[decided["metadata"]["name"]] = b"log of the end\n"
    acting.server.end(acting.name(), "Failed")
    newer = put_pod(acting, job, "newer", ("Failed", 1), LATER)
    acting.server.logs["newer"] = b"log of the other\n"
    if request.param == "of another Job":
        newer["metadata"]["ownerReferences"][0]["uid"] = "another"
    elif request.param == "of another phase":
        newer["status"] = {"phase": "Succeeded", **ended_with(0, "Completed")}
    else:
        newer["metadata"]["deletionTimestamp"] = LATER
    return newer


def put_pod(acting: Acting, job: Json, name: str, end: tuple[str, int], created: str) -> Json:
    phase, code = end
    pod = acting.pod(job, phase, **ended_with(code, "Error"))
    acting.server.objects["pods"][name] = acting.server.objects["pods"].pop(pod["metadata"]["name"])
    owner = {"uid": job["metadata"]["uid"], "controller": True, "kind": "Job", "name": job["metadata"]["name"]}
    pod["metadata"] |= {"name": name, "creationTimestamp": created, "ownerReferences": [owner]}
    pod["spec"] = {**pod["spec"], "nodeName": f"node of {name}"}
    return pod


@pytest.mark.usefixtures("second")
def test_evidence_is_of_the_pod_that_decided(acting: Acting) -> None:
    [evidence] = acting.collecting.evidence(acting.run_uid, [KEY])
    assert (evidence.node, evidence.log_tail) == ("node of decided", "log of the end")


@pytest.mark.usefixtures("second")
def test_the_kept_log_is_of_the_pod_that_decided(acting: Acting) -> None:
    assert acting.removing.remove(acting.run_uid, [KEY]) == 0
    assert acting.server.objects["jobs"] == {}
    assert acting.logs.kept(acting.run_uid, *KEY).read_bytes() == b"log of the end\n"


@pytest.mark.usefixtures("second")
def test_the_log_is_of_the_pod_that_decided(acting: Acting, tmp_path: Path) -> None:
    assert a_cluster(acting, tmp_path).log(acting.run_uid, *KEY, 0).text == "log of the end\n"


@pytest.mark.parametrize("second", ["of another Job"], indirect=True)
def test_a_pod_of_another_job_alone_is_no_pod_of_the_job(acting: Acting, tmp_path: Path, second: Json) -> None:
    acting.server.objects["pods"] = {second["metadata"]["name"]: second}
    [evidence] = acting.collecting.evidence(acting.run_uid, [KEY])
    assert (evidence.node, evidence.log_tail, evidence.job_uid) == (None, "", acting.job()["metadata"]["uid"])
    chunk = a_cluster(acting, tmp_path).log(acting.run_uid, *KEY, 0)
    assert (chunk.text, chunk.ended) == ("", True)
    assert acting.removing.remove(acting.run_uid, [KEY]) == 0
    assert acting.server.objects["jobs"] == {}
    assert not acting.logs.kept(acting.run_uid, *KEY).exists()


@pytest.mark.parametrize("second", ["ended by a person"], indirect=True)
@pytest.mark.usefixtures("second")
def test_the_log_of_a_job_that_goes_on_is_of_the_pod_that_stays(acting: Acting, tmp_path: Path) -> None:
    acting.job()["status"] = {"active": 1}
    acting.server.objects["pods"]["decided"]["status"] = {"phase": "Running"}
    chunk = a_cluster(acting, tmp_path).log(acting.run_uid, *KEY, 0)
    assert (chunk.text, chunk.ended) == ("log of the end\n", False)


def a_cluster(acting: Acting, folder: Path) -> KubernetesCluster:
    storage = LogStorage(folder / "of the reader")
    return KubernetesCluster(an_access(acting.server, folder), acting.installation, PodSettings(), storage)
