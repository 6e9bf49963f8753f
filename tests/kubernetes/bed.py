"""The test bed: a control plane that runs, with nodes, namespaces, users and the faults that can be done to it."""

import shutil
import ssl
import tempfile
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from uuid import uuid4

import httpx

from tests.kubernetes import holding, programs, rights, stages
from tests.kubernetes.client import Client, Trust, until
from tests.kubernetes.control_plane import ControlPlane
from tests.kubernetes.kubelet import Kubelet, serving
from tests.kubernetes.living import LivingPods
from tests.kubernetes.probing import until_jobs_complete
from tests.kubernetes.program import Program

NODES = 20
START_SECONDS = 180.0
ORDER = ("etcd", "kube-apiserver", "kube-controller-manager", "kube-scheduler", "kwok")
HEALTH = {"etcd": "/health", "kube-apiserver": "/readyz"}  # the others: /healthz


@dataclass(frozen=True)
class Token:
    """Of a service account; `secret` is the path of what it is bound to."""

    account: str
    value: str
    secret: str


class Bed:
    """Made by `running()`. Programs are named as in ORDER."""

    def __init__(self, plane: ControlPlane, kubelet: Kubelet) -> None:
        self.plane = plane
        self.kubelet = kubelet
        self.trust = Trust(ssl.PROTOCOL_TLS_CLIENT)
        self.trust.load_verify_locations(self.plane.certificates.authority)
        self.admin = Client(self.url, self.plane.tokens["admin"], self.trust)
        self.tokens: dict[Path, Token] = {}  # by the kubeconfig they are in
        self.living = LivingPods(self.admin)
        kubelet.has_pod = self.living.has
        self.programs: dict[str, Program] = {
            "etcd": self.plane.etcd(),
            "kube-apiserver": self.plane.api_server(),
            "kube-controller-manager": self.plane.controllers(),
            "kube-scheduler": self.plane.scheduler(),
            "kwok": self.plane.kwok(),
        }

    @property
    def url(self) -> str:
        return self.plane.url("kube-apiserver")

    # Life

    def start(self) -> None:
        for name in ORDER:
            self.start_program(name)
        rights.install(self.admin)
        with ThreadPoolExecutor(8) as pool:
            list(pool.map(self.add_node, [f"node-{number}" for number in range(NODES)]))
        self.until_ready([f"node-{number}" for number in range(NODES)])

    def stop(self) -> None:
        """Nothing of it is worth an orderly end, for which the API server would wait until all watchers have left."""
        self.kubelet.close()
        for program in self.programs.values():
            program.kill()
        self.living.close()
        self.admin.close()

    def start_program(self, name: str) -> None:
        """Start it (again) and wait until it says that it is well."""
        before = holding.holders(self.admin) if name == "kwok" else {}
        self.programs[name].start()
        self.until_healthy(name)
        if name == "kwok":
            holding.until_taken_over(self.admin, before)

    def until_healthy(self, name: str) -> None:
        program, address = self.programs[name], self.plane.url(name) + HEALTH.get(name, "/healthz")
        end = time.monotonic() + START_SECONDS
        while not self._is_healthy(address):
            program.check()
            assert time.monotonic() < end, f"{name} is not well after {START_SECONDS} s:\n{program.log_tail()}"
            time.sleep(0.1)

    def _is_healthy(self, address: str) -> bool:
        try:
            headers = {"Authorization": f"Bearer {self.plane.tokens['admin']}"}
            return httpx.get(address, headers=headers, verify=self.trust, timeout=5, trust_env=False).is_success
        except httpx.TransportError:
            return False

    def logs(self) -> str:
        """The end of every program's log, for the report of a test that failed."""
        return "\n".join(f"--- {name}\n{program.log_tail(15)}" for name, program in self.programs.items())

    # Who and where

    def namespace(self, *, enforce: str = "restricted") -> str:
        """A new one, with the rights of the project's users in it and Pod Security as it is to be."""
        name = f"test-{uuid4().hex[:12]}"
        labels = {"pod-security.kubernetes.io/enforce": enforce}
        self.admin.post("/api/v1/namespaces", {"metadata": {"name": name, "labels": labels}})
        rights.grant(self.admin, name)
        until(lambda: self.admin.exists(f"/api/v1/namespaces/{name}/serviceaccounts/default"), "the default account")
        return name

    def remove_namespace(self, name: str) -> None:
        """Begun; the controllers of the cluster do the rest."""
        self.admin.delete(f"/api/v1/namespaces/{name}")

    def token(self, account: str, seconds: int = 3600, **more: object) -> str:
        """As a pod of that service account (observer, actor) would find it."""
        asked = {"spec": {"audiences": [], "expirationSeconds": seconds, **more}}
        path = f"{rights.ACCOUNTS}/serviceaccounts/{account}/token"
        token: str = self.admin.post(path, asked)["status"]["token"]
        return token

    def client(self, account: str, url: str | None = None) -> Client:
        return Client(url or self.url, self.token(account), self.trust)

    def kubeconfig(self, account: str, namespace: str, server: str | None = None) -> Path:
        """`server`: the address of a proxy in between."""
        token = self._revocable_token(account)
        path = self.plane.kubeconfig(account, token.value, namespace, server)
        self.tokens[path] = token
        return path

    def renew(self, kubeconfig: Path) -> None:
        """There is another token in this file; the one before is good until it is revoked."""
        before, after = self.tokens[kubeconfig], self._revocable_token(self.tokens[kubeconfig].account)
        draft = kubeconfig.with_suffix(".new")
        draft.write_text(kubeconfig.read_text().replace(before.value, after.value))
        draft.rename(kubeconfig)
        self.tokens[kubeconfig] = after

    def revoke(self, token: Token) -> None:
        """From now on it is refused (401); the API server trusts what it has seen for ten seconds more."""
        self.admin.delete(token.secret)
        client = Client(self.url, token.value, self.trust)
        until(lambda: client.http.get("/api").status_code == httpx.codes.UNAUTHORIZED, "the token to be refused")
        client.close()

    def _revocable_token(self, account: str) -> Token:
        """It is good for as long as there is something it is bound to."""
        name = f"token-{uuid4().hex}"
        secret = self.admin.post(f"{rights.ACCOUNTS}/secrets", {"metadata": {"name": name}})
        bound = {"apiVersion": "v1", "kind": "Secret", "name": name, "uid": secret["metadata"]["uid"]}
        value = self.token(account, boundObjectRef=bound)
        return Token(account, value, f"{rights.ACCOUNTS}/secrets/{name}")

    # Nodes

    def add_node(self, name: str) -> None:
        labels = {stages.MANAGED: "true", "kubernetes.io/hostname": name}
        self.admin.post("/api/v1/nodes", {"metadata": {"name": name, "labels": labels}})

    def lose_node(self, name: str) -> None:
        """Nobody speaks for it any more: NotReady after its grace, then its pods are to go and cannot tell."""
        self.admin.merge(f"/api/v1/nodes/{name}", {"metadata": {"labels": {stages.MANAGED: None}}})

    def return_node(self, name: str) -> None:
        self.admin.merge(f"/api/v1/nodes/{name}", {"metadata": {"labels": {stages.MANAGED: "true"}}})
        self.until_ready([name])

    def until_ready(self, names: Sequence[str]) -> None:
        until(lambda: set(names) <= self._ready_nodes(), "the nodes to be ready", START_SECONDS)

    def _ready_nodes(self) -> set[str]:
        return {
            node["metadata"]["name"]
            for node in self.admin.items("/api/v1/nodes")
            if not node["spec"].get("taints") and condition(node, "Ready") == "True"
        }

    # Faults

    @contextmanager
    def frozen(self, name: str) -> Iterator[None]:
        """The program stands still: its connections stay open and nothing answers."""
        self.programs[name].freeze()
        try:
            yield
        finally:
            self.programs[name].thaw()
            self.until_healthy(name)

    @contextmanager
    def without(self, name: str) -> Iterator[None]:
        """The program is away; when it is back it knows only what there is by then."""
        self.programs[name].stop()
        try:
            yield
        finally:
            self.start_program(name)

    @contextmanager
    def api_server_with(self, *options: str) -> Iterator[None]:
        """For example `--max-requests-inflight=5`: real 429s."""
        self._replace_api_server(*options)
        try:
            yield
        finally:
            self._replace_api_server()

    def _replace_api_server(self, *options: str) -> None:
        self.programs["kube-apiserver"].kill()  # it would wait a minute for watchers to leave
        self.programs["kube-apiserver"] = self.plane.api_server(*options)
        self.start_program("kube-apiserver")
        until_jobs_complete(self.admin)

    def compact(self) -> None:
        """What was before now cannot be read any more: lists that are continued answer 410."""
        etcd = self.plane.url("etcd")
        with httpx.Client(base_url=etcd, timeout=30, trust_env=False) as http:
            revision = http.post("/v3/kv/range", json={"key": "AA=="}).raise_for_status().json()["header"]["revision"]
            http.post("/v3/kv/compaction", json={"revision": revision, "physical": True}).raise_for_status()

    def backup(self) -> Path:
        """The cluster's state, as a folder for `restore`."""
        target = self.plane.folder / f"backup-{uuid4().hex}"
        with self._without_state():
            shutil.copytree(self.plane.data, target)
        return target

    def restore(self, backup: Path) -> None:
        """The cluster goes back in time; its controllers start anew, as after such a restore they must."""
        with self._without_state():
            shutil.rmtree(self.plane.data)
            shutil.copytree(backup, self.plane.data)

    @contextmanager
    def _without_state(self) -> Iterator[None]:
        self.programs["kube-apiserver"].kill()
        for name in reversed(ORDER):
            self.programs[name].stop()
        yield
        for name in ORDER:
            self.start_program(name)
        until_jobs_complete(self.admin)

    def withdraw(self, account: str, namespace: str) -> None:
        """Take an account's rights in a namespace; `rights.grant` gives them again."""
        rights.withdraw(self.admin, account, namespace)


def condition(item: dict[str, Any], kind: str) -> str | None:
    """The status of that condition of any object."""
    found = [each["status"] for each in item.get("status", {}).get("conditions", []) if each["type"] == kind]
    return found[0] if found else None


@contextmanager
def running() -> Iterator[Bed]:
    """A bed that is gone with all its processes and files afterwards."""
    built = programs.built()
    with tempfile.TemporaryDirectory(prefix="bed-") as folder:
        plane = ControlPlane(Path(folder), built)
        with serving(plane.ports["kubelet"], plane.certificates) as kubelet:
            bed = Bed(plane, kubelet)
            try:
                bed.start()
                yield bed
            finally:
                bed.stop()
