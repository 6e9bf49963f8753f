"""What a cluster does by itself to the Jobs of one installation, on the API server of `api_servers`, a move at a time:
its Job controller, its garbage collector and one node. And what a person with kubectl does to them."""

from collections.abc import Iterator
from dataclasses import dataclass, field

from crawler_lifecycle.clusters.kubernetes.naming import ATTEMPT, INSTALLATION, RUN_UID, TASK
from tests.kit.clusters.api_servers import ApiServer, Json, now

OVER = ("Succeeded", "Failed")
ENDS = ("Complete", "Failed")
SIGTERM = 143
LOST = 255  # the code that a container runtime gives to what it has lost
Key = tuple[str, str, str]  # run, task and attempt, as the labels tell them


@dataclass
class SmallCluster:
    server: ApiServer
    installation: str
    own_ends: dict[str, int] = field(default_factory=dict)  # exit codes of those that nobody ended, by the Job's uid
    orphaned: set[str] = field(default_factory=set)  # uids of pods whose Job a person took away
    labels: dict[str, dict[str, str]] = field(default_factory=dict)  # of Jobs, by uid, before a person edited them

    @property
    def jobs(self) -> list[Json]:
        return list(self._ours("jobs"))

    @property
    def pods(self) -> list[Json]:
        return list(self._ours("pods"))

    @property
    def running(self) -> list[Json]:
        return [pod for pod in self.pods if pod["status"]["phase"] not in OVER]

    def living(self) -> list[Key]:
        """Of each Job that has not ended."""
        return [_key(self._labels(job)) for job in self.jobs if not _has_ended(job)]

    def attempts_alive(self, task: int) -> set[str]:
        """Return the attempts of which a Job has not ended, or a pod runs."""
        jobs = [self._labels(job) for job in self.jobs if not _has_ended(job)]
        labels = [*jobs, *(self._labels(pod) for pod in self.running)]
        return {known[ATTEMPT] for known in labels if known[TASK] == str(task)}

    def without_job(self) -> list[str]:
        """Running pods that nobody is responsible for, although no person wanted that."""
        jobs = {job["metadata"]["uid"] for job in self.jobs}
        return [uid for pod in self.running if owner_of(pod) not in jobs and (uid := _uid(pod)) not in self.orphaned]

    def move(self, task: int, code: int) -> None:
        """One thing happens to what there is of a task; what may end by itself ends with this exit code."""
        for job in self.jobs:
            if self._task(job) == str(task):
                self._move(job, [pod for pod in self.pods if owner_of(pod) == job["metadata"]["uid"]], code)
        jobs = {job["metadata"]["uid"] for job in self.jobs}
        for pod in self.pods:
            is_told = "deletionTimestamp" in pod["metadata"]
            if owner_of(pod) not in jobs and (pod["metadata"]["ownerReferences"] or is_told):
                self._drop("pods", pod)

    def orphan(self, task: int) -> None:
        """A person deletes its Job, and wants its pods to stay."""
        for job in [job for job in self.jobs if self._task(job) == str(task)]:
            left = [pod for pod in self.pods if owner_of(pod) == job["metadata"]["uid"]]
            self.orphaned |= {_uid(pod) for pod in left}
            self.own_ends.pop(job["metadata"]["uid"], None)  # another Job of that name may hide how it ended
            for pod in left:
                pod["metadata"]["ownerReferences"] = []
            self._drop("jobs", job)

    def edit_labels(self, uid: str, value: str | None) -> None:
        """A person strips our labels from a Job, or gives them another value. The pod template keeps them."""
        for job in [job for job in self.jobs if job["metadata"]["uid"] == uid]:
            known = self.labels.setdefault(uid, job["metadata"]["labels"])
            job["metadata"]["labels"] = {} if value is None else dict.fromkeys(known, value)
            self.server.put("jobs", job)

    def inject_sidecar(self, task: int) -> None:
        """A webhook puts a container before the main one of the task's pod. Its image cannot be pulled."""
        for pod in [pod for pod in self.running if pod["metadata"]["labels"][TASK] == str(task)]:
            beside = {"name": "agent", "restartCount": 0, "state": {"waiting": {"reason": "ErrImagePull"}}}
            pod["spec"]["containers"] = [{"name": "agent"}, {"name": "crawl"}]
            pod["status"]["containerStatuses"] = [beside, *pod["status"].get("containerStatuses", [])]
            self.server.put("pods", pod)

    def delete_pod(self, task: int) -> None:
        """A person does, and it is gone at once."""
        for pod in [pod for pod in self.running if pod["metadata"]["labels"][TASK] == str(task)]:
            self._drop("pods", pod)

    def drain(self, task: int, code: int) -> None:
        """Its node is emptied: the pod is told to end, and does, in order if the code is 0."""
        for job in [job for job in self.jobs if self._task(job) == str(task) and not _has_ended(job)]:
            for pod in [pod for pod in self.running if owner_of(pod) == job["metadata"]["uid"]]:
                target = {"type": "DisruptionTarget", "status": "True", "reason": "EvictionByEvictionAPI"}
                pod["metadata"] |= {"deletionTimestamp": now(), "deletionGracePeriodSeconds": 30}
                pod["status"]["conditions"].append(target | {"lastTransitionTime": now()})
                self._end_pod(pod, SIGTERM if code else 0)
                self._end(job, SIGTERM if code else 0)

    def reboot(self, task: int) -> None:
        """Its node starts anew: the runtime has lost the pod's container, and knows no exit code."""
        for job in [job for job in self.jobs if self._task(job) == str(task) and not _has_ended(job)]:
            for pod in [pod for pod in self.running if owner_of(pod) == job["metadata"]["uid"]]:
                self._end_pod(pod, LOST, "Unknown")
                self._end(job, LOST)

    def reject(self, task: int) -> None:
        """A webhook that the cluster asks about new pods does not answer, and the Job controller says so."""
        for job in [job for job in self.jobs if self._task(job) == str(task)]:
            said = "Error creating: Internal error occurred: failed calling webhook"
            about = {"kind": "Job", "uid": job["metadata"]["uid"]}
            rejected = {"involvedObject": about, "reason": "FailedCreate", "message": said, "lastTimestamp": now()}
            self.server.put("events", {"metadata": {"name": f"{job['metadata']['name']}.rejected"}, **rejected})

    def _move(self, job: Json, pods: list[Json], code: int) -> None:
        status = job.setdefault("status", {})
        living = [pod for pod in pods if pod["status"]["phase"] not in OVER]
        if "deletionTimestamp" in job["metadata"]:
            self._leave(job, pods, living, code)
        elif _has_ended(job):
            return
        elif not pods and status.get("active"):  # its only pod was deleted
            self._end(job, None)
        elif not pods:
            self._make_pod(job)
        elif pods[0]["status"]["phase"] == "Pending":
            pods[0]["status"] |= {"phase": "Running", "containerStatuses": [_container(running={"startedAt": now()})]}
            job["status"] |= {"ready": 1}
            self.server.put("jobs", job)
        else:
            self.own_ends[job["metadata"]["uid"]] = code
            self._end_pod(pods[0], code)
            self._end(job, code)

    def _leave(self, job: Json, pods: list[Json], living: list[Json], code: int) -> None:
        """It is deleted in the foreground: its pods are told, they end, in order or not, and it goes after them."""
        told = [pod for pod in living if "deletionTimestamp" in pod["metadata"]]
        for pod in living:
            pod["metadata"] |= {"deletionTimestamp": now(), "deletionGracePeriodSeconds": 30}
        if told:
            self._end_pod(told[0], SIGTERM if code else 0)
            self._end(job, SIGTERM if code else 0)
        elif living:
            job["status"] |= {"active": 0, "ready": 0, "terminating": 1}
            self.server.put("jobs", job)
        else:
            for pod in pods:
                self._drop("pods", pod)
            self._drop("jobs", job)

    def _make_pod(self, job: Json) -> None:
        metadata, uid = job["metadata"], job["metadata"]["uid"]
        labels = job["spec"]["template"]["metadata"]["labels"] | {"batch.kubernetes.io/controller-uid": uid}
        owner = {"kind": "Job", "name": metadata["name"], "uid": uid, "controller": True}
        scheduled = {"type": "PodScheduled", "status": "True", "lastTransitionTime": now()}
        self.server.put(
            "pods",
            {
                "metadata": {"name": f"{metadata['name']}-{uid[:5]}", "labels": labels, "ownerReferences": [owner]},
                "spec": {"nodeName": "node-7", "containers": [{"name": "crawl"}]},
                "status": {"phase": "Pending", "conditions": [scheduled]},
            },
        )
        job["status"] = {"startTime": now(), "active": 1, "ready": 0}
        self.server.put("jobs", job)

    def _end_pod(self, pod: Json, code: int, reason: str | None = None) -> None:
        why = reason or ("Error" if code else "Completed")
        end = {"exitCode": code, "reason": why, "startedAt": now(), "finishedAt": now()}
        pod["status"] |= {"phase": "Failed" if code else "Succeeded", "containerStatuses": [_container(terminated=end)]}
        self.server.put("pods", pod)

    def _end(self, job: Json, code: int | None) -> None:
        kind, count = ("Complete", "succeeded") if code == 0 else ("Failed", "failed")
        condition = {"type": kind, "status": "True", "reason": "BackoffLimitExceeded", "lastTransitionTime": now()}
        job["status"] = {"startTime": job["status"]["startTime"], count: 1, "conditions": [condition]}
        self.server.put("jobs", job)

    def _ours(self, kind: str) -> Iterator[Json]:
        with self.server.lock:
            found = list(self.server.objects[kind].values())
        return (each for each in found if self._labels(each).get(INSTALLATION) == self.installation)

    def _labels(self, there: Json) -> dict[str, str]:
        """Return the labels that an object had before a person edited them."""
        labels: dict[str, str] = self.labels.get(there["metadata"]["uid"], there["metadata"]["labels"])
        return labels

    def _task(self, job: Json) -> str:
        return self._labels(job)[TASK]

    def _drop(self, kind: str, value: Json) -> None:
        with self.server.lock:
            del self.server.objects[kind][value["metadata"]["name"]]


def _key(labels: dict[str, str]) -> Key:
    return labels[RUN_UID], labels[TASK], labels[ATTEMPT]


def _has_ended(job: Json) -> bool:
    return any(each["type"] in ENDS for each in job.get("status", {}).get("conditions", []))


def owner_of(pod: Json) -> str:
    return next((owner["uid"] for owner in pod["metadata"]["ownerReferences"]), "")


def _uid(pod: Json) -> str:
    return str(pod["metadata"]["uid"])


def _container(**state: Json) -> Json:
    return {"name": "crawl", "restartCount": 0, "state": state}
