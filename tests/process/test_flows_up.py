"""`crawlctl up --flows FILE`: the embedded stack hosts the steps of a file."""

import os
import signal
from pathlib import Path

import pytest

from crawler_lifecycle.client import Flows
from crawler_lifecycle.database.database import Database
from crawler_lifecycle.flows import StepJob, Workflow
from tests.kit.data.flows import pushed
from tests.kit.service.embedded import stack_processes, up

pytestmark = [pytest.mark.process, pytest.mark.system, pytest.mark.timeout(300)]
FILE = Path(__file__).with_name("client_steps.py")
NO_AUDIT = {"CRAWLER_AUDIT__EVERY_SECONDS": "0"}


def step(name: str, **options: bool) -> StepJob:
    form = "job" if name == "Grafter" else "context"
    return StepJob(function=f"client_steps:{name}", form=form, **options)  # type: ignore[arg-type]


async def test_steps_use_their_hosts_client(tmp_path: Path) -> None:
    state = tmp_path / "state"
    async with up(state, "--flows", str(FILE)), Flows.open(state) as flows:
        workflow = (
            Workflow("clients", id="clients")
            .add("first", step("first"))
            .add("loop", step("on_loop"), deps="first")
            .add("thread", step("in_thread"), deps="first")
            .add("alone", step("in_thread", isolate=True), deps="first")
            .add("push", step("push_another"), deps="first")
            .add_graft("graft", step("Grafter"), deps="first")
            .add("itself", step("wait_for_itself"), deps="first")
        )
        await flows.push(workflow)
        ended = await flows.wait("clients", timeout=120)
        assert {name: part.state.value for name, part in ended.steps.items()} == {
            **dict.fromkeys(("first", "loop", "thread", "alone", "push", "graft"), "succeeded"),
            "itself": "failed",
        }
        for name in ("loop", "thread", "alone"):
            assert await ended.get_recorded(name) == {"state": "executing", "first": 7}
        assert await ended.get_recorded("graft") == {"grafted": 7}
        assert (await flows.wait("clients-more", timeout=60)).is_complete

        # the host dies and is started again
        os.kill(stack_processes(state)["flows"], signal.SIGKILL)
        await flows.push(Workflow("after", id="after").add("first", step("first")))
        assert (await flows.wait("after", timeout=60)).is_complete


async def test_a_worker_starts_a_flow_whose_push_did_not_reach_temporal(tmp_path: Path) -> None:
    state = tmp_path / "state"
    async with up(state, "--flows", str(FILE), settings=NO_AUDIT), Flows.open(state) as flows:
        database = Database(f"sqlite:///{state / 'crawler.db'}")
        pushed(database, Workflow("silent", id="silent").add("first", step("first")))
        database.close()
        assert (await flows.wait("silent", timeout=60)).is_complete
