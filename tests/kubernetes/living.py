"""Which pods are there? Told by the API server to whoever follows logs: to ask it for each, again and again, took more
of the machine than a thousand jobs that are being stopped.
"""

import json
import threading
from typing import Any

import httpx

from tests.kubernetes.client import Answer, Client

PATH = "/api/v1/pods"
METADATA = "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1"
PAUSE = 0.5

Place = tuple[str, str]


class LivingPods:
    """Nothing is watched before somebody asks."""

    def __init__(self, client: Client) -> None:
        self._client = client
        self._beginning = threading.Lock()
        self._follower: threading.Thread | None = None
        self._over = threading.Event()
        self._there: set[Place] = set()
        self._gone: set[Place] = set()

    def has(self, namespace: str, name: str) -> bool:
        """Of those of which nothing was told (yet), the API server knows."""
        with self._beginning:
            if self._follower is None:
                self._follower = threading.Thread(target=self._follow, name="pods", daemon=True)
                self._follower.start()
        place = namespace, name
        if (is_there := place in self._there) or place in self._gone:
            return is_there
        try:
            return self._client.exists(f"/api/v1/namespaces/{namespace}/pods/{name}")
        except (Answer, httpx.TransportError):
            return True

    def close(self) -> None:
        """When the API server is no more."""
        self._over.set()
        if self._follower:
            self._follower.join()

    def _follow(self) -> None:
        while not self._over.is_set():
            try:
                self._note_changes()
            except httpx.TransportError:  # it has ended, or starts anew
                pass
            finally:
                self._there, self._gone = set(), set()  # all is told anew: the cluster may have gone back in time
            self._over.wait(PAUSE)

    def _note_changes(self) -> None:
        """First come all that there are."""
        headers, timeout = {"Accept": METADATA}, httpx.Timeout(30, read=None)
        with self._client.http.stream("GET", PATH, params={"watch": "true"}, headers=headers, timeout=timeout) as told:
            if told.is_success:
                for line in told.iter_lines():
                    self._note(json.loads(line))

    def _note(self, change: dict[str, Any]) -> None:
        metadata = change["object"]["metadata"]
        place = metadata.get("namespace", ""), metadata.get("name", "")
        if change["type"] == "DELETED":
            self._gone.add(place)
            self._there.discard(place)
        elif change["type"] in ("ADDED", "MODIFIED"):
            self._there.add(place)
