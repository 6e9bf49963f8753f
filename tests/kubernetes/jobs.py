"""A plain Job, as the tests of the bed itself need one: no adapter is asked."""

from typing import Any

from tests.kubernetes.bed import Bed, condition
from tests.kubernetes.client import until

UNPRIVILEGED = {
    "allowPrivilegeEscalation": False,
    "capabilities": {"drop": ["ALL"]},
    "runAsNonRoot": True,
    "seccompProfile": {"type": "RuntimeDefault"},
}


def job(name: str, image: str, *, grace: int = 30, **pod: Any) -> dict[str, Any]:
    container = {"name": "main", "image": image, "securityContext": UNPRIVILEGED}
    spec = {"restartPolicy": "Never", "terminationGracePeriodSeconds": grace, "containers": [container]} | pod
    return {
        "metadata": {"name": name, "labels": {"job": name}},
        "spec": {
            "backoffLimit": 0,
            "podReplacementPolicy": "Failed",
            "template": {"metadata": {"labels": {"job": name}}, "spec": spec},
        },
    }


class Jobs:
    """Jobs of one namespace, as the bed's master sees them."""

    def __init__(self, bed: Bed, namespace: str) -> None:
        self.admin = bed.admin
        self.jobs = f"/apis/batch/v1/namespaces/{namespace}/jobs"
        self.pods = f"/api/v1/namespaces/{namespace}/pods"
        self.events = f"/api/v1/namespaces/{namespace}/events"

    def make(self, name: str, image: str, **more: Any) -> None:
        self.admin.post(self.jobs, job(name, image, **more))

    def delete(self, name: str, *, grace: int | None = None) -> None:
        options: dict[str, Any] = {"propagationPolicy": "Foreground"}
        self.admin.delete(f"{self.jobs}/{name}", options | ({} if grace is None else {"gracePeriodSeconds": grace}))

    def get(self, name: str) -> dict[str, Any]:
        found: dict[str, Any] = self.admin.get(f"{self.jobs}/{name}")
        return found

    def pod(self, name: str) -> dict[str, Any] | None:
        found = self.admin.items(self.pods, labelSelector=f"job={name}")
        assert len(found) <= 1
        return found[0] if found else None

    def until_ended(self, name: str) -> tuple[str, dict[str, Any]]:
        """Complete or Failed, and the pod as it is then."""

        def ended() -> str | None:
            kinds = [kind for kind in ("Complete", "Failed") if condition(self.get(name), kind) == "True"]
            return kinds[0] if kinds else None

        kind = until(ended, f"{name} to end")
        pod = self.pod(name)
        assert pod
        return kind, pod

    def until_running(self, name: str) -> dict[str, Any]:
        def running() -> dict[str, Any] | None:
            pod = self.pod(name)
            return pod if pod and pod["status"].get("phase") == "Running" else None

        return until(running, f"{name} to run")

    def until_waiting(self, name: str, reason: str) -> None:
        until(lambda: waiting_reason(self.pod(name)) == reason, f"{name} to wait for {reason}")

    def until_gone(self, name: str) -> None:
        """The Job and its pod."""
        until(lambda: not self.admin.exists(f"{self.jobs}/{name}") and not self.pod(name), f"{name} to be gone")


def terminated(pod: dict[str, Any]) -> dict[str, Any]:
    """How its container ended."""
    found: dict[str, Any] = pod["status"]["containerStatuses"][0]["state"]["terminated"]
    return found


def waiting_reason(pod: dict[str, Any] | None) -> str | None:
    states = (pod or {}).get("status", {}).get("containerStatuses", [])
    return states[0]["state"].get("waiting", {}).get("reason") if states else None
