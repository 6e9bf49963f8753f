"""Does the scheduler service speak HTTP as its OpenAPI document says, also to those who make mistakes?"""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from crawler_lifecycle.clusters import processes
from crawler_lifecycle.clusters.processes import LARGEST_BODY, ServiceTokens, make_app, openapi_document
from crawler_lifecycle.errors import NotReady, TemporaryError
from crawler_lifecycle.model.deployment import DeploymentRequest, Problem
from crawler_lifecycle.settings.configuration import load
from tests.kit.clusters.schedulers import METRICS_TOKEN, READ_TOKEN, TOKEN, SmallCluster, a_catalogue, a_request, served

DOCUMENT = Path(__file__).parents[3] / "docs" / "scheduler-openapi.json"


@pytest.fixture
def cluster() -> SmallCluster:
    return SmallCluster()


@pytest.fixture
def http(cluster: SmallCluster, tmp_path: Path) -> Iterator[httpx.Client]:
    with (
        served(cluster, a_catalogue(tmp_path)) as url,
        httpx.Client(base_url=url, headers={"Authorization": f"Bearer {TOKEN}"}, timeout=10, trust_env=False) as client,
    ):
        yield client


def post(http: httpx.Client, body: DeploymentRequest | dict[str, Any], key: str | None = None) -> httpx.Response:
    sent = body if isinstance(body, dict) else body.model_dump(mode="json")
    given = key if key is not None else f"{sent.get('run_uid')}:{sent.get('task')}:{sent.get('attempt')}"
    return http.post("/v1/deployments", json=sent, headers={"Idempotency-Key": given})


def problem(response: httpx.Response, status: int) -> Problem:
    assert response.status_code == status, response.text
    assert response.headers["content-type"] == "application/problem+json"
    told = Problem.model_validate(response.json())
    assert told.status == status
    return told


def test_made_is_201_and_there_already_is_200(http: httpx.Client) -> None:
    request = a_request()
    first, second = post(http, request), post(http, request)
    assert (first.status_code, second.status_code) == (201, 200)
    assert first.json() | {"created": False} == second.json()


def test_managers_are_named_and_described(http: httpx.Client) -> None:
    assert http.get("/v1/crawlers").json()["managers"] == ["shops"]
    entry = http.get("/v1/manager", params={"name": "shops"}).json()
    assert entry == {"name": "shops", "class": "m:Shops", "arguments": ["--own", "3"], "queue": "default"}
    assert problem(http.get("/v1/manager", params={"name": "absent"}), 404).field == "name"


def test_the_copy_in_the_request_is_deployed(http: httpx.Client, cluster: SmallCluster) -> None:
    post(http, a_request())
    ((deployed, _),) = cluster.jobs.values()
    assert deployed.crawler.command == ["echo", "as it was when the run began"]


@pytest.mark.parametrize("key", ["", "another", "%s:0:2"])
def test_another_key_than_the_body_s_is_not_acceptable(http: httpx.Client, cluster: SmallCluster, key: str) -> None:
    request = a_request()
    told = problem(post(http, request, key.replace("%s", request.run_uid)), 422)
    assert told.field == "Idempotency-Key"
    assert not cluster.jobs


def test_the_document_names_another_key_with_its_status(http: httpx.Client) -> None:
    """The document named the key with 400, which a service for the same callers would then have answered."""
    status = post(http, a_request(), "another").status_code
    document: Any = openapi_document()
    answers = document["paths"]["/v1/deployments"]["post"]["responses"]
    naming = [code for code, answer in answers.items() if "Idempotency-Key" in answer["description"]]
    assert naming == [str(status)]


def test_no_key_is_not_acceptable(http: httpx.Client) -> None:
    told = problem(http.post("/v1/deployments", json=a_request().model_dump(mode="json")), 422)
    assert told.field == "Idempotency-Key"


@pytest.mark.parametrize(
    ("changes", "field"),
    [
        ({"task": -1}, "task"),
        ({"tasks": "many"}, "tasks"),
        ({"attempt": None}, "attempt"),
        ({"run_uid": "short"}, "run_uid"),
        ({"crawler": {"name": ""}}, "crawler.name"),
        ({"crawler": "bookshop"}, "crawler"),
        ({"crawler": {"name": "a", "resources": {"memory": "much"}}}, "crawler.resources.memory"),
        ({"crawler": {"name": "a", "pod": {"queue": "A"}}}, "crawler.pod.queue"),
        ({"crawler": {"name": "a", "pod": {"labels": {"a b": "c"}}}}, "crawler.pod.labels.a b"),
        (
            {"crawler": {"name": "a", "pod": {"tolerations": [{"key": "a", "effect": "No"}]}}},
            "crawler.pod.tolerations.0.effect",
        ),
        ({"arguments": {"depth": 3}}, "arguments.depth"),
        ({"deadline_seconds": 0}, "deadline_seconds"),
        ({"cluster": "No Such"}, "cluster"),
    ],
)
def test_a_field_that_is_wrong_is_named(
    http: httpx.Client, cluster: SmallCluster, changes: dict[str, Any], field: str
) -> None:
    told = problem(post(http, a_request().model_dump(mode="json") | changes), 422)
    assert told.field == field
    assert told.detail
    assert not cluster.jobs


@pytest.mark.parametrize("body", [b"", b"{", b"[]", b"\xff\xfe", b"null", b'{"run_id": 1}', b"[" * 100_000])
def test_a_body_that_is_no_request_is_told(http: httpx.Client, body: bytes) -> None:
    headers = {"Idempotency-Key": "x", "Content-Type": "application/json"}
    response = http.post("/v1/deployments", content=body, headers=headers)
    problem(response, response.status_code)
    assert response.status_code in (400, 422)


def test_an_unknown_crawler_is_named(http: httpx.Client, cluster: SmallCluster) -> None:
    told = problem(post(http, a_request(crawler={"name": "gone"})), 422)
    assert told.field == "crawler"
    assert "'gone'" in told.detail
    assert not cluster.jobs


def test_a_crawler_that_was_taken_out_is_refused_only_where_its_job_is_known_not_to_be_there(
    http: httpx.Client, cluster: SmallCluster, tmp_path: Path
) -> None:
    """While the cluster was away the answer was 422, which ends the run, although its job had been made."""
    request = a_request()
    post(http, request)
    a_catalogue(tmp_path, "[crawlers.another]\ncommand = ['true']")
    cluster.trouble = TemporaryError("no cluster today")
    assert problem(post(http, request), 503).detail == "no cluster today"
    cluster.trouble = None
    assert post(http, request).status_code == 200
    assert problem(post(http, a_request()), 422).field == "crawler"


def test_a_conflict_is_409(http: httpx.Client) -> None:
    request = a_request()
    post(http, request)
    problem(post(http, request.model_copy(update={"tasks": 5})), 409)


def test_trouble_of_the_cluster_is_503_with_retry_after(http: httpx.Client, cluster: SmallCluster) -> None:
    cluster.trouble = TemporaryError("the disk is full")
    response = post(http, a_request())
    assert problem(response, 503).detail == "the disk is full"
    assert int(response.headers["retry-after"]) > 0


def test_a_bug_is_500_and_tells_no_secrets(http: httpx.Client, cluster: SmallCluster) -> None:
    cluster.trouble = RuntimeError("a secret")
    assert "secret" not in problem(post(http, a_request()), 500).detail


@pytest.mark.parametrize("authorization", [None, "", "Bearer", "Bearer wrong", f"Basic {TOKEN}", TOKEN, "Bearer \xfc"])
def test_nothing_without_the_token(http: httpx.Client, authorization: str | None) -> None:
    headers = {} if authorization is None else {b"Authorization": authorization.encode("latin-1")}
    with httpx.Client(base_url=http.base_url, trust_env=False) as stranger:
        for path in ("/v1/crawlers", "/v1/crawler", "/metrics", "/openapi.json", "/nowhere", "//healthz", "/healthz/"):
            response = stranger.get(path, headers=headers)
            problem(response, 401)
            assert response.headers["www-authenticate"] == "Bearer"
        problem(stranger.post("/v1/deployments", content=b"not even JSON", headers=headers), 401)


def test_the_scheme_of_the_token_may_be_written_small(http: httpx.Client) -> None:
    assert http.get("/v1/crawlers", headers={"Authorization": f"bearer {TOKEN}"}).status_code == 200


@pytest.mark.parametrize("token", ["", "two words", "tøken", "line\n"])
def test_the_service_does_not_start_without_a_token(tmp_path: Path, token: str) -> None:
    with pytest.raises(NotReady, match="CRAWLER_SCHEDULER__TOKEN"):
        make_app(SmallCluster(), a_catalogue(tmp_path), ServiceTokens(token))


def test_a_large_body_is_413_announced_or_not(http: httpx.Client, cluster: SmallCluster) -> None:
    body = b" " * (LARGEST_BODY + 1)
    headers = {"Idempotency-Key": "x", "Content-Type": "application/json"}
    problem(http.post("/v1/deployments", content=body, headers=headers), 413)
    problem(http.post("/v1/deployments", content=iter([body]), headers=headers), 413)


@pytest.mark.parametrize(("method", "path", "status"), [("GET", "/nowhere", 404), ("DELETE", "/v1/crawlers", 405)])
def test_what_is_not_there_is_a_problem_too(http: httpx.Client, method: str, path: str, status: int) -> None:
    problem(http.request(method, path), status)


def test_the_catalogue_can_be_read(http: httpx.Client, tmp_path: Path) -> None:
    assert "bookshop" in http.get("/v1/crawlers").json()["crawlers"]
    assert http.get("/v1/crawler", params={"name": "bookshop"}).json()["processes"] == 4
    assert problem(http.get("/v1/crawler", params={"name": "gone"}), 404).field == "name"
    (tmp_path / "catalogue.toml").write_text("broken")
    names = http.get("/v1/crawlers").json()
    assert "bookshop" in names["crawlers"]
    assert "catalogue.toml" in names["problem"]


def test_health_and_readiness_need_no_token(http: httpx.Client, cluster: SmallCluster) -> None:
    with httpx.Client(base_url=http.base_url, trust_env=False) as stranger:
        assert stranger.get("/healthz").status_code == 200
        assert stranger.get("/readyz").json() == {"status": "ready"}
        cluster.trouble = TemporaryError("https://10.0.0.1 says 403", cause="cluster_forbids")
        assert problem(stranger.get("/readyz"), 503).detail == "cluster: cluster_forbids"
        wrong = {"Authorization": "Bearer wrong"}
        assert problem(stranger.get("/readyz", headers=wrong), 503).detail == "cluster: cluster_forbids"
        assert stranger.get("/healthz").status_code == 200


def test_the_holder_of_a_token_reads_what_is_wrong(http: httpx.Client, cluster: SmallCluster) -> None:
    """`crawlctl doctor` shows it."""
    assert http.get("/readyz").json() == {"status": "a small cluster"}
    cluster.trouble = TemporaryError("https://10.0.0.1 says 403")
    assert problem(http.get("/readyz"), 503).detail == "https://10.0.0.1 says 403"


@pytest.mark.parametrize(("token", "permitted"), [(READ_TOKEN, "read"), (METRICS_TOKEN, "metrics"), (TOKEN, "deploy")])
def test_a_token_permits_no_more_than_it_is_for(
    http: httpx.Client, cluster: SmallCluster, token: str, permitted: str
) -> None:
    """The API and Prometheus had the token with which any command runs under the account of the crawls."""
    headers = {"Authorization": f"Bearer {token}"}
    request = a_request(crawler={"name": "bookshop", "command": ["cat", "/state/api-tokens.json"]})
    answers = {
        "deploy": http.post("/v1/deployments", json=request.model_dump(mode="json"), headers=headers | _key(request)),
        "read": http.get("/v1/crawlers", headers=headers),
        "metrics": http.get("/metrics", headers=headers),
    }
    refused = {name for name, answer in answers.items() if answer.status_code == 403}
    assert refused == (set() if permitted == "deploy" else set(answers) - {permitted})
    assert bool(cluster.jobs) == (permitted == "deploy")
    for name in refused:
        assert problem(answers[name], 403).detail == f"this token does not permit: {name}"
    entries = [http.get(f"/v1/{kind}", params={"name": "x"}, headers=headers) for kind in ("crawler", "manager")]
    assert {answer.status_code for answer in entries} == ({403} if permitted == "metrics" else {404})


def _key(request: DeploymentRequest) -> dict[str, str]:
    return {"Idempotency-Key": request.key}


def test_an_empty_file_for_a_limited_token_is_no_token(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The manifests mount the keys of both limited tokens, although an installation may have no Prometheus."""
    for name, text in {"TOKEN": TOKEN, "READ_TOKEN": "", "METRICS_TOKEN": ""}.items():
        (tmp_path / name).write_text(text)
        monkeypatch.setenv(f"CRAWLER_SCHEDULER__{name}_FILE", str(tmp_path / name))
    assert list(ServiceTokens.from_settings(load().scheduler).permissions()) == [TOKEN]


@pytest.mark.parametrize("tokens", [ServiceTokens("a", "a"), ServiceTokens("a", "b", "b"), ServiceTokens("a", "b c")])
def test_tokens_that_permit_two_things_are_refused(tmp_path: Path, tokens: ServiceTokens) -> None:
    with pytest.raises(NotReady, match=r"CRAWLER_SCHEDULER__(READ|METRICS)_TOKEN: expected"):
        make_app(SmallCluster(), a_catalogue(tmp_path), tokens)


def test_waiting_jobs_are_placed_again_and_again(http: httpx.Client, cluster: SmallCluster) -> None:
    for _ in range(2):
        assert cluster.placed.wait(20)
        cluster.placed.clear()


@pytest.mark.parametrize("trouble", [TemporaryError("a full disk"), OSError("a full disk"), RuntimeError("a bug")])
def test_placing_that_fails_makes_the_service_not_ready(
    cluster: SmallCluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, trouble: Exception
) -> None:
    monkeypatch.setattr(processes, "INTERVAL_SECONDS", 0.01)
    cluster.placing_trouble = trouble
    with served(cluster, a_catalogue(tmp_path)) as url, httpx.Client(base_url=url, trust_env=False) as http:
        assert cluster.placed.wait(20)
        for _ in range(1000):
            response = http.get("/readyz")
            if response.status_code == 503:
                break
        assert problem(response, 503).detail
        assert http.get("/healthz").status_code == 200
        cluster.placing_trouble = None
        if not isinstance(trouble, RuntimeError):
            assert any(http.get("/readyz").status_code == 200 for _ in range(1000))


def test_deployments_are_counted_by_outcome(http: httpx.Client, cluster: SmallCluster) -> None:
    request = a_request()
    post(http, request)
    post(http, request)
    post(http, request.model_copy(update={"tasks": 5}))
    post(http, a_request(crawler={"name": "gone"}))
    cluster.trouble = TemporaryError("the disk is full")
    post(http, a_request())
    text = http.get("/metrics").text
    for outcome in ("created", "existing", "conflict", "refused", "unavailable"):
        assert f'scheduler_deployments_total{{outcome="{outcome}"}} 1.0' in text
    assert "scheduler_deployment_seconds_count 5.0" in text


def test_the_document_in_docs_is_the_one_of_the_code() -> None:
    assert json.loads(DOCUMENT.read_text()) == openapi_document(), (
        "run `python -m workers.scheduler --openapi > docs/scheduler-openapi.json`"
    )


def test_the_document_tells_of_token_key_and_problems() -> None:
    document: Any = openapi_document()
    deploy = document["paths"]["/v1/deployments"]["post"]
    assert deploy["security"] == [{"HTTPBearer": []}]
    assert document["components"]["securitySchemes"]["HTTPBearer"]["scheme"] == "bearer"
    assert [parameter["name"] for parameter in deploy["parameters"]] == ["Idempotency-Key"]
    for path, operations in document["paths"].items():
        for operation in operations.values():
            for status, response in operation["responses"].items():
                if int(status) >= 400:
                    assert list(response["content"]) == ["application/problem+json"], (path, status)
                    assert response["content"]["application/problem+json"]["schema"]["$ref"].endswith("/Problem")
