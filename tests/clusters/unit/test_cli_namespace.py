"""`crawlctl accept-namespace` records the namespace, and says which it was before."""

import json
from pathlib import Path

import pytest

from tests.kit.clusters.api_servers import an_access, an_api_server
from tests.kit.service.commands import Crawlctl


def test_a_namespace_is_accepted(crawlctl: Crawlctl, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    crawlctl("db", "upgrade")
    with an_api_server() as server:
        kubeconfig = an_access(server, tmp_path).kubeconfig
        monkeypatch.setenv("CRAWLER_CLUSTER__KIND", "kubernetes")
        monkeypatch.setenv("CRAWLER_KUBERNETES__NAMESPACE", "crawls")
        monkeypatch.setenv("CRAWLER_KUBERNETES__KUBECONFIG", str(kubeconfig))
        first = json.loads(crawlctl("accept-namespace", "--json").output)
        server.namespace_uid = "another"
        second = crawlctl("accept-namespace").output
        again = crawlctl("accept-namespace").output

    assert first == {"before": None, "now": "of the namespace", "namespace": "crawls"}
    assert second == "namespace crawls (another) is now the installation's, before it was crawls (of the namespace)\n"
    assert "is the installation's already" in again


def test_there_is_none_on_this_machine(crawlctl: Crawlctl) -> None:
    crawlctl("db", "upgrade")

    result = crawlctl("accept-namespace")

    assert result.exit_code == 2
    assert "no namespace to accept" in result.stderr
