import string

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from crawler_lifecycle.clusters.local.placing import passed_on
from crawler_lifecycle.model.deployment import Crawler
from tests.kit.clusters.clusters import LocalBench

pytestmark = pytest.mark.regression(
    "Jobs were given the whole environment of the service that started them, with the secrets of others in it"
)

SECRETS = ("AWS_SECRET_ACCESS_KEY", "GH_TOKEN", "CLIENT_SECRET", "DB_PASSWORD", "API_KEY", "OF_SOMEBODY_ELSE")
NEEDED = {"PATH": "/bin", "HOME": "/home/crawler", "LC_ALL": "C.UTF-8", "TZ": "UTC", "SSL_CERT_FILE": "/ca.pem"}
WORDS = st.text(string.ascii_uppercase, max_size=8)


def test_a_job_gets_what_its_entry_says_and_nothing_of_others(
    local: LocalBench, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in SECRETS:
        monkeypatch.setenv(name, "confidential")
    crawler = Crawler(name="env", command=["/usr/bin/env"], environment={"API_KEY": "of the entry"})
    request = local.request("", crawler=crawler)
    local.cluster.deploy(request)
    assert local.until_ended(request).exit_code == 0
    told = dict(line.split("=", 1) for line in local.cluster.log(request.run_uid, 0, 1, 0).text.splitlines())
    assert {name: told[name] for name in SECRETS if name in told} == {"API_KEY": "of the entry"}
    assert "PATH" in told


@settings(deadline=None)
@given(st.builds("{}_{}".format, WORDS, st.sampled_from(["TOKEN", "SECRET", "PASSWORD", "KEY", "CREDENTIALS"])))
def test_only_what_is_listed_is_passed_on(secret: str) -> None:
    assert passed_on({**NEEDED, secret: "confidential"} | {"CRAWLER_STATE": "x", "TEMPORAL_ADDRESS": "x"}) == NEEDED
