"""docs/howto/run-on-kubernetes.md, typed from its first command to its last; our processes run on this machine."""

import json
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from temporalio.testing import WorkflowEnvironment

from crawler_lifecycle.stack.plan import free_ports
from tests.deploy import manifests
from tests.deploy.manifests import KUBERNETES
from tests.kit.data.databases import create_database
from tests.kit.temporal.servers import temporal_program
from tests.kubernetes import howto, rights
from tests.kubernetes.bed import Bed
from tests.kubernetes.client import until
from tests.kubernetes.kubectl import Kubectl
from tests.kubernetes.stand_in import StandIn

pytestmark = pytest.mark.timeout(900)
HOME, SECOND = "crawler-lifecycle", "crawler-second"


@pytest.fixture
def desk(bed: Bed, tmp_path: Path) -> Iterator[Path]:
    """The folder in which the commands are typed. Everything installed is gone afterwards, but the bed's accounts."""
    shutil.copytree(KUBERNETES, tmp_path / "deploy" / "kubernetes")
    howto.write_overlay(tmp_path / "installation")
    kubectl = Kubectl(bed)
    kubectl.provide_volume(HOME, "ReadWriteOnce")
    kubectl.provide_volume(SECOND, "ReadWriteMany")
    yield tmp_path
    kubectl("delete", "persistentvolumes", "--all", "--wait=false")
    until(lambda: not bed.admin.exists(f"/api/v1/namespaces/{HOME}"), "the namespace to be gone", 120)
    rights.install(bed.admin)


@pytest.fixture
def machine(bed: Bed, tmp_path: Path, mariadb_server: int, real_time: WorkflowEnvironment) -> StandIn:
    state = tmp_path / "state"
    state.mkdir()
    address = ("--address", real_time.client.service_client.config.target_host)
    subprocess.run([temporal_program(), *howto.retention_command(), *address], check=True, timeout=60)
    return StandIn(
        bed,
        HOME,
        state,
        create_database(mariadb_server, "howto"),
        real_time.client.service_client.config.target_host,
        f"http://127.0.0.1:{free_ports(1)[0]}",
    )


def test_the_commands_of_the_page(bed: Bed, desk: Path, machine: StandIn) -> None:
    kubectl = Kubectl(bed)
    said: dict[str, str] = {}
    waiting = howto.commands()

    def type_until(word: str | None) -> None:
        while waiting and (word is None or word not in waiting[0]):
            command = waiting.pop(0)
            assert command.pop(0) == "kubectl"
            said[" ".join(command)] = kubectl(*command, folder=desk)

    type_until("wait")
    machine.run("crawlctl", "db", "upgrade")
    succeed(kubectl, "upgrade-0-1-0")
    type_until("exec")
    with machine.running():
        while "exec" in waiting[0]:
            command = waiting.pop(0)
            said[" ".join(command[7:])] = machine.run(*command[command.index("--") + 1 :])
        check_that_doctor_sees_and_the_page_mends(kubectl, desk, machine)
    type_until(None)
    assert "FAIL" not in said["doctor"]
    assert "cluster rights" in said["doctor"]
    assert "COMPLETED" in said["run hello"]
    assert "hello" in said["list"]


def check_that_doctor_sees_and_the_page_mends(kubectl: Kubectl, desk: Path, machine: StandIn) -> None:
    """Somebody has removed the rights of the actor."""
    kubectl("delete", "rolebinding", "actor", "-n", "crawls")
    complaint = until(lambda: missing_rights(doctor(machine)), "doctor to see it")
    assert "delete jobs.batch" in complaint
    assert "kubectl apply" in complaint
    kubectl("apply", "--server-side", "-k", "installation", folder=desk)
    until(lambda: "FAIL" not in doctor(machine), "doctor to be content")


def doctor(machine: StandIn) -> str:
    return machine.run("crawlctl", "doctor", may_end_with=(0, 4))


def missing_rights(said: str) -> str | None:
    lines = [line for line in said.splitlines() if line.startswith("FAIL") and "cluster rights" in line]
    return lines[0] if lines else None


def succeed(kubectl: Kubectl, job: str) -> None:
    """What the Job's pod would have done has been done here."""
    ours = ("-n", HOME)
    pod = until(lambda: kubectl.json("get", "pods", "-l", f"job-name={job}", *ours)["items"], "the pod of the job")[0]
    done = json.dumps({"status": {"phase": "Succeeded"}})
    kubectl("patch", "pod", pod["metadata"]["name"], "--subresource=status", "--type=merge", "-p", done, *ours)


def test_what_the_page_says_to_write_fits() -> None:
    objects = [block for block in howto.blocks("yaml") if "kind: Kustomization" not in block]
    documents = [document for block in objects for document in manifests.parse(block)]
    assert documents
    assert [problem for document in documents for problem in manifests.problems(document)] == []
