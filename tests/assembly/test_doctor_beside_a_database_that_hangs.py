"""Doctor's checks waited for the threads of the database: while the database hung, no check of another part was made.

The check of the installation asked the scheduler service in such a thread. (L7)"""

import asyncio
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from crawler_lifecycle.assembly.control import Control
from crawler_lifecycle.errors import TemporaryError
from crawler_lifecycle.settings.installation import Installation
from tests.kit.clusters.schedulers import TOKEN, SmallCluster, a_catalogue, served
from tests.kit.waiting import until

pytestmark = pytest.mark.regression(
    "While the database hung, doctor checked no other part: all checks waited for the threads of the database"
)

MORE_THAN_THERE_ARE_THREADS = 40


@pytest.fixture
def control(tmp_path: Path) -> Iterator[Control]:
    with served(SmallCluster(), a_catalogue(tmp_path)) as url:
        variables = {
            "CRAWLER_SCHEDULER__URL": url,
            "CRAWLER_SCHEDULER__TOKEN": TOKEN,
            "TEMPORAL_ADDRESS": "127.0.0.1:1",
        }
        yield Control(Installation.with_variables(tmp_path, variables))


async def test_checks_of_other_parts_need_no_thread_of_the_database(
    control: Control, monkeypatch: pytest.MonkeyPatch
) -> None:
    answers, made = threading.Event(), set[str]()

    def check_room(_: object) -> str:
        made.add("disk")
        return "room enough"

    def only_installation() -> str | None:
        made.add(threading.current_thread().name.rpartition("_")[0])
        raise TemporaryError("no service today")

    monkeypatch.setattr("crawler_lifecycle.assembly.checks.check_room", check_room)
    monkeypatch.setattr(control.parts.deployer, "only_installation", only_installation)
    hanging = [
        asyncio.create_task(control.context.calls.run(answers.wait, 120)) for _ in range(MORE_THAN_THERE_ARE_THREADS)
    ]
    doctor = asyncio.create_task(control.doctor())
    try:
        await asyncio.to_thread(until, lambda: {"disk", "the scheduler service"} <= made, "the checks to be made", 30)
    finally:
        answers.set()
        await asyncio.gather(*hanging)
        checks = {check.part: check for check in await doctor}
    assert checks["disk"].line == "room enough"
    assert checks["installation"].line == "no service today"
