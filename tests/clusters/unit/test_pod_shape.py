"""A catalogue entry shapes its pods with values that Kubernetes takes, and with keys that give a pod no right."""

import re
import tomllib
from collections.abc import Callable, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from crawler_lifecycle.clusters.adapters.catalogue import Catalogue, problems_of
from crawler_lifecycle.clusters.local.creation import new_spec
from crawler_lifecycle.clusters.local.processes import UID_VARIABLE
from crawler_lifecycle.clusters.local.records import Layout
from crawler_lifecycle.clusters.rules import ALLOWED_ANNOTATIONS, ALLOWED_LABELS, RESERVED_DOMAINS, refusal
from crawler_lifecycle.errors import NotReady
from crawler_lifecycle.model.deployment import Crawler, Resources
from crawler_lifecycle.model.pod_shape import MOST_ANNOTATION_BYTES, PodShape, Toleration
from tests.kit.clusters.pod_shapes import (
    GOOD_KEYS,
    GOOD_NAMES,
    GOOD_QUANTITIES,
    GOOD_TOLERATIONS,
    GOOD_VALUES,
    SHAPED,
    WRONG_KEYS,
    WRONG_NAMES,
    WRONG_QUANTITIES,
    WRONG_TOLERATIONS,
    WRONG_VALUES,
)
from tests.kit.clusters.schedulers import a_request

HEAD = '[crawlers.books]\nimage = "books:1"\n'
POD = HEAD + "[crawlers.books.pod]\n"
DOCS = Path(__file__).parents[3] / "docs" / "howto"
LONG = "x" * 64


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "catalogue.toml"


def entry(path: Path, text: str) -> Crawler:
    path.write_text(text)
    return Catalogue.load(path).entry("books")


# fields


def test_an_entry_says_how_its_pods_are_shaped(path: Path) -> None:
    shaped = entry(path, SHAPED)
    assert shaped.resources == Resources(cpu="1", memory="1Gi", ephemeral_storage="10Gi")
    assert shaped.pod == PodShape(
        labels={"example.com/team": "books", "app.kubernetes.io/part-of": "shop"},
        annotations={"example.com/owner": "ann@example.com", "kubernetes.io/egress-bandwidth": "10M"},
        node_selector={"example.com/pool": "crawls", "kubernetes.io/arch": "amd64"},
        tolerations=[
            Toleration(key="example.com/pool", value="crawls", effect="NoSchedule"),
            Toleration(key="example.com/spot", operator="Exists", effect="NoExecute", seconds=60),
        ],
        priority_class="crawls",
        queue="crawls",
    )


def test_an_entry_without_a_shape_has_an_empty_one(path: Path) -> None:
    assert entry(path, HEAD).pod == PodShape() == entry(path, POD).pod
    assert PodShape().model_dump(exclude_defaults=True) == {}


def test_a_later_version_may_add_fields() -> None:
    """Between processes an unknown field is ignored; in the file it is an error."""
    values = {"name": "books", "pod": {"affinity": {}, "tolerations": [{"key": "a", "later": 1}]}}
    assert Crawler.model_validate(values).pod == PodShape(tolerations=[Toleration(key="a")])


# values that are refused when the file is loaded


@pytest.mark.parametrize(
    ("text", "message"),
    [
        # nothing but the shape can be shaped
        ("service_account = 'admin'", "pod.service_account: is not a known field"),
        ("host_network = true", "pod.host_network: is not a known field"),
        ("hostNetwork = true", "pod.hostNetwork: is not a known field"),
        ("volumes = []", "pod.volumes: is not a known field"),
        ("security_context = { privileged = true }", "pod.security_context: is not a known field"),
        ("runtime_class = 'x'", "pod.runtime_class: is not a known field"),
        ("tolerations = [{ key = 'a', until = 3 }]", "pod.tolerations.0.until: is not a known field"),
        # types
        ("labels = ['a']", "pod.labels: "),
        ("labels = { 'example.com/a' = 1 }", "pod.labels.example.com/a: "),
        ("annotations = { 'example.com/a' = true }", "pod.annotations.example.com/a: "),
        ("tolerations = { key = 'a' }", "pod.tolerations: "),
        ("tolerations = ['a']", "pod.tolerations.0: "),
        ("priority_class = 3", "pod.priority_class: "),
        ("queue = ['a']", "pod.queue: "),
        # keys and values of labels
        ("labels = { 'Example.com/a' = 'b' }", "pod.labels.Example.com/a: expected a key"),
        ("labels = { '/a' = 'b' }", "pod.labels./a: expected a key"),
        ("labels = { 'a/b/c' = 'd' }", "pod.labels.a/b/c: expected a key"),
        ("labels = { 'example.com/' = 'b' }", "pod.labels.example.com/: expected a key"),
        ("labels = { 'example.com/-a' = 'b' }", "pod.labels.example.com/-a: expected a key"),
        (f"labels = {{ 'example.com/{LONG}' = 'b' }}", f"pod.labels.example.com/{LONG}: expected a key"),
        ("labels = { '' = 'b' }", "pod.labels.: expected a key"),
        ("labels = { 'example.com/a' = 'b c' }", "pod.labels.example.com/a: expected at most 63 letters"),
        ("labels = { 'example.com/a' = '-b' }", "pod.labels.example.com/a: expected at most 63 letters"),
        ('labels = { "example.com/a" = "b\\n" }', "pod.labels.example.com/a: expected at most 63 letters"),
        ("labels = { 'example.com/a' = 'é' }", "pod.labels.example.com/a: expected at most 63 letters"),
        (f"labels = {{ 'example.com/a' = '{LONG}' }}", "pod.labels.example.com/a: expected at most 63 letters"),
        ("annotations = { 'a b' = 'c' }", "pod.annotations.a b: expected a key"),
        ("node_selector = { 'a b' = 'c' }", "pod.node_selector.a b: expected a key"),
        ("node_selector = { a = 'b c' }", "pod.node_selector.a: expected at most 63 letters"),
        # tolerations
        ("tolerations = [{}]", "pod.tolerations.0.key: is missing"),
        ("tolerations = [{ operator = 'Exists' }]", "pod.tolerations.0.key: is missing"),
        ("tolerations = [{ key = '' }]", "pod.tolerations.0.key: expected a key"),
        ("tolerations = [{ key = 'a', operator = 'exists' }]", "pod.tolerations.0.operator: "),
        ("tolerations = [{ key = 'a', operator = 'In' }]", "pod.tolerations.0.operator: "),
        ("tolerations = [{ key = 'a', effect = 'NoRun' }]", "pod.tolerations.0.effect: "),
        ("tolerations = [{ key = 'a', value = 'b c' }]", "pod.tolerations.0.value: expected at most"),
        ("tolerations = [{ key = 'a', operator = 'Exists', value = 'b' }]", "pod.tolerations.0: value: not together"),
        ("tolerations = [{ key = 'a', seconds = 3 }]", "pod.tolerations.0: seconds: only together"),
        ("tolerations = [{ key = 'a', effect = 'NoSchedule', seconds = 3 }]", "pod.tolerations.0: seconds: only"),
        ("tolerations = [{ key = 'a', effect = 'NoExecute', seconds = -1 }]", "pod.tolerations.0.seconds: "),
        ("tolerations = [{ key = 'a', effect = 'NoExecute', seconds = '3' }]", "pod.tolerations.0.seconds: "),
        # names
        ("priority_class = ''", "pod.priority_class: expected an object's name"),
        ("priority_class = 'High'", "pod.priority_class: expected an object's name"),
        ("priority_class = 'high_one'", "pod.priority_class: expected an object's name"),
        ("priority_class = 'system-node-critical'", "pod.priority_class: names that begin with system-"),
        ("queue = 'crawls/first'", "pod.queue: expected a queue's name"),
        (f"queue = '{LONG}'", "pod.queue: expected a queue's name"),
    ],
)
def test_a_wrong_value_is_one_line_that_names_its_field(path: Path, text: str, message: str) -> None:
    with pytest.raises(NotReady) as caught:
        entry(path, POD + text)
    assert caught.value.message.startswith(f"{path}: crawlers.books: {message}")
    assert "\n" not in caught.value.message
    assert problems_of(path) == [caught.value.message]


@pytest.mark.parametrize("resource", ["cpu", "memory", "ephemeral_storage"])
def test_resources_are_quantities(path: Path, resource: str) -> None:
    for quantity in GOOD_QUANTITIES:
        read = entry(path, HEAD + f"resources = {{ {resource} = '{quantity}' }}").resources
        assert getattr(read, resource) == quantity
    for quantity in WRONG_QUANTITIES:
        with pytest.raises(NotReady, match=rf"crawlers.books: resources.{resource}: expected a quantity"):
            entry(path, HEAD + f"resources = {{ {resource} = '{quantity}' }}")


@pytest.mark.parametrize("text", [" 1", "1Gi ", "1Gi\n", "1e999", "e3", "Gi"])
def test_some_quantities_are_refused_that_the_api_server_would_take(text: str) -> None:
    """Blanks, which the API server cuts off, numbers beyond any machine, and none at all, which it takes for 0."""
    with pytest.raises(ValidationError):
        Resources(cpu=text)


@pytest.mark.parametrize(
    ("good", "wrong", "shape"),
    [
        (GOOD_KEYS, WRONG_KEYS, lambda key: PodShape(node_selector={key: ""})),
        (GOOD_KEYS, WRONG_KEYS, lambda key: PodShape(labels={key: ""})),
        (GOOD_KEYS, WRONG_KEYS, lambda key: PodShape(annotations={key: ""})),
        (GOOD_VALUES, WRONG_VALUES, lambda value: PodShape(node_selector={"a": value})),
        (GOOD_VALUES, WRONG_VALUES, lambda value: PodShape(labels={"a": value})),
        (GOOD_NAMES, WRONG_NAMES, lambda name: PodShape(priority_class=name)),
        (GOOD_NAMES, WRONG_NAMES, lambda name: PodShape(queue=name)),
        (GOOD_TOLERATIONS, WRONG_TOLERATIONS, lambda values: PodShape.model_validate({"tolerations": [values]})),
    ],
)
def test_values_have_the_syntax_of_kubernetes(
    good: Sequence[object], wrong: Sequence[object], shape: Callable[[Any], PodShape]
) -> None:
    """`tests/kubernetes/test_pod_shape.py` asks a real API server for the same samples."""
    for value in good:
        assert shape(value)
    for value in wrong:
        with pytest.raises(ValidationError):
            shape(value)


def test_annotations_are_long_but_not_too_long() -> None:
    key = "example.com/a"
    room = MOST_ANNOTATION_BYTES - len(key)
    assert PodShape(annotations={key: "x" * room}).annotations
    with pytest.raises(ValidationError, match="at most 65536"):
        PodShape(annotations={key: "é" * (room // 2 + 1)})
    with pytest.raises(ValidationError, match="at most 100"):
        PodShape(labels={f"example.com/{number}": "" for number in range(101)})


# keys that a catalogue may set


@pytest.mark.parametrize("field", ["labels", "annotations"])
@pytest.mark.parametrize(
    "key",
    [
        "crawler-lifecycle/run-uid",
        "crawler-lifecycle/installation",
        "crawler-lifecycle/not-after",
        "batch.kubernetes.io/controller-uid",
        "batch.kubernetes.io/job-name",
        "kubernetes.io/config.source",
        "app.kubernetes.io/instance",
        "app.kubernetes.io/managed-by",
        "pod-security.kubernetes.io/enforce",
        "container.apparmor.security.beta.kubernetes.io/crawl",
        "cluster-autoscaler.kubernetes.io/pod-scale-up-delay",
        "kueue.x-k8s.io/queue-name",
        "kueue.x-k8s.io/managed",
        "k8s.io/anything",
        "karpenter.sh/disruption-cost",
        "iam.amazonaws.com/role",
        "azure.workload.identity/use",
        "vault.hashicorp.com/agent-inject",
        "sidecar.istio.io/userVolume",
        "k8s.v1.cni.cncf.io/networks",
        "cni.projectcalico.org/ipAddrs",
    ],
)
def test_reserved_keys_are_refused(path: Path, field: str, key: str) -> None:
    with pytest.raises(NotReady, match=rf"crawlers.books: pod.{field}.{re.escape(key)}: keys of .* are reserved"):
        entry(path, POD + f"{field} = {{ '{key}' = 'true' }}")


@pytest.mark.parametrize("field", ["labels", "annotations"])
@pytest.mark.parametrize("key", ["job-name", "controller-uid", "aadpodidbinding", "app"])
def test_keys_without_a_prefix_are_refused(path: Path, field: str, key: str) -> None:
    with pytest.raises(NotReady, match=rf"crawlers.books: pod.{field}.{key}: expected a key with a prefix of yours"):
        entry(path, POD + f"{field} = {{ '{key}' = 'true' }}")


VALUES = {"egress-bandwidth": "10M", "ingress-bandwidth": "10M", "inject": "false"}


@pytest.mark.parametrize(
    ("field", "key"),
    [("labels", key) for key in ALLOWED_LABELS] + [("annotations", key) for key in ALLOWED_ANNOTATIONS],
)
def test_an_allow_list_names_the_reserved_keys_that_may_be_set(path: Path, field: str, key: str) -> None:
    value = VALUES.get(key.rpartition("/")[2], "true")
    assert getattr(entry(path, POD + f"{field} = {{ '{key}' = '{value}' }}").pod, field) == {key: value}
    assert any(f".{key}".partition("/")[0].endswith(f".{domain}") for domain in RESERVED_DOMAINS), "allowed in any case"


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("cluster-autoscaler.kubernetes.io/safe-to-evict", "no"),
        ("cluster-autoscaler.kubernetes.io/safe-to-evict", "True"),
        ("karpenter.sh/do-not-disrupt", "never"),
        ("kubernetes.io/egress-bandwidth", "fast"),
        ("sidecar.istio.io/inject", "true"),
    ],
)
def test_an_allowed_annotation_has_a_value_that_its_controller_reads(path: Path, key: str, value: str) -> None:
    with pytest.raises(NotReady, match=rf"crawlers.books: pod.annotations.{key}: expected .* not '{value}'"):
        entry(path, POD + f"annotations = {{ '{key}' = '{value}' }}")


@given(
    st.sampled_from(RESERVED_DOMAINS),
    st.from_regex(r"([a-z0-9]{1,5}\.){0,3}", fullmatch=True),
    st.from_regex(r"[A-Za-z0-9][A-Za-z0-9-]{0,20}[A-Za-z0-9]", fullmatch=True),
)
@pytest.mark.long
def test_no_key_below_a_reserved_domain_passes_by_another_spelling(domain: str, below: str, name: str) -> None:
    key = f"{below}{domain}/{name}"
    for shape in (PodShape(labels={key: ""}), PodShape(annotations={key: ""})):
        assert refusal(shape) or key in ALLOWED_LABELS
    for spelled in (key.upper(), f" {key}", f"{key}\n", f"{below}{domain}./{name}"):
        with pytest.raises(ValidationError):
            PodShape(labels={spelled: ""})


# a shape on its way


KEYS = st.from_regex(r"example\.com/[a-z]{1,5}", fullmatch=True)
WORDS = st.from_regex(r"([A-Za-z0-9]([A-Za-z0-9._-]{0,8}[A-Za-z0-9])?)?", fullmatch=True)
TOLERATIONS: st.SearchStrategy[dict[str, Any]] = st.one_of(
    st.builds(dict, key=KEYS, value=WORDS, effect=st.sampled_from(["NoSchedule", "PreferNoSchedule", None])),
    st.builds(dict, key=KEYS, operator=st.just("Exists")),
    st.builds(dict, key=KEYS, effect=st.just("NoExecute"), seconds=st.integers(0, 10**6) | st.none()),
)
SHAPES: st.SearchStrategy[dict[str, Any]] = st.builds(
    dict,
    labels=st.dictionaries(KEYS, WORDS, max_size=5),
    annotations=st.dictionaries(KEYS, st.text(max_size=20), max_size=5),
    node_selector=st.dictionaries(KEYS, WORDS, max_size=5),
    tolerations=st.lists(TOLERATIONS, max_size=3),
)


@given(SHAPES)
@pytest.mark.long
def test_a_shape_is_the_same_after_its_way_as_json(values: dict[str, Any]) -> None:
    crawler = Crawler.model_validate({"name": "books", "pod": values})
    assert Crawler.model_validate_json(crawler.model_dump_json()) == crawler
    assert refusal(crawler.pod) is None


def test_the_local_cluster_records_the_shape_and_does_nothing_about_it(tmp_path: Path) -> None:
    plain = a_request(crawler=Crawler(name="books", command=["crawl"]))
    shape = PodShape(queue="crawls", tolerations=[Toleration(key="a")])
    crawler = plain.crawler.model_copy(update={"pod": shape, "resources": Resources(ephemeral_storage="1Gi")})
    specs = [
        new_spec(request, tmp_path, Layout(tmp_path))
        for request in (plain, plain.model_copy(update={"crawler": crawler}))
    ]
    first, second = (asdict(spec) for spec in specs)
    differ = {name for name in first if first[name] != second[name]}
    assert differ <= {"request_hash", "uid", "claimed_at", "place", "environment"}
    assert first["request_hash"] != second["request_hash"]
    changed = {name for name in first["environment"] if first["environment"][name] != second["environment"][name]}
    assert changed == {UID_VARIABLE}


# documents


def test_the_example_of_the_howto_is_a_good_catalogue(path: Path) -> None:
    blocks = re.findall(r"^```toml\n(.*?)^```$", (DOCS / "own-crawler.md").read_text(), re.MULTILINE | re.DOTALL)
    (example,) = (block for block in blocks if ".pod]" in block)
    assert entry(path, example).pod.model_fields_set == PodShape.model_fields.keys(), "a full example"
    assert set(tomllib.loads(example)["crawlers"]["books"]["resources"]) == Resources.model_fields.keys()


def test_the_howto_names_every_field_and_every_allowed_key() -> None:
    text = (DOCS / "own-crawler.md").read_text()
    fields = [*PodShape.model_fields, *Toleration.model_fields, *Resources.model_fields]
    for name in (*fields, *ALLOWED_LABELS, *ALLOWED_ANNOTATIONS, *RESERVED_DOMAINS):
        assert f"`{name}`" in text, name
