"""Cluster whose jobs have ended as soon as they are made: the port `Cluster` without processes."""

from collections.abc import Collection, Sequence
from datetime import UTC, datetime
from uuid import NAMESPACE_OID, uuid5

from crawler_lifecycle.clusters.local.cluster import LocalCluster
from crawler_lifecycle.clusters.ports import NO_UIDS, Places, Uids
from crawler_lifecycle.model.deployment import Deployment, DeploymentRequest
from crawler_lifecycle.model.looks import EndRequest, JobKey, JobLook, JobPhase, Look, OutcomeFacts, Pods
from crawler_lifecycle.model.naming import job_name
from crawler_lifecycle.model.task_changes import TaskEvidence
from crawler_lifecycle.settings import Settings


def ended_cluster(settings: Settings, installation: str | None, _places: Places | None = None) -> "EndedCluster":
    """Return the cluster, in place of the adapter in the settings."""
    return EndedCluster(settings.jobs_folder, settings.files_folder, installation, settings.cluster.capacity)


class EndedCluster(LocalCluster):
    """Local cluster without processes. A job's name and uid follow from its key, so no process keeps any state.

    A deployment makes an empty log and announces a change, so that the watcher nudges the run as it does for real jobs.
    """

    def deploy(self, request: DeploymentRequest) -> Deployment:
        self._layout.make()
        log = self._log_file(request.run_uid, request.task, request.attempt)
        log.parent.mkdir(parents=True, exist_ok=True)
        log.touch()
        self._layout.announce_change(request.run_uid)
        name = job_name(request.run_uid, request.task, request.attempt)
        return Deployment(key=request.key, job_name=name, job_uid=_uid(name), created=True)

    def look(
        self,
        run_uid: str,
        watched: Collection[JobKey] = (),
        tasks: Collection[int] | None = None,  # noqa: ARG002 (only the watched jobs are shown)
        *,
        uids: Uids = NO_UIDS,  # noqa: ARG002 (a uid follows from the key)
    ) -> Look:
        return Look(complete=True, jobs={key: _ended_job(run_uid, key) for key in watched})

    def evidence(
        self,
        run_uid: str,  # noqa: ARG002
        jobs: Sequence[JobKey],
        *,
        hurried: bool = False,  # noqa: ARG002
    ) -> list[TaskEvidence]:
        return [TaskEvidence(task=task, attempt=attempt, events=["ended: succeeded"]) for task, attempt in jobs]


def _ended_job(run_uid: str, key: JobKey) -> JobLook:
    name, now = job_name(run_uid, *key), datetime.now(UTC)
    facts = OutcomeFacts(
        job_uid=_uid(name), succeeded=True, told_to_end=False, exit_code=0, started_at=now, ended_at=now
    )
    return JobLook(
        *key,
        facts.job_uid,
        name,
        JobPhase.SUCCEEDED,
        exit_code=0,
        started_at=now,
        ended_at=now,
        pods=Pods.NONE,
        end_request=EndRequest.NONE,
        facts=facts,
    )


def _uid(name: str) -> str:
    return str(uuid5(NAMESPACE_OID, name))
