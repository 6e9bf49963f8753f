"""`crawlctl flow run FILE`, alone and beside a running stack, and an author's file as a program of its own."""

import asyncio
import json
import os
import signal
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest

from tests.kit.service.embedded import CRAWLCTL, ask, crawlctl, environment, processes_of, up
from tests.kit.waiting import eventually

pytestmark = [pytest.mark.process, pytest.mark.system, pytest.mark.timeout(300)]
BOOKSHOP = Path(__file__).parents[2] / "examples" / "flows" / "bookshop_graph.py"
GRAPH = """
import time

from crawler_lifecycle.flows import Context, Workflow, job


@job()
def count(upto: int) -> list[int]:
    return list(range(upto))


def double(number: int, context: Context) -> int:
    return 2 * number


def total(context: Context) -> int:
    print("adding up")
    return sum(context["double"].values()) + len(context["count"])


def fails(context: Context) -> None:
    raise ValueError("no price on page 7")


def sleeps(context: Context) -> None:
    time.sleep(120)


async def pushes() -> str:
    child = Workflow("child", id="child").add_approval("go").add_cascade("after", approved, deps="go")
    return await child.push()


def approved(context: Context) -> str:
    return "approved"


def flow() -> Workflow:
    return (
        Workflow("doubles")
        .add("count", count.job.with_kwargs(upto=3))
        .add_cascade("double", ([1, 2, 3], double), deps="count")
        .add_cascade("total", total, deps=["double", "count"])
    )


failing = Workflow("failing", id="failing").add_cascade("bad", fails).add_cascade("after", total, deps="bad")
long = Workflow("long", id="long").add_cascade("sleeps", sleeps)
parent = Workflow("parent", id="parent").add("pushes", pushes)
"""
PROGRAM = """
import asyncio

from crawler_lifecycle.client import Flows, WorkflowPlugin
from crawler_lifecycle.flows import Sequence, Workflow, job


@job()
async def top():
    print("Top", flush=True)


@job()
async def bottom():
    return "the end"


async def main():
    async with Flows.open() as chancy:
        workflow = Workflow("example").add(top, "top").add(bottom, "bottom", ["top"])
        await WorkflowPlugin.push(chancy, workflow)
        ended = await WorkflowPlugin.wait_for_workflow(chancy, workflow.id, timeout=60)
        print(ended.state.value, await workflow.get_recorded("bottom"))
        sequence = await Sequence("sequence", [top, bottom]).push(chancy)
        print((await chancy.wait(sequence, timeout=60)).state.value)


def main_in_sync():
    with Flows.open_sync() as flows:
        workflow = Workflow("sync").add("bottom", bottom)
        flows.push(workflow)
        flows.wait(workflow.id, timeout=60)
        print(flows.run(workflow.get_recorded("bottom")), flows.run(workflow.status()).counts["completed"])


if __name__ == "__main__":
    asyncio.run(main())
    main_in_sync()
"""

ALONE = """
import asyncio

from crawler_lifecycle.flows import Sequence, Workflow


def one():
    print("one is called", flush=True)


def fails():
    raise ValueError("no luck")


if __name__ == "__main__":
    asyncio.run(Workflow("alone").add("one", one).run())
    print("the program goes on")
    asyncio.run(Sequence("failing", [one, fails]).run())
    print("no program comes here")
"""
UNGUARDED = """
import asyncio

from crawler_lifecycle.flows import Workflow


def one():
    return 1


asyncio.run(Workflow("again").add("one", one).run())
"""


@pytest.fixture
def home(tmp_path: Path) -> Iterator[Path]:
    (tmp_path / "graph.py").write_text(GRAPH)
    (tmp_path / "program.py").write_text(PROGRAM)
    yield tmp_path
    for process in leftovers(tmp_path):
        process.kill()


def leftovers(home: Path) -> list[psutil.Process]:
    return [process for process in processes_of(home / "crawl-flow") if process.pid != os.getpid()]


def hosts(home: Path) -> list[psutil.Process]:
    return processes_of(home / "graph.py", lambda process: "host" in process.cmdline())


async def test_a_graph_runs_to_its_end_without_a_stack(home: Path) -> None:
    async with crawlctl(home, "flow", "run", "graph.py", "--graph") as command:
        assert await command.end(patience=200) == 0, command.output
    lines = command.output.splitlines()
    assert any(line.endswith(": 5 jobs pushed") for line in lines), command.output
    assert "doubles  completed  total (total)" in lines
    assert "adding up" in lines
    (end,) = [line for line in lines if " ended completed after " in line]
    assert end.endswith(": 5 completed")
    assert lines[lines.index(end) + 2] == "flowchart TD"
    assert leftovers(home) == []
    assert list(home.glob("crawl-flow-*")) == []


async def test_the_graph_over_the_bookshop_runs_to_its_end_with_its_picture(home: Path) -> None:
    async with crawlctl(home, "flow", "run", str(BOOKSHOP), "--graph") as command:
        assert await command.end(patience=280) == 0, command.output
    lines = command.output.splitlines()
    (end,) = [place for place, line in enumerate(lines) if " ended completed after " in line]
    picture = [line.strip() for line in lines[end + 2 :]]
    assert picture[0] == "flowchart TD", command.output
    for job in ("categories (bookshop)", "parts (plan_parts)", "crawl_0 (bookshop)", "merge (merge)", "load (load)"):
        assert any(f'"{job}"' in line for line in picture), command.output
    assert {"categories --> parts", "merge --> check", "merge --> load", "check --> load"} <= set(picture)
    assert len(json.loads((home / "bookshop.json").read_text())) == 60
    assert leftovers(home) == []


async def test_beside_a_stack_the_outcome_is_the_exit_status(home: Path) -> None:
    state = home / "state"
    async with up(state):
        _, answer = await ask(state, "flow", "push", "graph.py", "--flow", "failing")
        assert answer["created"]
        status, end = await ask(state, "flow", "run", "graph.py", "--flow", "flow")
        assert (status, end["status"]["state"], end["failed"]) == (0, "completed", [])
        assert end["results"]["total"] == 15
        _, jobs = await ask(state, "flow", "jobs", "failing")
        assert [(job["path"], job["attempt"]) for job in jobs] == [("bad", 0), ("after", 0)]  # not this command's flow
        status, end = await ask(state, "flow", "run", "graph.py", "--flow", "failing")
        assert (status, end["status"]["state"]) == (5, "discarded")
        assert {job["path"]: job["state"] for job in end["failed"]} == {"bad": "discarded", "after": "cancelled"}
        assert 'raise ValueError("no price on page 7")' in end["errors"]["bad"]
        assert hosts(home) == []

        # a host ends with its command, whatever ends the command; the flow waits for another host
        for number in (signal.SIGINT, signal.SIGKILL):
            async with crawlctl(home, "flow", "run", "graph.py", "--flow", "long", "--state", str(state)) as command:
                await command.wait_for("long  executing  sleeps")
                assert len(hosts(home)) == 1
                assert await command.end(number) == (130 if number is signal.SIGINT else -number)
            if number is signal.SIGINT:
                assert "flow long continues: crawlctl flow watch long" in command.output
                waits = f"its steps wait for a host: crawlctl host {home / 'graph.py'} --flow long"
                assert waits in command.output
            await eventually(lambda: not hosts(home) or None, "no host is left")
        _, stopped = await ask(state, "flow", "stop", "long")
        assert stopped["count"] == 1


async def test_the_host_after_an_interruption_has_the_flow_and_the_flows_that_it_pushes(home: Path) -> None:
    state = home / "state"
    async with up(state):
        async with crawlctl(home, "flow", "run", "graph.py", "--flow", "parent", "--state", str(state)) as command:
            assert await command.end(patience=60) == 0, command.output
        await ask(state, "flow", "approve", "child", "go")
        async with asyncio.timeout(60):
            while (why := (await ask(state, "flow", "why", "child", "after"))[1])["state"] == "suspended":
                await asyncio.sleep(0.2)
        assert why["cause"] == "host:graph --flow parent"
        host = await asyncio.create_subprocess_exec(
            *(*CRAWLCTL, "host", "graph.py", "--flow", "parent"),
            cwd=home,
            env=environment(home, {"CRAWLER_STATE": str(state)}),
        )
        async with crawlctl(home, "flow", "watch", "child", "--state", str(state)) as command:
            assert await command.end() == 0, command.output
        host.terminate()
        assert await host.wait() == 0


async def test_an_authors_file_is_a_program(home: Path) -> None:
    state = home / "state"
    async with up(state, "--flows", str(home / "program.py")):
        process = await asyncio.create_subprocess_exec(
            sys.executable,
            "program.py",
            cwd=home,
            env=environment(home, {"CRAWLER_STATE": str(state)}),
            stdout=asyncio.subprocess.PIPE,
        )
        output, _ = await process.communicate()
        assert process.returncode == 0
        assert output.decode().splitlines() == ["completed the end", "completed", "the end 1"]
        assert (state / "logs" / "flows.log").read_text().count("Top") == 2
        _, flows = await ask(state, "flow", "list")
        assert [flow["name"] for flow in flows] == ["sync", "sequence", "example"]


async def test_a_program_runs_its_own_graph_and_exits_by_the_state(home: Path) -> None:
    """The program hosts its own functions: beside a stack without a host, and alone."""
    (home / "alone.py").write_text(ALONE)
    (home / "unguarded.py").write_text(UNGUARDED)
    state = home / "state"
    async with up(state):
        status, output = await program(home, "alone.py", CRAWLER_STATE=str(state))
        assert status == 5, output
        assert output.index("one is called") < output.index("the program goes on") < output.index("discarded")
        assert "no program comes here" not in output
        _, flows = await ask(state, "flow", "list")
        assert [(flow["name"], flow["state"]) for flow in flows] == [("failing", "discarded"), ("alone", "completed")]
        script = "import asyncio, alone\n\nasyncio.run(alone.Workflow('n').add('one', alone.one).run())\n"
        (home / "nightly").write_text(script)  # a package's script has no ending either
        status, output = await program(home, "nightly", CRAWLER_STATE=str(state))
        assert status == 0, output
        assert "one is called" in output
        status, output = await program(home, "unguarded.py", CRAWLER_STATE=str(state))
        assert status != 0
        assert "is called while the module is imported: put the call after" in output
    await eventually(lambda: not leftovers(home) or None, "no host is left")


async def program(home: Path, file: str, **settings: str) -> tuple[int, str]:
    """Run the author's file; return its exit status and its output."""
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, file),
        cwd=home,
        env=environment(home, settings),
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
    )
    output, _ = await process.communicate()
    assert process.returncode is not None
    return process.returncode, output.decode()


async def test_crawls_and_steps_by_json_and_code_that_changed(home: Path) -> None:
    """An update by pushing again, and a crawl as a job, on the whole stack."""
    state = home / "state"
    async with up(state):
        definition: dict[str, Any] = {
            "id": "shop",
            "members": [
                {"path": "crawl", "work": {"kind": "crawl", "request": {"crawler": "bookshop", "tasks": 2}}},
                {"path": "go", "work": {"kind": "approval"}, "needs": [{"on": ["crawl"]}]},
            ],
        }
        (home / "shop.json").write_text(json.dumps(definition))
        _, answer = await ask(state, "flow", "push", "shop.json")
        assert (answer["created"], answer["nudged"]) == (True, True)
        _, answer = await ask(state, "flow", "approve", "shop", "go")
        async with crawlctl(home, "flow", "watch", "shop", "--state", str(state)) as command:
            assert await command.end() == 0, command.output
        _, jobs = await ask(state, "flow", "jobs", "shop")
        assert [(job["path"], job["state"]) for job in jobs] == [("crawl", "completed"), ("go", "completed")]
        _, runs = await ask(state, "list", "--flow", "shop")
        assert [(run["run_id"], run["status"]) for run in runs] == [(jobs[0]["run_id"], "COMPLETED")]
        assert (await ask(state, "list"))[1] == []
        definition["members"].append(
            {"path": "again", "work": {"kind": "crawl", "request": {"crawler": "bookshop", "tasks": 1}}}
        )
        (home / "shop.json").write_text(json.dumps(definition))
        status, end = await ask(state, "flow", "run", "shop.json")
        assert (status, end["status"]["counts"]) == (0, {"completed": 3})
        assert end["results"]["again"]["status"] == "COMPLETED"
