"""What may the project's two service accounts do? What our manifests say, in every namespace of a test."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import yaml

from tests.kubernetes.client import Client

BASE = Path(__file__).parents[2] / "deploy" / "kubernetes" / "base"
HOME = "crawler-lifecycle"  # where the accounts live; crawls have namespaces of their own
ACCOUNTS = f"/api/v1/namespaces/{HOME}"
RBAC = "/apis/rbac.authorization.k8s.io/v1"
PATHS = {"Role": "roles", "RoleBinding": "rolebindings"}


def install(admin: Client) -> None:
    """The accounts, which have no right anywhere yet."""
    admin.post("/api/v1/namespaces", {"metadata": {"name": HOME}})
    for account in _documents("home/accounts.yaml"):
        admin.post(f"{ACCOUNTS}/serviceaccounts", account)


def grant(admin: Client, namespace: str) -> None:
    """The rights of both accounts in this namespace, unless they are there."""
    for document in (*_documents("crawls/rights.yaml"), *_documents("crawls/bindings.yaml")):
        path = f"{RBAC}/namespaces/{namespace}/{PATHS[document['kind']]}"
        if not admin.exists(f"{path}/{document['metadata']['name']}"):
            admin.post(path, _moved(document, namespace))


def withdraw(admin: Client, account: str, namespace: str) -> None:
    admin.delete(f"{RBAC}/namespaces/{namespace}/rolebindings/{account}")


def set_rules(admin: Client, account: str, namespace: str, *, without: str = "") -> None:
    """As our manifests say, or without those about one resource."""
    (role,) = (
        each
        for each in _documents("crawls/rights.yaml")
        if (each["kind"], each["metadata"]["name"]) == ("Role", account)
    )
    rules = [rule for rule in _moved(role, namespace)["rules"] if without not in rule["resources"]]
    admin.merge(f"{RBAC}/namespaces/{namespace}/roles/{account}", {"rules": rules})


def _documents(name: str) -> Iterator[dict[str, Any]]:
    yield from yaml.safe_load_all((BASE / name).read_text())


def _moved(document: dict[str, Any], namespace: str) -> dict[str, Any]:
    """To this namespace; the one right to see a namespace is for this one as well."""
    before = document["metadata"]["namespace"]
    rules = [
        rule | {"resourceNames": [namespace]} if rule.get("resourceNames") == [before] else rule
        for rule in document.get("rules", ())
    ]
    metadata = document["metadata"] | {"namespace": namespace}
    return document | {"metadata": metadata} | ({"rules": rules} if rules else {})
