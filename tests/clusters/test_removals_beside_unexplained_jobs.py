from pathlib import Path

import pytest

from tests.clusters.acting import Acting
from tests.kit.clusters.api_servers import an_api_server

pytestmark = pytest.mark.regression(
    "A removal named only the explained jobs of a page, and the uids of all: the others ended it with a KeyError"
)


def test_a_job_that_is_not_named_is_left_alone(tmp_path: Path) -> None:
    with an_api_server() as server:
        acting = Acting(server, tmp_path)
        uids = {(task, 1): acting.deploy(task)["metadata"]["uid"] for task in range(2)}
        for task in range(2):
            server.end(acting.name(task))
        acting.removing.remove(acting.run_uid, [(0, 1)], uids)
        assert list(server.objects["jobs"]) == [acting.name(1)]
