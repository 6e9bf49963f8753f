"""What may the project's two service accounts do? The table "Least privilege", as objects of a namespace of crawls."""

from typing import Any

from tests.kubernetes.client import Client

HOME = "crawler-lifecycle"  # where the accounts live; crawls have namespaces of their own
ACCOUNTS = ("observer", "actor")
RBAC = "rbac.authorization.k8s.io"


def install(admin: Client) -> None:
    """The accounts, which have no right anywhere yet."""
    admin.post("/api/v1/namespaces", {"metadata": {"name": HOME}})
    for account in ACCOUNTS:
        admin.post(f"/api/v1/namespaces/{HOME}/serviceaccounts", {"metadata": {"name": account}})


def grant(admin: Client, namespace: str) -> None:
    """The rights of both accounts in this namespace, unless they are there."""
    base = f"/apis/{RBAC}/v1/namespaces/{namespace}"
    for account, rules in (("observer", _observer(namespace)), ("actor", [*_observer(namespace), *_actor()])):
        if not admin.exists(f"{base}/roles/{account}"):
            admin.post(f"{base}/roles", {"metadata": {"name": account}, "rules": rules})
        if not admin.exists(f"{base}/rolebindings/{account}"):
            admin.post(f"{base}/rolebindings", _binding(account))


def _observer(namespace: str) -> list[dict[str, Any]]:
    return [
        _rule("batch", "jobs", "get", "list", "watch"),
        _rule("", "pods", "get", "list", "watch"),
        _rule("", "pods/log", "get"),
        _rule("", "events", "list"),
        _rule("", "resourcequotas", "list"),
        _rule("", "namespaces", "get") | {"resourceNames": [namespace]},
    ]


def _actor() -> list[dict[str, Any]]:
    return [_rule("batch", "jobs", "create", "delete"), _rule("", "pods", "delete")]


def _rule(group: str, resource: str, *verbs: str) -> dict[str, Any]:
    return {"apiGroups": [group], "resources": [resource], "verbs": list(verbs)}


def _binding(account: str) -> dict[str, Any]:
    return {
        "metadata": {"name": account},
        "roleRef": {"apiGroup": RBAC, "kind": "Role", "name": account},
        "subjects": [{"kind": "ServiceAccount", "name": account, "namespace": HOME}],
    }
