"""Processes that speak to the API server as ours do, and meet trouble at their n-th request: it fails, or they die."""

from dataclasses import dataclass, field
from enum import StrEnum
from functools import partial
from pathlib import Path
from typing import Any
from unittest.mock import patch

from crawler_lifecycle.clusters.kubernetes import cluster
from crawler_lifecycle.clusters.kubernetes.act.job_spec import PodSettings
from crawler_lifecycle.clusters.kubernetes.cluster import KubernetesCluster, LogStorage
from crawler_lifecycle.clusters.kubernetes.http.api import KubernetesApi
from crawler_lifecycle.clusters.kubernetes.http.connection import ApiAccess
from crawler_lifecycle.clusters.kubernetes.observe import jobs
from tests.kit.clusters.api_servers import Answered, ApiServer, Fault, an_access


class Trouble(StrEnum):
    DIES_BEFORE = "whoever asks is dead before it is sent"
    DIES_AFTER = "it is carried out, and whoever asked is dead"
    NOT_SENT = "the connection breaks before it is carried out"
    NOT_ANSWERED = "it is carried out, and the connection breaks"
    REFUSED = "the server says 500"


class Died(BaseException):
    """Nothing of this process goes on."""


@dataclass
class Line:
    """To the server, for all processes: which request meets which trouble, counted from 1."""

    server: ApiServer
    at: int = 0
    trouble: Trouble = Trouble.REFUSED
    asked: list[str] = field(default_factory=list)

    def ask(self, method: str, path: str) -> Trouble | None:
        self.asked.append(f"{method} {path}")
        if len(self.asked) != self.at:
            return None
        if self.trouble is Trouble.REFUSED:
            self.server.faults.append(Fault(method, path, Answered(500, "InternalError", "etcd is slow")))
        elif self.trouble in (Trouble.NOT_SENT, Trouble.NOT_ANSWERED):
            drop = "before" if self.trouble is Trouble.NOT_SENT else "after"
            self.server.faults.append(Fault(method, path, drop=drop))
        return self.trouble


class DoomedApi(KubernetesApi):
    """Once its process is dead, also what its threads have still to do is not asked for. Logs do not count: those that
    are followed are asked for at any time."""

    def __init__(self, line: Line, access: ApiAccess) -> None:
        super().__init__(access)
        self._line = line
        self._is_dead = False

    def _whole(self, method: str, path: str, *args: Any, **options: Any) -> bytes:
        if self._is_dead:
            raise Died
        trouble = self._line.ask(method, path)
        self._is_dead = trouble in (Trouble.DIES_BEFORE, Trouble.DIES_AFTER)
        if trouble is Trouble.DIES_BEFORE:
            raise Died
        answer = super()._whole(method, path, *args, **options)
        if self._is_dead:
            raise Died
        return answer


def a_process(line: Line, folder: Path, installation: str) -> KubernetesCluster:
    """The whole adapter, with one thread in the place of each pool: so the n-th request is always the same."""
    with patch.object(cluster, "KubernetesApi", partial(DoomedApi, line)), patch.object(jobs, "THREADS", 1):
        return KubernetesCluster(
            an_access(line.server, folder), installation, PodSettings(), LogStorage(folder / "files")
        )
