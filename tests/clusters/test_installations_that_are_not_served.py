"""Doctor said that all was well, and the scheduler service refused every job of the installation. (D7)"""

from collections.abc import Callable
from pathlib import Path
from uuid import uuid4

import pytest

from crawler_lifecycle.assembly.control import Control
from crawler_lifecycle.database import migrate
from crawler_lifecycle.model.answers import Check
from crawler_lifecycle.settings.installation import Installation
from tests.kit.clusters.schedulers import TOKEN, SmallCluster, a_catalogue, served

pytestmark = pytest.mark.regression(
    "Doctor said that all was well, and the scheduler service refused every job of the installation"
)

OTHER = "4eac0000-3c55-4d8e-8a6f-1f0b4f6b7c10"


@pytest.mark.parametrize(
    ("installation_of", "is_served", "words"),
    [
        (lambda own: OTHER, False, f"deploys for installation {OTHER} only, and this one is {{}}"),
        (lambda own: own, True, "{}, the only one that the scheduler service serves"),
        (lambda own: None, True, "{}, served like any other"),
    ],
    ids=["another", "this", "any"],
)
async def test_doctor_tells_whom_the_service_serves(
    tmp_path: Path, installation_of: Callable[[str], str | None], is_served: bool, words: str
) -> None:
    own = migrate.upgrade(f"sqlite:///{tmp_path / 'crawler.db'}")
    with served(SmallCluster(), a_catalogue(tmp_path), installation=installation_of(own)) as url:
        checks = await doctor(tmp_path, url)
    assert checks["scheduler service"].ok
    assert checks["installation"].ok is is_served
    assert words.format(own) in checks["installation"].line


async def doctor(state: Path, url: str) -> dict[str, Check]:
    variables = {
        "TEMPORAL_ADDRESS": "127.0.0.1:1",
        "CRAWLER_SCHEDULER__URL": url,
        "CRAWLER_SCHEDULER__TOKEN": TOKEN,
        "CRAWLER_WORKER__TASK_QUEUE": f"queue-{uuid4()}",
    }
    return {check.part: check for check in await Control(Installation.with_variables(state, variables)).doctor()}
