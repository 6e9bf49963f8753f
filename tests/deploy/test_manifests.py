"""The manifests fit the Kubernetes schemas, give no right that the table does not, and name settings that there are."""

import math
import os
import re
import shutil
import textwrap
from copy import deepcopy
from itertools import chain
from pathlib import Path
from urllib.parse import urlsplit
from uuid import uuid4

import pytest
import yaml

from crawler_lifecycle.clusters.adapters.catalogue import Catalogue
from crawler_lifecycle.clusters.kubernetes.act.job_spec import PodSettings, job_of
from crawler_lifecycle.clusters.kubernetes.http.server_checks import RIGHTS
from crawler_lifecycle.model.deployment import Crawler, DeploymentRequest
from crawler_lifecycle.processes.flows import END_SECONDS
from crawler_lifecycle.settings import Settings, configuration
from crawler_lifecycle.triggers.queue import ANSWER_SECONDS, POLL_SECONDS
from tests.deploy import manifests
from tests.deploy.manifests import INSTALLATIONS, KUBERNETES, KUSTOMIZATION, Document, Folder, problems, read
from tests.kit.clusters.pod_shapes import SHAPED

HOME, CRAWLS = Folder(KUBERNETES / "base" / "home"), Folder(KUBERNETES / "base" / "crawls")
FLOWS = Folder(KUBERNETES / "components" / "flows")
TRIGGERS = Folder(KUBERNETES / "components" / "triggers")
PARTS = {"worker": "actor", "dispatcher": "actor", "watcher": "observer", "scheduler": "actor", "api": "observer"}
MYSQL_TAKES = 151  # its default of max_connections
ACTS = {"create", "delete"}


def ids(folder: Folder) -> str:
    return str(folder.path.relative_to(KUBERNETES))


@pytest.fixture(params=manifests.folders(), ids=ids)
def folder(request: pytest.FixtureRequest) -> Folder:
    folder: Folder = request.param
    return folder


def test_they_fit_the_schemas(folder: Folder) -> None:
    wrong = [problem for document in folder.manifests for problem in problems(document)]
    wrong += [problem for document in folder.patches for problem in problems(document, is_patch=True)]
    assert wrong == []


def test_what_does_not_fit_is_found() -> None:
    worker = deepcopy(by_name("Deployment", "worker"))
    worker["spec"]["template"]["spec"]["containers"][0]["readynessProbe"] = {}
    assert any("readynessProbe" in problem for problem in problems(worker))
    assert any("readynessProbe" in problem for problem in problems(worker, is_patch=True))
    worker = deepcopy(by_name("Deployment", "worker"))
    worker["spec"]["replicas"] = "two"
    del worker["spec"]["selector"]
    assert len(problems(worker)) == 2 * len(manifests.VERSIONS)


def test_the_job_of_a_crawl_fits_the_schemas() -> None:
    crawler = Crawler(name="books", image="books:1", command=["crawl"], argument_flag="-a", environment={"A": "b"})
    assert problems(job_for(crawler)) == []


def test_the_job_of_a_shaped_crawl_fits_the_schemas(tmp_path: Path) -> None:
    path = tmp_path / "catalogue.toml"
    path.write_text(SHAPED)
    job = job_for(Catalogue.load(path).entry("books"))
    assert problems(job) == []
    pod = job["spec"]["template"]["spec"]
    assert {"nodeSelector", "tolerations", "priorityClassName"} <= pod.keys()
    pod["tolerations"][0]["seconds"] = 60
    assert len(problems(job)) == len(manifests.VERSIONS), "the schemas know each field of a toleration"


def job_for(crawler: Crawler) -> Document:
    request = DeploymentRequest(
        installation=str(uuid4()),
        run_id=7,
        run_uid=str(uuid4()),
        task=0,
        tasks=1,
        attempt=1,
        crawler=crawler,
        arguments={"depth": "2"},
    )
    pods = PodSettings(service_account="crawler", image_pull_secrets=("registry",), files_claim="files")
    return job_of(request, pods)


def test_every_file_is_used(folder: Folder) -> None:
    told = folder.kustomization
    used = {*told.get("resources", []), *(patch["path"] for patch in told.get("patches", []) if "path" in patch)}
    used |= {file for each in told.get("configMapGenerator", []) for file in each.get("files", [])}
    beside = {path.name for path in folder.path.iterdir() if path.is_file() or (path / KUSTOMIZATION).exists()}
    assert beside - {KUSTOMIZATION} == {name for name in used if "/" not in name}
    assert all((folder.path / name).exists() for name in used)


@pytest.mark.skipif(shutil.which("kubectl") is None, reason="no kubectl here; `make test-cluster` brings its own")
@pytest.mark.parametrize("installation", INSTALLATIONS)
def test_what_kustomize_makes_of_them_fits(installation: str) -> None:
    documents = manifests.rendered("kubectl", installation)
    assert [problem for document in documents for problem in problems(document)] == []
    check_pods(documents)
    made = {document["metadata"]["name"] for document in documents if document["kind"] == "ConfigMap"}
    named = {
        source["configMapRef"]["name"]
        for _, pod in manifests.pods(documents)
        for container in pod["containers"]
        for source in container["envFrom"]
        if "configMapRef" in source
    }
    assert named
    assert named <= made  # the generated names, with their hash


def test_pods_are_restricted() -> None:
    check_pods(HOME.manifests)


def check_pods(documents: list[Document], parts: int = len(PARTS)) -> None:
    """Pod Security *restricted*, and a root file system that nobody writes to."""
    found = dict(manifests.pods(documents))
    assert len(found) == parts + 1
    for maker, pod in found.items():
        context = pod["securityContext"]
        assert context["runAsNonRoot"], maker
        assert context["runAsUser"] == 1000, maker
        assert context["seccompProfile"] == {"type": "RuntimeDefault"}, maker
        assert pod["enableServiceLinks"] is False, maker
        (container,) = pod["containers"]
        assert container["securityContext"] == {
            "allowPrivilegeEscalation": False,
            "readOnlyRootFilesystem": True,
            "capabilities": {"drop": ["ALL"]},
        }, maker
        assert set(container["resources"]["requests"]) == {"cpu", "memory"}, maker
        assert "memory" in container["resources"]["limits"], maker
        assert {"name": "tmp", "mountPath": "/tmp"} in container["volumeMounts"], maker


@pytest.mark.parametrize("part", PARTS)
def test_every_part_has_probes_a_budget_and_its_account(part: str) -> None:
    pod = by_name("Deployment", part)["spec"]["template"]["spec"]
    (container,) = pod["containers"]
    paths = [container[probe]["httpGet"]["path"] for probe in ("startupProbe", "livenessProbe", "readinessProbe")]
    assert paths == ["/healthz", "/healthz", "/readyz"]
    ports = {port["name"]: port["containerPort"] for port in container["ports"]}
    assert container["livenessProbe"]["httpGet"]["port"] in ports
    if part not in ("scheduler", "api"):
        assert ports["health"] == int(HOME.literals["CRAWLER_HEALTH__PORT"])
    assert (pod["serviceAccountName"], pod["automountServiceAccountToken"]) == (PARTS[part], True)
    budget = by_name("PodDisruptionBudget", part)["spec"]
    assert budget["selector"]["matchLabels"] == {"app.kubernetes.io/name": part}
    assert pod["terminationGracePeriodSeconds"] > Settings().worker.drain_seconds


def test_only_who_needs_a_secret_gets_it() -> None:
    needs = {
        "worker": {"DATABASE", "SCHEDULER", "API"},
        "dispatcher": {"DATABASE", "SCHEDULER"},
        "watcher": {"DATABASE"},
        "scheduler": {"SCHEDULER"},
        "api": {"DATABASE", "SCHEDULER", "API"},
    }
    for part, expected in needs.items():
        (container,) = by_name("Deployment", part)["spec"]["template"]["spec"]["containers"]
        assert "secretKeyRef" not in str(container["env"]), "secrets come from files"
        keys = mounted_secrets(by_name("Deployment", part)["spec"]["template"]["spec"]).values()
        assert {key.split("__")[0].removeprefix("CRAWLER_") for key in keys} == expected, part


def mounted_secrets(pod: Document) -> dict[str, str]:
    """Return the keys of the pod's mounted Secret by the setting that each file is for."""
    (container,) = pod["containers"]
    (mount,) = (mount for mount in container["volumeMounts"] if mount["name"] == "secrets")
    (volume,) = (volume for volume in pod["volumes"] if volume["name"] == "secrets")
    keys = {f"{mount['mountPath']}/{item['path']}": item["key"] for item in volume["secret"]["items"]}
    settings = {each.get("value"): each["name"].removesuffix("_FILE") for each in container["env"]}
    assert mount["readOnly"]
    assert keys.keys() <= settings.keys(), "a file without a setting"
    return {settings[path]: key for path, key in keys.items()}


def granted(role: str) -> set[str]:
    rules = by_name("Role", role)["rules"]
    return {
        f"{verb} {'.'.join(filter(None, (resource, group)))}"
        for rule in rules
        for group in rule["apiGroups"]
        for resource in rule["resources"]
        for verb in rule["verbs"]
    }


def test_the_actor_may_do_what_doctor_asks_for_and_nothing_else() -> None:
    assert granted("actor") == {str(right) for right in RIGHTS}


def test_the_observer_may_look_only() -> None:
    assert granted("observer") == {str(right) for right in RIGHTS if right.verb not in ACTS}


def test_rights_are_in_the_namespace_of_the_crawls_only() -> None:
    every = [document for folder in manifests.folders() for document in folder.manifests]
    rbac = [
        document
        for document in every
        if document["apiVersion"].startswith("rbac.") and not document["kind"].startswith("Cluster")
    ]
    assert {document["kind"] for document in rbac} == {"Role", "RoleBinding"}
    assert {document["metadata"]["namespace"] for document in rbac} == {"crawls"}
    names = [
        rule["resourceNames"] for each in rbac for rule in each.get("rules", []) if "namespaces" in rule["resources"]
    ]
    assert names == [["crawls"], ["crawls"]]
    for binding in (each for each in rbac if each["kind"] == "RoleBinding"):
        (subject,) = binding["subjects"]
        assert (subject["kind"], subject["name"]) == ("ServiceAccount", binding["roleRef"]["name"])


def test_outside_of_that_namespace_a_component_reads_the_uid_of_the_cluster() -> None:
    every = [document for folder in manifests.folders() for document in folder.manifests]
    role, binding = (document for document in every if document["kind"].startswith("Cluster"))
    assert role["rules"] == [
        {"apiGroups": [""], "resources": ["namespaces"], "resourceNames": ["kube-system"], "verbs": ["get"]}
    ]
    assert binding["roleRef"]["name"] == role["metadata"]["name"]
    assert {subject["name"] for subject in binding["subjects"]} == {"observer", "actor"}


def test_crawlers_get_no_token_and_no_way_inside() -> None:
    account = by_name("ServiceAccount", "crawler")
    assert account["automountServiceAccountToken"] is False
    assert account["metadata"]["name"] == HOME.literals["CRAWLER_KUBERNETES__SERVICE_ACCOUNT"]
    policy = by_name("NetworkPolicy", "crawls")["spec"]
    assert policy["podSelector"] == {}
    assert policy["policyTypes"] == ["Ingress", "Egress"]
    assert "ingress" not in policy
    blocks = [to["ipBlock"] for rule in policy["egress"] for to in rule.get("to", [])]
    assert {"10.0.0.0/8", "169.254.0.0/16", "172.16.0.0/12", "192.168.0.0/16"} <= set(
        chain.from_iterable(block["except"] for block in blocks)
    )


def test_only_those_that_deploy_have_the_token_for_it() -> None:
    """With the token the holder runs any image under the account of the crawls. The API pod faces the internet."""
    tokens: dict[tuple[str, str], str] = {}
    for folder in manifests.folders():
        for document in folder.manifests:
            pod = document.get("spec", {}).get("template", {}).get("spec", {})
            if any(volume["name"] == "secrets" for volume in pod.get("volumes", [])):
                keys = mounted_secrets(pod)
                part = document["metadata"]["name"]
                tokens |= {(part, name): key for name, key in keys.items() if re.search("SCHEDULER.*TOKEN", name)}
    own, read, metrics = (f"CRAWLER_SCHEDULER__{name}" for name in ("TOKEN", "READ_TOKEN", "METRICS_TOKEN"))
    assert tokens == {
        ("worker", own): own,
        ("dispatcher", own): own,
        ("api", own): read,
        **{("scheduler", name): name for name in (own, read, metrics)},
    }


def test_the_api_looks_at_jobs_and_keeps_nothing() -> None:
    pod = by_name("Deployment", "api")["spec"]["template"]["spec"]
    (container,) = pod["containers"]
    port = container["ports"][0]["containerPort"]
    set_here = {each["name"]: each.get("value") for each in container["env"]}
    assert urlsplit(set_here["CRAWLER_API__URL"]).port == port == urlsplit(Settings().api.url).port
    assert {mount["name"] for mount in container["volumeMounts"] if not mount.get("readOnly")} == {"tmp"}
    assert by_name("Service", "api")["spec"]["ports"][0]["port"] == port


@pytest.mark.skipif(shutil.which("kubectl") is None, reason="no kubectl here; `make test-cluster` brings its own")
@pytest.mark.parametrize("component", ["temporal-tls", "temporal-api-key"])
def test_who_speaks_to_temporal_has_its_credentials_by_a_component(component: str, tmp_path: Path) -> None:
    shutil.copytree(KUBERNETES, tmp_path / "deploy")
    (tmp_path / "own").mkdir()
    components = [f"../deploy/components/{name}" for name in ("flows", component)]
    kustomization = {"resources": ["../deploy/overlays/small"], "components": components}
    (tmp_path / "own" / KUSTOMIZATION).write_text(yaml.safe_dump(kustomization))
    documents = manifests.rendered("kubectl", str(tmp_path / "own"))
    assert [problem for document in documents for problem in problems(document)] == []
    having = dict[str, set[str]]()
    for maker, pod in manifests.pods(documents):
        (container,) = pod["containers"]
        variables = {pair["name"]: pair.get("value") for pair in container.get("env", [])}
        if credentials := {name for name in variables if name.startswith(("TEMPORAL_TLS", "TEMPORAL_API"))}:
            having[maker] = credentials
            folders = {mount["name"]: mount["mountPath"] for mount in container["volumeMounts"]}
            secrets = {
                volume["name"]: volume["secret"]["secretName"] for volume in pod["volumes"] if "secret" in volume
            }
            paths = [str(variables[name]) for name in credentials if name.endswith("_PATH")]
            assert all(path.startswith(f"{folders['temporal-tls']}/") for path in paths)
            assert not paths or secrets["temporal-tls"] == "temporal-tls"
    expected = (
        {"TEMPORAL_API_KEY"}
        if component == "temporal-api-key"
        else {
            "TEMPORAL_TLS",
            *(f"TEMPORAL_TLS_{name}_PATH" for name in ("SERVER_CA_CERT", "CLIENT_CERT", "CLIENT_KEY")),
        }
    )
    assert having == dict.fromkeys([f"Deployment {name}" for name in ("api", "flows", "watcher", "worker")], expected)


def test_crawlctl_in_the_container_of_the_worker_has_the_api_and_its_token() -> None:
    """`kubectl exec deployment/worker -- crawlctl list`."""
    worker, api = (by_name("Deployment", part)["spec"]["template"]["spec"] for part in ("worker", "api"))
    values = {each["name"]: each.get("value") for each in worker["containers"][0]["env"]}
    service = by_name("Service", "api")
    port = service["spec"]["ports"][0]["port"]
    assert values["CRAWLER_REMOTE__URL"] == f"http://{service['metadata']['name']}:{port}"
    key = mounted_secrets(worker)["CRAWLER_REMOTE__TOKEN"]
    assert key == mounted_secrets(api)["CRAWLER_API__OPERATOR_TOKEN"] == "CRAWLER_API__OPERATOR_TOKEN"
    (way,) = by_name("NetworkPolicy", "worker-to-api")["spec"]["egress"]
    (door,) = by_name("NetworkPolicy", "api")["spec"]["ingress"]
    assert way["to"] == [{"podSelector": {"matchLabels": {"app.kubernetes.io/name": "api"}}}]
    assert {"podSelector": {"matchLabels": {"app.kubernetes.io/name": "worker"}}} in door["from"]
    assert way["ports"] == door["ports"] == [{"port": port}]


def test_a_host_of_steps_has_no_account_of_ours() -> None:
    documents = {(each["kind"], each["metadata"]["name"]): each for each in FLOWS.manifests}
    assert {each["metadata"]["namespace"] for each in FLOWS.manifests} == {HOME.kustomization["namespace"]}
    pod = documents["Deployment", "flows"]["spec"]["template"]["spec"]
    (container,) = pod["containers"]
    assert container["command"] == ["crawlctl", "host"]
    assert pod["automountServiceAccountToken"] is False
    assert list(mounted_secrets(pod)) == ["CRAWLER_DATABASE__URL"]
    mounted = {volume["secret"]["secretName"] for volume in pod["volumes"] if "secret" in volume}
    assert mounted == {"flows-credentials"}, "our own credentials are not for authors' code"
    assert "envFrom" not in container
    (rule,) = documents["NetworkPolicy", "flows"]["spec"]["egress"]
    assert [each["port"] for each in rule["ports"]] == [3306, 7233], "neither the API server nor the scheduler service"
    assert pod["terminationGracePeriodSeconds"] > Settings().flows.drain_seconds + END_SECONDS


@pytest.mark.skipif(shutil.which("kubectl") is None, reason="no kubectl here; `make test-cluster` brings its own")
@pytest.mark.parametrize(("home", "queue"), [("base/home", None), ("overlays/second/home", "crawler-second")])
def test_a_host_of_steps_serves_the_queues_of_the_worker(home: str, queue: str | None, tmp_path: Path) -> None:
    """On another task queue, namespace or server than the worker's, steps would wait for a host for ever."""
    shutil.copytree(KUBERNETES, tmp_path, dirs_exist_ok=True)
    component = os.path.relpath(tmp_path / "components" / "flows", tmp_path / home)
    kustomization = {**Folder(KUBERNETES / home).kustomization, "components": [component]}
    (tmp_path / home / KUSTOMIZATION).write_text(yaml.safe_dump(kustomization))
    documents = manifests.rendered("kubectl", str(tmp_path / home))
    assert [problem for document in documents for problem in problems(document)] == []
    worker, host = (environment_of(documents, part) for part in ("worker", "flows"))
    assert worker.get("CRAWLER_WORKER__TASK_QUEUE") == queue
    for name in ("CRAWLER_WORKER__TASK_QUEUE", "TEMPORAL_ADDRESS", "TEMPORAL_NAMESPACE"):
        assert host.get(name) == worker.get(name), name


@pytest.mark.skipif(shutil.which("kubectl") is None, reason="no kubectl here; `make test-cluster` brings its own")
def test_the_howto_has_an_overlay_with_hosts_of_steps(tmp_path: Path) -> None:
    page = (KUBERNETES.parents[1] / "docs" / "howto" / "host-steps.md").read_text()
    (block,) = re.findall(r"^```yaml\n(.*?)^```$", page, re.MULTILINE | re.DOTALL)
    (files,) = re.findall(r"^  ```yaml\n(.*?)^  ```$", page, re.MULTILINE | re.DOTALL)
    (kustomization,) = manifests.parse(block)
    kustomization["patches"].append(
        {"target": {"kind": "Deployment", "name": "flows"}, "patch": textwrap.dedent(files)}
    )
    shutil.copytree(KUBERNETES, tmp_path / "deploy" / "kubernetes")
    (tmp_path / "installation").mkdir()
    (tmp_path / "installation" / KUSTOMIZATION).write_text(yaml.safe_dump(kustomization))
    documents = manifests.rendered("kubectl", str(tmp_path / "installation"))
    assert [problem for document in documents for problem in problems(document)] == []
    check_pods(documents, parts=len(PARTS) + 1)
    pod = dict(manifests.pods(documents))["Deployment flows"]
    (container,) = pod["containers"]
    assert container["image"] == "registry.example.com/my-flows:1"
    assert container["args"] == ["my_project.flows", "--queue=default", "--queue=big"]
    claims = [volume["persistentVolumeClaim"]["claimName"] for volume in pod["volumes"] if volume["name"] == "files"]
    assert claims == ["state"]
    mounts = [mount for mount in container["volumeMounts"] if mount["name"] == "files"]
    assert [mount["mountPath"] for mount in mounts] == [str(Settings(state=Path("/state")).files_folder)]


def environment_of(documents: list[Document], part: str) -> dict[str, str]:
    """Return the variables that a Deployment's container gets from its manifest and from ConfigMaps."""
    maps = {manifests.name_of(document): document for document in documents if document["kind"] == "ConfigMap"}
    (deployment,) = (document for document in documents if manifests.name_of(document) == f"Deployment {part}")
    (container,) = deployment["spec"]["template"]["spec"]["containers"]
    variables: dict[str, str] = {}

    def data(name: str) -> dict[str, str]:
        settings = maps[f"ConfigMap {name}"]
        assert settings["metadata"]["namespace"] == deployment["metadata"]["namespace"]
        values: dict[str, str] = settings["data"]
        return values

    for source in container.get("envFrom", []):
        if "configMapRef" in source:
            variables |= data(source["configMapRef"]["name"])
    for variable in container["env"]:
        key = variable.get("valueFrom", {}).get("configMapKeyRef")
        if key is not None and (not key.get("optional") or key["key"] in data(key["name"])):
            variables[variable["name"]] = data(key["name"])[key["key"]]
        elif "value" in variable:
            variables[variable["name"]] = variable["value"]
    return variables


@pytest.mark.skipif(shutil.which("kubectl") is None, reason="no kubectl here; `make test-cluster` brings its own")
def test_who_has_a_volume_of_one_node_is_one_and_beside_the_others() -> None:
    """Else a pod on another node waits for the volume for ever; after an upgrade that may be the worker's."""
    documents = manifests.rendered("kubectl", "overlays/small")
    (volume,) = (each for each in documents if each["kind"] == "PersistentVolumeClaim")
    assert volume["spec"]["accessModes"] == ["ReadWriteOnce"]
    have_it = {name: pod for name, pod in manifests.pods(documents) if "persistentVolumeClaim" in str(pod["volumes"])}
    assert set(have_it) == {"Deployment worker", "Deployment api"}
    for made in (each for each in documents if manifests.name_of(each) in have_it):
        assert made["spec"]["replicas"] == 1
        assert made["spec"]["strategy"] == {"type": "Recreate"}
    (beside,) = affinity_of(have_it["Deployment api"])["requiredDuringSchedulingIgnoredDuringExecution"]
    (near,) = affinity_of(have_it["Deployment worker"])["preferredDuringSchedulingIgnoredDuringExecution"]
    for term, other in ((beside, "worker"), (near["podAffinityTerm"], "api")):
        assert term["topologyKey"] == "kubernetes.io/hostname"
        assert term["labelSelector"] == {"matchLabels": {"app.kubernetes.io/name": other}}


def affinity_of(pod: Document) -> Document:
    found: Document = pod["affinity"]["podAffinity"]
    return found


def test_the_trigger_process_has_a_token_and_no_other_secret() -> None:
    documents = {(entry["kind"], entry["metadata"]["name"]): entry for entry in TRIGGERS.manifests}
    pod = documents["Deployment", "triggers"]["spec"]["template"]["spec"]
    (container,) = pod["containers"]
    assert container["command"] == ["python", "-m", "workers.triggers"]
    assert pod["automountServiceAccountToken"] is False
    secrets = [entry["secret"] for entry in pod["volumes"] if "secret" in entry]
    key = "CRAWLER_REMOTE__TOKEN"
    assert secrets == [{"secretName": "triggers-credentials", "items": [{"key": key, "path": key}]}]
    values = {entry["name"]: entry["value"] for entry in container["env"]}
    assert (values["CRAWLER_REMOTE__TOKEN_FILE"], values["CRAWLER_REMOTE__URL"]) == (
        f"/secrets/{key}",
        "http://api:3210",
    )
    longest = POLL_SECONDS + ANSWER_SECONDS + Settings().remote.seconds
    assert pod["terminationGracePeriodSeconds"] > longest


@pytest.mark.skipif(shutil.which("kubectl") is None, reason="no kubectl here; `make test-cluster` brings its own")
def test_the_howto_has_an_overlay_with_triggers(tmp_path: Path) -> None:
    page = (KUBERNETES.parents[1] / "docs" / "howto" / "events.md").read_text()
    (block,) = re.findall(r"^```yaml\n(.*?)^```$", page, re.MULTILINE | re.DOTALL)
    shutil.copytree(KUBERNETES, tmp_path / "deploy" / "kubernetes")
    (tmp_path / "installation").mkdir()
    (tmp_path / "installation" / KUSTOMIZATION).write_text(block)
    (tmp_path / "installation" / "events.toml").write_text("# ours")
    documents = manifests.rendered("kubectl", str(tmp_path / "installation"))
    assert [problem for document in documents for problem in problems(document)] == []
    check_pods(documents, parts=len(PARTS) + 1)
    pods = dict(manifests.pods(documents))
    api, triggers = (pods[f"Deployment {part}"] for part in ("api", "triggers"))
    (volume,) = (entry for entry in api["volumes"] if entry["name"] == "mapping")
    maps = {entry["metadata"]["name"]: entry["data"] for entry in documents if entry["kind"] == "ConfigMap"}
    assert maps[volume["configMap"]["name"]] == {"events.toml": "# ours"}
    (source,) = triggers["containers"][0]["envFrom"]
    assert maps[source["configMapRef"]["name"]].keys() == {
        f"CRAWLER_TRIGGERS__{name}" for name in ("QUEUE_URL", "DEAD_LETTER_URL", "REGION")
    }
    (account,) = (entry for entry in documents if manifests.name_of(entry) == "ServiceAccount triggers")
    assert "eks.amazonaws.com/role-arn" in account["metadata"]["annotations"]


@pytest.mark.parametrize("namespace", ["crawler-lifecycle", "crawls"])
def test_namespaces_are_restricted(namespace: str) -> None:
    labels = by_name("Namespace", namespace)["metadata"]["labels"]
    assert labels["pod-security.kubernetes.io/enforce"] == "restricted"


def test_settings_are_ours_and_can_be_read(folder: Folder, monkeypatch: pytest.MonkeyPatch) -> None:
    told = {**HOME.literals, **folder.literals}
    for name, value in told.items():
        monkeypatch.setenv(name, value)
    loaded = configuration.load().model_dump(mode="json")
    for name, value in told.items():
        if name.startswith("CRAWLER_"):
            group, _, field = name.removeprefix("CRAWLER_").lower().partition("__")
            text = loaded[group][field]
            assert (str(text).lower() if isinstance(text, bool) else str(text)) == value


def test_the_settings_that_manifests_set_by_themselves_are_ours() -> None:
    names = {
        each["name"]
        for _, pod in manifests.pods(HOME.manifests)
        for container in pod["containers"]
        for each in container["env"]
    }
    known = Settings().model_dump()
    for name in names:
        group, _, field = name.removeprefix("CRAWLER_").lower().partition("__")
        assert field.removesuffix("_file") in known[group]


def test_no_file_of_lines_grows_on_a_shared_volume() -> None:
    home = Folder(KUBERNETES / "base" / "home")
    assert (home.literals["CRAWLER_NOTICES__FILE"], home.literals["CRAWLER_EXPORT__FILE"]) == ("false", "false")


def test_jobs_of_the_limits_fit_the_quota() -> None:
    """No task waits for the quota that admission thought there was room for."""
    quota = by_name("ResourceQuota", "crawls")["spec"]["hard"]
    assert int(quota["pods"]) >= Settings().limits.tasks_in_cluster
    for size in ("small", "large"):
        overlay = Folder(KUBERNETES / "overlays" / size)
        (patch,) = (each for each in overlay.patches if each["kind"] == "ResourceQuota")
        assert int(patch["spec"]["hard"]["pods"]) >= int(overlay.literals["CRAWLER_LIMITS__TASKS_IN_CLUSTER"])


@pytest.mark.skipif(shutil.which("kubectl") is None, reason="no kubectl here; `make test-cluster` brings its own")
@pytest.mark.parametrize("overlay", ["overlays/small", "overlays/large"])
def test_the_database_takes_the_connections_of_all(overlay: str) -> None:
    """Also in the midst of a rollout of them all, with a job that makes the schema and a few direct `crawlctl`."""
    documents = manifests.rendered("kubectl", overlay)
    told = next(each["data"] for each in documents if each["metadata"]["name"].startswith("settings-"))
    most = int(told.get("CRAWLER_DATABASE__POOL_SIZE", Settings().database.pool_size))
    processes = sum(
        surged(each["spec"])
        for each in documents
        if each["kind"] == "Deployment" and "CRAWLER_DATABASE__URL" in str(each["spec"]["template"])
    )
    assert processes > 3
    assert processes * most + 10 <= MYSQL_TAKES


def surged(spec: Document) -> int:
    """As many as a rollout has at once: a quarter more, if nothing else is said."""
    replicas: int = spec.get("replicas", 1)
    strategy = spec.get("strategy", {})
    assert "rollingUpdate" not in strategy or strategy["rollingUpdate"] == {"maxSurge": 0}
    if strategy.get("type") == "Recreate" or "rollingUpdate" in strategy:
        return replicas
    return replicas + math.ceil(replicas / 4)


def test_the_catalogue_can_be_read() -> None:
    catalogue = Catalogue.load(HOME.path / "catalogue.toml")
    assert all(catalogue.entry(name).image for name in catalogue.names())


def test_the_image_is_one() -> None:
    images = {container["image"] for _, pod in manifests.pods(HOME.manifests) for container in pod["containers"]}
    assert len(images) == 1


def by_name(kind: str, name: str) -> Document:
    (found,) = (
        each
        for path in (HOME.path, CRAWLS.path)
        for file in sorted(path.glob("*.yaml"))
        if file.name != KUSTOMIZATION
        for each in read(file)
        if (each["kind"], each["metadata"]["name"]) == (kind, name)
    )
    return found
