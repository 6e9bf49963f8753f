"""Does the bed let pods live and end as a real cluster would?"""

from datetime import datetime, timedelta

import pytest

from tests.kubernetes import fates
from tests.kubernetes.bed import Bed, condition
from tests.kubernetes.client import until
from tests.kubernetes.jobs import UNPRIVILEGED, Jobs, terminated


@pytest.fixture
def jobs(bed: Bed, namespace: str) -> Jobs:
    return Jobs(bed, namespace)


def test_a_job_that_is_to_succeed_does(jobs: Jobs) -> None:
    jobs.make("one", fates.SUCCEEDS)
    kind, pod = jobs.until_ended("one")
    assert (kind, pod["status"]["phase"], terminated(pod)["exitCode"]) == ("Complete", "Succeeded", 0)


def test_an_ordinary_pod_lives_by_the_general_stages_of_kwok(bed: Bed, jobs: Jobs) -> None:
    prepare = {"name": "prepare", "image": "prepare", "securityContext": UNPRIVILEGED}
    jobs.make("one", fates.after(fates.SUCCEEDS, "2s"), initContainers=[prepare])
    _, pod = jobs.until_ended("one")
    prepared = pod["status"]["initContainerStatuses"][0]["state"]["terminated"]
    assert (prepared["exitCode"], prepared["reason"]) == (0, "Completed")
    began, ended = (datetime.fromisoformat(at) for at in (pod["status"]["startTime"], terminated(pod)["finishedAt"]))
    assert datetime.fromisoformat(prepared["finishedAt"]) <= began
    assert timedelta(seconds=2) <= ended - began
    assert pod["status"]["podIP"]
    about = f"involvedObject.name={pod['metadata']['name']}"
    told = until(lambda: bed.admin.items(jobs.events, fieldSelector=f"{about},reason=Created"), "its event")
    assert told[0]["message"] == "Created container"


@pytest.mark.parametrize(
    ("image", "code", "reason"),
    [
        (fates.exits(3), 3, "Error"),
        (fates.after(fates.exits(255), "300ms"), 255, "Error"),
        (fates.OUT_OF_MEMORY, 137, "OOMKilled"),
        (fates.REBOOTED, 255, "Unknown"),
        (fates.CANNOT_RUN, 128, "StartError"),
    ],
)
def test_a_failure_is_written_into_the_pod(jobs: Jobs, image: str, code: int, reason: str) -> None:
    jobs.make("one", image)
    kind, pod = jobs.until_ended("one")
    ended = terminated(pod)
    assert (kind, pod["status"]["phase"], ended["exitCode"], ended["reason"]) == ("Failed", "Failed", code, reason)


def test_an_evicted_pod_says_so_and_forgets_its_containers(jobs: Jobs) -> None:
    jobs.make("one", fates.EVICTED)
    kind, pod = jobs.until_ended("one")
    status = pod["status"]
    assert (kind, status["reason"], status.get("containerStatuses", [])) == ("Failed", "Evicted", [])
    assert condition(pod, "DisruptionTarget") == "True"


def test_a_node_that_shuts_down_takes_its_pod_along(jobs: Jobs) -> None:
    jobs.make("one", fates.NODE_SHUTDOWN)
    kind, pod = jobs.until_ended("one")
    assert (kind, pod["status"]["reason"], condition(pod, "DisruptionTarget")) == ("Failed", "Terminated", "True")


@pytest.mark.parametrize(
    ("image", "reason"),
    [
        (fates.NO_IMAGE, "ImagePullBackOff"),
        (fates.BAD_CONFIG, "CreateContainerConfigError"),
        (fates.NO_START, "ContainerCreating"),
    ],
)
def test_a_pod_that_cannot_start_waits_until_it_is_deleted(jobs: Jobs, image: str, reason: str) -> None:
    jobs.make("one", image)
    jobs.until_waiting("one", reason)
    assert not condition(jobs.get("one"), "Failed")
    jobs.delete("one")
    jobs.until_gone("one")


@pytest.mark.parametrize(
    ("image", "phase", "code"),
    [(fates.RUNS, "Failed", 143), (fates.ORDERLY, "Succeeded", 0), (fates.IGNORES, "Failed", 137)],
)
def test_a_running_pod_that_is_deleted_ends_as_its_program_would(
    bed: Bed, namespace: str, jobs: Jobs, image: str, phase: str, code: int
) -> None:
    jobs.make("one", image, grace=2)
    name = jobs.until_running("one")["metadata"]["name"]
    kept = {"metadata": {"finalizers": ["example.org/kept", "batch.kubernetes.io/job-tracking"]}}
    bed.admin.merge(f"{jobs.pods}/{name}", kept)  # so that its end can be seen
    bed.admin.delete(f"{jobs.pods}/{name}")
    kind, pod = jobs.until_ended("one")
    assert (kind, pod["status"]["phase"]) == ("Complete" if code == 0 else "Failed", phase)
    assert terminated(pod)["exitCode"] == code
    until(lambda: (jobs.pod("one") or pod)["metadata"]["deletionGracePeriodSeconds"] == 0, "its node to let go of it")
    bed.admin.merge(f"{jobs.pods}/{name}", {"metadata": {"finalizers": None}})
    until(lambda: not jobs.pod("one"), "the pod to be gone")


def test_a_job_that_is_deleted_is_gone_when_its_pod_has_ended(jobs: Jobs) -> None:
    jobs.make("one", fates.RUNS)
    jobs.until_running("one")
    jobs.delete("one")
    jobs.until_gone("one")


def test_a_pod_whose_node_says_nothing_is_gone_only_by_force(bed: Bed, jobs: Jobs) -> None:
    jobs.make("one", fates.STUCK, grace=1)
    name = jobs.until_running("one")["metadata"]["name"]
    jobs.delete("one")
    until(lambda: "deletionTimestamp" in (jobs.pod("one") or {"metadata": {}})["metadata"], "the pod to be asked")
    jobs.make("other", fates.after(fates.SUCCEEDS, "3s"))
    jobs.until_ended("other")  # time enough for the grace to be over
    pod = jobs.pod("one")
    assert pod
    assert pod["status"]["phase"] == "Running"
    bed.admin.delete(f"{jobs.pods}/{name}", {"gracePeriodSeconds": 0})
    jobs.until_gone("one")


def test_what_a_pod_printed_is_read_through_the_api_server(bed: Bed, jobs: Jobs) -> None:
    jobs.make("one", fates.SUCCEEDS)
    bed.kubelet.print("one", "first\nsecond\nthird\n")
    _, pod = jobs.until_ended("one")
    address = f"{jobs.pods}/{pod['metadata']['name']}/log"
    assert bed.admin.text(address) == "first\nsecond\nthird\n"
    assert bed.admin.text(address, tailLines=1) == "third\n"
    assert bed.admin.text(address, limitBytes=5) == "first"
    bed.kubelet.finish("one")
    assert bed.admin.text(address, follow="true") == "first\nsecond\nthird\n"
