"""Kubernetes objects as the API server writes them, and a small API server that serves them out of memory.

`Shelf` answers what a look asks: lists in pages with label and field selectors, single objects, 404s. It holds
bytes, so that objects may be any nonsense.
"""

import math
import re
from collections.abc import Callable, Iterator, Mapping
from datetime import UTC, datetime
from functools import lru_cache
from typing import Any

import msgspec

from crawler_lifecycle.clusters.kubernetes.http.answers import Missing
from crawler_lifecycle.clusters.kubernetes.http.api import PAGE, KubernetesApi, ServerClock
from crawler_lifecycle.model.naming import job_name

NAMESPACE = "crawls"
OURS = "6b1f0f5e-0000-4000-8000-000000000001"
RUN = "6b1f0f5e-0000-4000-8000-0000000000aa"
UID = "job-uid"
WHEN = "2026-11-20T08:00:00Z"
LATER = "2026-11-20T09:00:00Z"
Json = dict[str, Any]


def labels(task: int = 0, attempt: int = 1, run_uid: str = RUN, installation: str = OURS) -> dict[str, str]:
    return {
        "crawler-lifecycle/installation": installation,
        "crawler-lifecycle/run-uid": run_uid,
        "crawler-lifecycle/task": str(task),
        "crawler-lifecycle/attempt": str(attempt),
        "crawler-lifecycle/spec-hash": "abc",
    }


def condition(kind: str, reason: str | None = None, status: str = "True", at: str = WHEN, message: str = "") -> Json:
    return {"type": kind, "status": status, "reason": reason, "message": message, "lastTransitionTime": at}


def job(task: int = 0, attempt: int = 1, *conditions: Json, uid: str = UID, started: Any = WHEN, **status: Any) -> Json:
    return {
        "metadata": {
            "name": job_name(RUN, task, attempt),
            "uid": uid,
            "resourceVersion": "7",
            "creationTimestamp": WHEN,
            "labels": labels(task, attempt),
        },
        "spec": {"suspend": False, "backoffLimit": 0},
        "status": {"startTime": started, "conditions": list(conditions), **status},
    }


def deleted(obj: Json, at: str = LATER) -> Json:
    return {**obj, "metadata": {**obj["metadata"], "deletionTimestamp": at}}


def pod(
    phase: str | None = "Running", *containers: Json, task: int = 0, attempt: int = 1, uid: str = UID, **status: Any
) -> Json:
    name = f"{job_name(RUN, task, attempt)}-x"
    return {
        "metadata": {
            "name": name,
            "uid": f"pod-of-{uid}-{task}",
            "creationTimestamp": WHEN,
            "labels": {**labels(task, attempt), "batch.kubernetes.io/controller-uid": uid},
            "ownerReferences": [{"uid": uid, "controller": True, "kind": "Job", "name": name}],
        },
        "spec": {"nodeName": "node-1", "containers": [{"name": "crawl"}]},
        "status": {"phase": phase, "containerStatuses": list(containers), **status},
    }


def container(name: str = "crawl", **state: Any) -> Json:
    return {"name": name, "restartCount": 0, "state": state}


def ended(code: int | None, reason: str = "Error", name: str = "crawl", message: str | None = None) -> Json:
    end = {"exitCode": code, "reason": reason, "message": message, "startedAt": WHEN, "finishedAt": LATER}
    return container(name, terminated=end)


def waiting(reason: str | None, name: str = "crawl", message: str | None = None) -> Json:
    return container(name, waiting={"reason": reason, "message": message})


def running(name: str = "crawl") -> Json:
    return container(name, running={"startedAt": WHEN})


SCHEDULED = condition("PodScheduled")


def event(uid: str, reason: str, message: str = "", at: str | None = None) -> Json:
    """Return an event that happened last at this time, or a moment ago."""
    return {
        "metadata": {"name": f"{uid}.{reason}"},
        "involvedObject": {"kind": "Job", "uid": uid},
        "type": "Warning",
        "reason": reason,
        "message": message,
        "count": 3,
        "lastTimestamp": at or datetime.now(UTC).isoformat(),
    }


class Shelf(KubernetesApi):
    """`fault` may raise in the place of an answer; `calls` tells what was asked."""

    def __init__(self, page: int = PAGE) -> None:
        self.namespace = NAMESPACE
        self.clock = ServerClock()
        self.there: dict[str, list[Any]] = {"jobs": [], "pods": [], "events": []}
        self.hidden: list[Any] = []  # Jobs that no list shows, although they are there
        self.of_namespace: Any = {"metadata": {"name": NAMESPACE}, "status": {"phase": "Active"}}
        self.of_namespaces: dict[str, Any] = {}  # others, by name
        self.page = page
        self.calls: list[str] = []
        self.fault: Callable[[str], None] = lambda _call: None

    def jobs_path(self, *names: str) -> str:
        return "/".join(("jobs of", NAMESPACE, "jobs", *names))

    def core_path(self, kind: str, *names: str) -> str:
        return "/".join(("others of", NAMESPACE, kind, *names))

    def namespace_path(self, name: str | None = None) -> str:
        return f"namespace/{name or NAMESPACE}"

    def put(self, *, jobs: Any = (), pods: Any = (), events: Any = ()) -> "Shelf":
        self.there = {"jobs": list(jobs), "pods": list(pods), "events": list(events)}
        return self

    def get(
        self, path: str, query: Mapping[str, str | int] | None = None, *, accept: str = "application/json"
    ) -> bytes:
        kind = path.rpartition("/")[2]
        if path == self.namespace_path():
            self._called("namespace")
            return _found(self.of_namespace)
        if path.startswith("namespace/"):
            return _found(self.of_namespaces.get(kind))
        if kind in self.there:
            self._called(kind)
            return _list(kind, [each for each in self.there[kind] if _is_selected(each, query or {})], "")
        self._called("job")
        found = [each for each in (*self.there["jobs"], *self.hidden) if _metadata(each).get("name") == kind]
        return _found(found[0] if found else None)

    def pages(
        self,
        path: str,
        query: Mapping[str, str | int] | None = None,
        *,
        accept: str = "application/json",
        until: float = math.inf,
    ) -> Iterator[bytes]:
        kind = path.rpartition("/")[2]
        query = query or {}
        whole = self.there[kind] if query.keys() & SELECTORS or kind != "jobs" else [*self.there[kind], *self.hidden]
        selected = [each for each in whole if _is_selected(each, query)]
        size = int(query.get("limit", self.page))
        for start in range(0, len(selected) + 1, size):  # after a full page there may be objects of others
            self._called("names" if "Metadata" in accept else kind)
            more = "more" if start + size <= len(selected) else ""
            yield _list("metadata" if "Metadata" in accept else kind, selected[start : start + size], more)

    def _called(self, what: str) -> None:
        self.calls.append(what)
        self.fault(what)


SELECTORS = {"fieldSelector", "labelSelector"}
KINDS = {"jobs": "JobList", "pods": "PodList", "events": "EventList", "metadata": "PartialObjectMetadataList"}


def _list(kind: str, items: list[Any], more: str) -> bytes:
    return msgspec.json.encode({"kind": KINDS[kind], "metadata": {"continue": more}, "items": items})


def _found(obj: Any) -> bytes:
    if obj is None:
        raise Missing("there is nothing of that name")
    return msgspec.json.encode(obj)


def _metadata(obj: Any) -> Json:
    found = obj.get("metadata") if isinstance(obj, dict) else None
    return found if isinstance(found, dict) else {}


def _is_selected(obj: Any, query: Mapping[str, str | int]) -> bool:
    """Nonsense is always selected: else no look would ever meet it."""
    if not query.keys() & SELECTORS:
        return True
    if field := query.get("fieldSelector"):
        return not isinstance(obj, dict) or _has_fields(obj, str(field))
    carried = _metadata(obj).get("labels")
    if not isinstance(carried, dict):
        return True
    wanted = _parsed(str(query.get("labelSelector", "")))
    return all(not isinstance(found := carried.get(key), str | None) or found in values for key, values in wanted)


def _has_fields(obj: Json, selector: str) -> bool:
    about = obj.get("involvedObject", {})
    fields = {"reason": obj.get("reason")} | {f"involvedObject.{name}": value for name, value in about.items()}
    return all(fields.get(name) == value for name, _, value in (part.partition("=") for part in selector.split(",")))


@lru_cache
def _parsed(selector: str) -> list[tuple[str, set[str]]]:
    among = re.findall(r"([\w./-]+) in \(([^)]*)\)", selector)
    equal = re.findall(r"([\w./-]+)=([^,]+)", re.sub(r"[\w./-]+ in \([^)]*\)", "", selector))
    return [(key, {value}) for key, value in equal] + [(key, set(values.split(","))) for key, values in among]
