"""Are the project's users held to their rights?"""

from collections.abc import Iterator

import pytest

from tests.kubernetes import fates, rights
from tests.kubernetes.bed import Bed
from tests.kubernetes.client import Answer, Client, until
from tests.kubernetes.jobs import job


@pytest.fixture
def observer(bed: Bed) -> Iterator[Client]:
    client = bed.client("observer")
    yield client
    client.close()


@pytest.fixture
def actor(bed: Bed) -> Iterator[Client]:
    client = bed.client("actor")
    yield client
    client.close()


def refused(answer: pytest.ExceptionInfo[Answer]) -> bool:
    return answer.value.status == 403 and "cannot" in answer.value.text


def test_the_actor_makes_and_deletes_jobs(actor: Client, namespace: str) -> None:
    jobs = f"/apis/batch/v1/namespaces/{namespace}/jobs"
    actor.post(jobs, job("one", fates.RUNS))
    assert actor.get(f"{jobs}/one")["metadata"]["name"] == "one"
    actor.delete(f"{jobs}/one", {"propagationPolicy": "Background"})


def test_the_observer_only_looks(observer: Client, namespace: str) -> None:
    jobs = f"/apis/batch/v1/namespaces/{namespace}/jobs"
    assert observer.items(jobs) == []
    assert observer.items(f"/api/v1/namespaces/{namespace}/events") == []
    assert observer.get(f"/api/v1/namespaces/{namespace}")["metadata"]["name"] == namespace
    with pytest.raises(Answer) as answer:
        observer.post(jobs, job("one", fates.RUNS))
    assert refused(answer)
    with pytest.raises(Answer) as answer:
        observer.delete(f"{jobs}/one")
    assert refused(answer)


@pytest.mark.parametrize("path", ["secrets", "configmaps", "serviceaccounts", "persistentvolumeclaims"])
def test_nobody_reads_what_is_not_theirs(actor: Client, observer: Client, namespace: str, path: str) -> None:
    for client in (actor, observer):
        with pytest.raises(Answer) as answer:
            client.get(f"/api/v1/namespaces/{namespace}/{path}")
        assert refused(answer)


def test_other_namespaces_are_closed(actor: Client, observer: Client, namespace: str) -> None:
    for client in (actor, observer):
        for path in ("/apis/batch/v1/namespaces/default/jobs", "/api/v1/namespaces/default", "/api/v1/namespaces"):
            with pytest.raises(Answer) as answer:
                client.get(path)
            assert refused(answer)


def test_rights_can_be_withdrawn_and_given_again(bed: Bed, actor: Client, namespace: str) -> None:
    def status() -> int:
        try:
            actor.get(f"/apis/batch/v1/namespaces/{namespace}/jobs")
        except Answer as answer:
            return answer.status
        return 200

    assert status() == 200
    bed.withdraw("actor", namespace)
    until(lambda: status() == 403, "the right to be gone")
    rights.grant(bed.admin, namespace)
    until(lambda: status() == 200, "the right to be back")


def test_a_pod_that_wants_privileges_is_not_made(bed: Bed, actor: Client, namespace: str) -> None:
    actor.post(f"/apis/batch/v1/namespaces/{namespace}/jobs", job("one", fates.RUNS, hostNetwork=True))

    def refusal() -> str | None:
        events = bed.admin.items(f"/api/v1/namespaces/{namespace}/events")
        messages = [event["message"] for event in events if event["reason"] == "FailedCreate"]
        return messages[0] if messages else None

    assert "violates PodSecurity" in until(refusal, "the refusal to be told")
    assert bed.admin.items(f"/api/v1/namespaces/{namespace}/pods") == []
