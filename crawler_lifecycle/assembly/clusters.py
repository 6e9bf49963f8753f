"""Makes the chosen cluster's adapter from the settings: the local cluster or Kubernetes."""

from datetime import timedelta
from typing import TYPE_CHECKING

from crawler_lifecycle.settings import Settings

if TYPE_CHECKING:
    from crawler_lifecycle.clusters.ports import Cluster, Places


def cluster_of(settings: Settings, installation: str | None, places: "Places | None" = None) -> "Cluster":
    """Return the cluster's adapter. `installation`: the UUID on the adapter's jobs; None: any installation's jobs.

    `places` keeps the Kubernetes namespace's uid in the database, so the adapter recognises a different cluster with
    an equal namespace name. The scheduler service has no database and gives no `places`, because every deployment
    request brings the uid.
    """
    if settings.cluster.kind == "kubernetes":
        return _kubernetes(settings, installation, places)
    from crawler_lifecycle.clusters.local.cluster import LocalCluster

    return LocalCluster(settings.jobs_folder, settings.files_folder, installation, settings.cluster.capacity)


def _kubernetes(settings: Settings, installation: str | None, places: "Places | None") -> "Cluster":
    from crawler_lifecycle.clusters.kubernetes.act.job_spec import PodSettings
    from crawler_lifecycle.clusters.kubernetes.cluster import KubernetesCluster, LogStorage
    from crawler_lifecycle.clusters.kubernetes.http.connection import ApiAccess
    from crawler_lifecycle.clusters.kubernetes.observe.looking import JobPatience

    kubernetes = settings.kubernetes
    access = ApiAccess(
        namespace=kubernetes.namespace,
        kubeconfig=kubernetes.kubeconfig,
        context=kubernetes.context,
        connections=settings.worker.activity_slots,  # no activity has to wait for a connection
        connect_seconds=kubernetes.connect_seconds,
        read_seconds=kubernetes.read_seconds,
    )
    pods = PodSettings(
        service_account=kubernetes.service_account,
        image_pull_secrets=tuple(name.strip() for name in kubernetes.image_pull_secrets.split(",") if name.strip()),
        files_claim=kubernetes.files_claim,
        files_group=kubernetes.files_group,
        longest=timedelta(days=kubernetes.longest_days),
        keep=timedelta(days=kubernetes.keep_days),
    )
    log_storage = LogStorage(settings.files_folder, kubernetes.log_mebibytes << 20)  # in bytes
    patience = JobPatience(
        no_progress=timedelta(seconds=kubernetes.give_up_seconds),
        overdue=timedelta(seconds=kubernetes.overdue_seconds),
        sidecars=timedelta(seconds=kubernetes.sidecar_seconds),
    )
    return KubernetesCluster(access, installation, pods, log_storage, patience, places)
