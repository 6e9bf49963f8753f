"""What are the programs of the control plane started with? One method each, in the order they need each other."""

import json
import os
from dataclasses import dataclass
from pathlib import Path
from uuid import uuid4

from crawler_lifecycle.stack.plan import free_ports
from tests.kubernetes import general_stages, programs, rare_stages, stages
from tests.kubernetes.certificates import Certificates
from tests.kubernetes.program import Program

# who the programs are to the API server; the bed itself is one of the masters, nothing that is tested is
USERS = {
    "admin": ("admin", "system:masters"),
    "kwok": ("kwok", "system:masters"),
    "controllers": ("system:kube-controller-manager", ""),
    "scheduler": ("system:kube-scheduler", ""),
}
SERVERS = ("etcd", "etcd-peers", "kube-apiserver", "kube-controller-manager", "kube-scheduler", "kwok", "kubelet")
NODE_LEASE_SECONDS = 12
NODE_GRACE_SECONDS = 50  # as by default: nodes of a busy machine renew late, and their pods must not be drained for it
TOLERATION_SECONDS = 5


@dataclass
class ControlPlane:
    """Command lines, and the files they name in `folder`."""

    folder: Path
    programs: Path

    def __post_init__(self) -> None:
        self.ports = dict(zip(SERVERS, free_ports(len(SERVERS)), strict=True))
        self.certificates = Certificates(self.folder)
        self.certificates.make()
        self.tokens = {user: uuid4().hex for user in USERS}
        lines = [f'{self.tokens[user]},{name},{user},"{group}"\n' for user, (name, group) in USERS.items()]
        self._secret("tokens.csv", "".join(lines))
        general = general_stages.pods(programs.general_stages(self.programs))
        self._secret("kwok.yaml", stages.configuration(*general, *rare_stages.PODS))

    @property
    def data(self) -> Path:
        return self.folder / "etcd-data"

    def url(self, name: str) -> str:
        return f"{'http' if name in ('etcd', 'kwok') else 'https'}://127.0.0.1:{self.ports[name]}"

    def etcd(self) -> Program:
        peers = f"http://127.0.0.1:{self.ports['etcd-peers']}"
        return self._program(
            "etcd",
            f"--data-dir={self.data}",
            f"--listen-client-urls={self.url('etcd')}",
            f"--advertise-client-urls={self.url('etcd')}",
            f"--listen-peer-urls={peers}",
            f"--initial-advertise-peer-urls={peers}",
            f"--initial-cluster=default={peers}",
            "--unsafe-no-fsync",
            "--log-level=warn",
        )

    def api_server(self, *more: str) -> Program:
        return self._program(
            "kube-apiserver",
            f"--etcd-servers={self.url('etcd')}",
            "--bind-address=127.0.0.1",
            "--advertise-address=127.0.0.1",
            f"--secure-port={self.ports['kube-apiserver']}",
            "--endpoint-reconciler-type=none",  # loopback cannot be an endpoint
            *self._served(),
            f"--token-auth-file={self.folder / 'tokens.csv'}",
            "--authorization-mode=Node,RBAC",
            "--anonymous-auth=false",
            "--service-account-issuer=https://kubernetes.default.svc",
            f"--service-account-key-file={self.certificates.accounts_key}",
            f"--service-account-signing-key-file={self.certificates.accounts_key}",
            "--service-cluster-ip-range=10.0.0.0/24",
            "--etcd-compaction-interval=0",  # only a test compacts ...
            "--feature-gates=ListFromCacheSnapshot=false",  # ... and no page outlives that
            f"--default-not-ready-toleration-seconds={TOLERATION_SECONDS}",
            f"--default-unreachable-toleration-seconds={TOLERATION_SECONDS}",
            *more,
        )

    def controllers(self) -> Program:
        return self._program(
            "kube-controller-manager",
            f"--kubeconfig={self._kubeconfig('controllers')}",
            "--bind-address=127.0.0.1",
            f"--secure-port={self.ports['kube-controller-manager']}",
            *self._served(),
            "--leader-elect=false",
            "--use-service-account-credentials",
            f"--service-account-private-key-file={self.certificates.accounts_key}",
            f"--root-ca-file={self.certificates.authority}",
            "--concurrent-job-syncs=50",
            "--kube-api-qps=1000",
            "--kube-api-burst=2000",
            "--node-monitor-period=2s",
            f"--node-monitor-grace-period={NODE_GRACE_SECONDS}s",
        )

    def scheduler(self) -> Program:
        configuration = {
            "apiVersion": "kubescheduler.config.k8s.io/v1",
            "kind": "KubeSchedulerConfiguration",
            "leaderElection": {"leaderElect": False},
            "clientConnection": {"kubeconfig": str(self._kubeconfig("scheduler")), "qps": 1000, "burst": 2000},
        }
        return self._program(
            "kube-scheduler",
            f"--config={self._secret('scheduler.yaml', json.dumps(configuration))}",
            "--bind-address=127.0.0.1",
            f"--secure-port={self.ports['kube-scheduler']}",
            *self._served(),
        )

    def kwok(self) -> Program:
        return self._program(
            "kwok",
            f"--kubeconfig={self._kubeconfig('kwok')}",
            f"--config={self.folder / 'kwok.yaml'}",
            f"--manage-nodes-with-label-selector={stages.MANAGED}=true",
            f"--server-address=127.0.0.1:{self.ports['kwok']}",
            "--node-ip=127.0.0.1",
            f"--node-port={self.ports['kubelet']}",
            "--cidr=10.64.0.0/10",
            f"--node-lease-duration-seconds={NODE_LEASE_SECONDS}",
        )

    def kubeconfig(self, name: str, token: str, namespace: str = "default", server: str | None = None) -> Path:
        """A file that makes clients this user."""
        address, authority = server or self.url("kube-apiserver"), str(self.certificates.authority)
        cluster = {"server": address, "certificate-authority": authority}
        document = {
            "apiVersion": "v1",
            "kind": "Config",
            "clusters": [{"name": "bed", "cluster": cluster}],
            "users": [{"name": name, "user": {"token": token}}],
            "contexts": [{"name": "bed", "context": {"cluster": "bed", "user": name, "namespace": namespace}}],
            "current-context": "bed",
        }
        return self._secret(f"kubeconfig-{name}-{namespace}-{uuid4().hex[:8]}.yaml", json.dumps(document))

    def _kubeconfig(self, user: str) -> Path:
        return self.kubeconfig(user, self.tokens[user])

    def _served(self) -> tuple[str, str]:
        return (
            f"--tls-cert-file={self.certificates.server}",
            f"--tls-private-key-file={self.certificates.server_key}",
        )

    def _secret(self, name: str, text: str) -> Path:
        path = self.folder / name
        path.touch(0o600)
        path.write_text(text)
        return path

    def _program(self, name: str, *options: str) -> Program:
        logs = self.folder / "logs"
        logs.mkdir(exist_ok=True)
        home = {"HOME": str(self.folder), "TZ": "UTC", "PATH": os.defpath, "KUBECONFIG": ""}
        return Program([self.programs / name, *options], logs / f"{name}.log", home)
