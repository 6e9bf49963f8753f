"""Makes the chosen cluster's adapter from the settings."""

from datetime import timedelta
from typing import TYPE_CHECKING

from crawler_lifecycle.settings import Settings

if TYPE_CHECKING:
    from crawler_lifecycle.ports import Cluster, Places


def cluster_of(settings: Settings, installation: str | None, places: "Places | None" = None) -> "Cluster":
    """Return the cluster's adapter.

    On Kubernetes, `places` keeps the namespace's uid in the database: the adapter can recognise another cluster with
    an equal namespace name. The scheduler service has no database and gives no `places`: every deployment
    request brings the uid.
    """
    if settings.cluster.kind == "kubernetes":
        return _kubernetes(settings, installation, places)
    from crawler_lifecycle.adapters.local.cluster import LocalCluster

    return LocalCluster(settings.jobs_folder, settings.files_folder, installation, settings.cluster.capacity)


def _kubernetes(settings: Settings, installation: str | None, places: "Places | None") -> "Cluster":
    from crawler_lifecycle.adapters.kubernetes.act.job_spec import Pods
    from crawler_lifecycle.adapters.kubernetes.cluster import KubernetesCluster, LogStorage
    from crawler_lifecycle.adapters.kubernetes.http.connection import Access
    from crawler_lifecycle.adapters.kubernetes.observe.looking import JobPatience

    chosen = settings.kubernetes
    access = Access(
        namespace=chosen.namespace,
        kubeconfig=chosen.kubeconfig,
        context=chosen.context,
        connections=settings.worker.activity_slots,
        connect_seconds=chosen.connect_seconds,
        read_seconds=chosen.read_seconds,
    )
    pods = Pods(
        service_account=chosen.service_account,
        image_pull_secrets=tuple(name.strip() for name in chosen.image_pull_secrets.split(",") if name.strip()),
        files_claim=chosen.files_claim,
        files_group=chosen.files_group,
        longest=timedelta(days=chosen.longest_days),
        keep=timedelta(days=chosen.keep_days),
    )
    log_storage = LogStorage(settings.files_folder, chosen.log_mebibytes << 20)
    patience = JobPatience(
        no_progress=timedelta(seconds=chosen.give_up_seconds),
        overdue=timedelta(seconds=chosen.overdue_seconds),
        sidecars=timedelta(seconds=chosen.sidecar_seconds),
    )
    return KubernetesCluster(access, installation, pods, log_storage, patience, places)
