"""Who runs our processes when nodes are only simulated? This machine: each with the command, the variables and the
account that its pod would have, but for the addresses, which are those of the test."""

import base64
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import httpx

from crawler_lifecycle.stack.plan import free_ports
from tests.kubernetes import fates
from tests.kubernetes.bed import Bed
from tests.kubernetes.client import until

PARTS = ("scheduler", "worker", "dispatcher", "watcher", "api")
END_SECONDS = 60


@dataclass(frozen=True)
class StandIn:
    bed: Bed
    namespace: str
    folder: Path
    database_url: str
    temporal: str
    scheduler_url: str

    def run(self, *command: str, may_end_with: tuple[int, ...] = (0,)) -> str:
        """In the worker's container, as `kubectl exec` does."""
        done = subprocess.run(
            self._started(command), env=self.environment("worker"), capture_output=True, text=True, timeout=180
        )
        assert done.returncode in may_end_with, done.stdout + done.stderr
        return done.stdout

    @contextmanager
    def running(self) -> Iterator[None]:
        """All parts, once they are ready."""
        with ExitStack() as stack:
            for part in PARTS:
                stack.enter_context(self._process(part))
            for part in PARTS:
                until(partial(self._is_ready, part), f"{part} to be ready: {self._log(part)}", 120)
            yield

    @contextmanager
    def _process(self, part: str) -> Iterator[None]:
        with self._log(part).open("wb") as log:
            command = self._started(self._container(part)["command"])
            process = subprocess.Popen(command, env=self.environment(part), stdout=log, stderr=log)
        try:
            yield
        finally:
            process.terminate()
            try:
                process.wait(END_SECONDS)
            finally:
                process.kill()

    def environment(self, part: str) -> dict[str, str]:
        ours = dict(self._variables(part))
        ours["CRAWLER_KUBERNETES__KUBECONFIG"] = str(self._kubeconfig(part))
        ours["CRAWLER_DATABASE__URL"] = self.database_url
        ours.pop("CRAWLER_DATABASE__URL_FILE", None)
        ours["CRAWLER_SCHEDULER__URL"] = self.scheduler_url
        ours["CRAWLER_STATE"] = str(self.folder)
        ours["CRAWLER_HEALTH__HOST"] = ours["CRAWLER_METRICS__HOST"] = "127.0.0.1"
        ours["CRAWLER_HEALTH__PORT"] = str(self._health_port(part))
        ours["CRAWLER_METRICS__PORT"] = "0"
        ours["TEMPORAL_ADDRESS"] = self.temporal
        api_url = f"http://127.0.0.1:{self._health_port('api')}"
        if part == "worker":
            ours["CRAWLER_REMOTE__URL"] = api_url
        if part == "api":
            ours["CRAWLER_API__URL"], ours["CRAWLER_API__TOKENS"] = api_url, str(self.folder / "no-tokens.json")
        if part == "scheduler":
            ours["CRAWLER_SCHEDULER__CATALOGUE"] = str(self._catalogue())
        others = {name: value for name, value in os.environ.items() if not name.startswith(("CRAWLER_", "TEMPORAL_"))}
        return others | ours

    def _variables(self, part: str) -> Iterator[tuple[str, str]]:
        """As the kubelet makes them."""
        container = self._container(part)
        for source in container["envFrom"]:
            if "configMapRef" in source:
                yield from self._object("configmaps", source["configMapRef"]["name"])["data"].items()
        mounted = dict(self._mounted(part))
        for each in container["env"]:
            yield each["name"], mounted.get(each["value"], each["value"])

    def _mounted(self, part: str) -> Iterator[tuple[str, str]]:
        """Write the part's secrets into files, and yield these by their places in the container."""
        for volume in self._pod(part)["volumes"]:
            if volume["name"] == "secrets":
                data = self._object("secrets", volume["secret"]["secretName"])["data"]
                for item in volume["secret"]["items"]:
                    path = self.folder / f"{part}-{item['path']}"
                    path.write_bytes(base64.b64decode(data[item["key"]]))
                    yield f"/secrets/{item['path']}", str(path)

    def _catalogue(self) -> Path:
        """The installed one, with images that simulated nodes know the end of."""
        (volume,) = (each for each in self._pod("scheduler")["volumes"] if each["name"] == "catalogue")
        data = self._object("configmaps", volume["configMap"]["name"])["data"]["catalogue.toml"]
        path = self.folder / "catalogue.toml"
        path.write_text(re.sub(r'^image = ".*"$', f'image = "{fates.after(fates.SUCCEEDS, "1s")}"', data, flags=re.M))
        return path

    def _kubeconfig(self, part: str) -> Path:
        path = self.folder / f"kubeconfig-{part}"
        if not path.exists():
            path.symlink_to(self.bed.kubeconfig(self._pod(part)["serviceAccountName"], self.namespace))
        return path

    def _health_port(self, part: str) -> int:
        path = self.folder / f"port-{part}"
        if not path.exists():
            path.write_text(str(free_ports(1)[0]))
        return int(path.read_text())

    def _is_ready(self, part: str) -> bool:
        door = self.scheduler_url if part == "scheduler" else f"http://127.0.0.1:{self._health_port(part)}"
        try:
            return httpx.get(f"{door}/readyz", timeout=30, trust_env=False).status_code == 200
        except httpx.TransportError:
            return False

    def _log(self, part: str) -> Path:
        return self.folder / f"{part}.log"

    def _started(self, command: Any) -> list[str]:
        program, *words = command
        if program == "crawlctl":
            return [sys.executable, "-P", "-m", "crawler_lifecycle.cli", *words]
        assert program == "python"
        return [sys.executable, "-P", *words]

    def _container(self, part: str) -> dict[str, Any]:
        (container,) = self._pod(part)["containers"]
        found: dict[str, Any] = container
        return found

    def _pod(self, part: str) -> dict[str, Any]:
        path = f"/apis/apps/v1/namespaces/{self.namespace}/deployments/{part}"
        found: dict[str, Any] = self.bed.admin.get(path)["spec"]["template"]["spec"]
        return found

    def _object(self, kind: str, name: str) -> dict[str, Any]:
        found: dict[str, Any] = self.bed.admin.get(f"/api/v1/namespaces/{self.namespace}/{kind}/{name}")
        return found
