"""Crawl managers from an author's file: `flow run FILE`, the file as a program, and death in the middle."""

import asyncio
import json
import os
import shutil
import sys
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import psutil
import pytest

from tests.embedded import ask, crawlctl, environment, processes_of, stack_processes, up

pytestmark = [pytest.mark.process, pytest.mark.system, pytest.mark.timeout(600)]
SHOPS = Path(__file__).parents[2] / "examples" / "flows" / "shops_manager.py"
DELIVERY = SHOPS.with_name("shops_and_delivery.py")
PAGE_SCRIPT = Path(__file__).parents[1] / "managers" / "reference" / "crawlmanager.py"
PROGRAM = """
import asyncio
import sys

from crawler_lifecycle.managers import AsyncSchedulerCrawlManagerMixin, GeneratorCrawlManager


class Few(GeneratorCrawlManager):
    name = "few"
    spider = "shop"
    loop_mode = 60

    def add_argparser_options(self):
        super().add_argparser_options()
        self.argparser.add_argument("--reason")

    def set_parameters_gen(self):
        yield from ({"shop": number} for number in range(3))

    def on_close(self):
        if self.args.reason:
            self.set_close_reason(self.args.reason)


class FewAtOnce(AsyncSchedulerCrawlManagerMixin, Few):
    name = "at-once"


class Broken(Few):
    name = "broken"

    def set_parameters_gen(self):
        raise ValueError("no such bucket")


if __name__ == "__main__":
    if "--at-once" in sys.argv:
        sys.argv.remove("--at-once")
        asyncio.run(FewAtOnce().run())
    else:
        Few().run()
    print("the program goes on")
"""


@pytest.fixture
def home(tmp_path: Path) -> Iterator[Path]:
    (tmp_path / "few.py").write_text(PROGRAM)
    yield tmp_path
    for process in processes_of(tmp_path):
        if process.pid != os.getpid():
            process.kill()


async def program(home: Path, *words: str, file: str = "few.py", **settings: str) -> tuple[int, str]:
    """Run the author's file; return its exit status and its output."""
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, file, *words),
        cwd=home,
        env=environment(home, settings),
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
    )
    output, _ = await process.communicate()
    assert process.returncode is not None
    return process.returncode, output.decode()


async def test_a_file_is_a_program_and_exits_by_the_close_reason(home: Path) -> None:
    state = home / "state"
    async with up(state):
        status, output = await program(home, "--flow-id", "one", CRAWLER_STATE=str(state))
        assert status == 0, output
        assert "flow one/few: manager Few is started" in output
        assert "items     3: 3 completed" in output
        assert output.splitlines()[-1] == "the program goes on"
        status, output = await program(home, "--flow-id", "two", "--reason", "tired", CRAWLER_STATE=str(state))
        assert (status, "closed: tired" in output, "goes on" in output) == (5, True, False), output
        status, output = await program(home, "--at-once", "--flow-id", "three", CRAWLER_STATE=str(state))
        assert (status, "items     3: 3 completed" in output) == (0, True), output
        status, output = await program(home, "--load-sc-settings", CRAWLER_STATE=str(state))
        assert status != 0
        assert "no Scrapy Cloud" in output

        # a second program with the flow id joins the manager, which has ended
        status, output = await program(home, "--flow-id", "one", CRAWLER_STATE=str(state))
        assert (status, "was started before" in output) == (0, True), output
        _, runs = await ask(state, "list", "--flow", "one/few")
        assert len(runs) == 3

        # a manager that keeps failing is paused with its traceback, and goes on after a resume
        words = ("flow", "run", "few.py", "--flow", "Broken", "--id", "four", "--state", str(state))
        async with crawlctl(home, *words) as command:
            await command.wait_for("ValueError: no such bucket")
            (home / "few.py").write_text(PROGRAM.replace('raise ValueError("no such bucket")', 'yield {"shop": 7}'))
            assert (await ask(state, "flow", "resume", "four/broken"))[0] == 0
            assert await command.end() == 0, command.output
        _, items = await ask(state, "flow", "jobs", "four/broken")
        assert [(item["number"], item["state"]) for item in items] == [(1, "completed")]


async def test_the_script_of_the_reference_page_runs_to_its_exit_status(home: Path) -> None:
    shutil.copy(PAGE_SCRIPT, home)
    catalogue = home / "catalogue.toml"
    catalogue.write_text(f'[crawlers.example_spider]\ncommand = [{json.dumps(sys.executable)}, "-c", "pass"]\n')
    state = home / "state"
    async with up(state, "--catalogue", str(catalogue)):
        status, output = await program(
            home, "--flow-id", "page", "--loop-mode", "2", file=PAGE_SCRIPT.name, CRAWLER_STATE=str(state)
        )
        assert status == 0, output
        assert "items     10: 10 completed" in output
        _, runs = await ask(state, "list", "--flow", "page/crawl")
        arguments = [(await ask(state, "show", str(run["run_id"])))[1]["run"]["request"]["arguments"] for run in runs]
    assert sorted(given["page"] for given in arguments) == [str(number) for number in range(10)]
    assert {run["crawler"] for run in runs} == {"example_spider"}


async def test_a_program_without_a_stack_starts_one(home: Path) -> None:
    status, output = await program(home)
    assert status == 0, output
    assert "The service is up" in output
    assert "items     3: 3 completed" in output
    assert [process for process in processes_of(home / "crawl-flow") if process.pid != os.getpid()] == []


async def test_a_manager_is_a_job_of_a_graph_and_survives_kills(home: Path) -> None:
    """The delivery follows the manager's end, with its numbers, although host and worker die in the middle."""
    state = home / "state"
    async with up(state, "--flows", str(DELIVERY)):
        assert (await ask(state, "flow", "push", str(DELIVERY), "--id", "graph"))[0] == 0
        for least, victim in ((1, "flows"), (3, "lifecycle")):
            await completed(state, "graph", least)
            kill(stack_processes(state)[victim])
        async with crawlctl(home, "flow", "watch", "graph", "--state", str(state)) as command:
            assert await command.end(patience=300) == 0, command.output
        _, shown = await ask(state, "flow", "show", "graph")
        (manager,) = shown["managers"]
        assert (manager["path"], manager["close_reason"], manager["counts"]["completed"]) == ("shops", "finished", 6)
        _, jobs = await ask(state, "flow", "jobs", "graph")
        assert {job["path"]: job["state"] for job in jobs} == {"shops": "completed", "deliver": "completed"}
        _, runs = await ask(state, "list", "--flow", "graph", "--limit", "100")
        assert sorted(map(sequence, runs)) == [f"JOBSEQ={number:010d}" for number in range(1, 7)]
        assert all({"FLOW_ID=graph", "PARENT_NAME=shops"} < set(run["tags"]) for run in runs)


async def test_the_shops_survive_kills_of_host_and_worker(home: Path) -> None:
    """Each crawl is made once, and the sums are exact, although host, object and worker die in the middle."""
    state = home / "state"
    async with up(state, "--flows", str(SHOPS)):
        _, answer = await ask(state, "flow", "start", str(SHOPS), "--id", "killed")
        flow = answer["flow_id"]
        assert flow == "killed/shops"
        for least, victims in ((4, ("flows",)), (12, ("lifecycle",)), (20, ("flows", "lifecycle"))):
            await completed(state, flow, least)
            for name in victims:
                kill(stack_processes(state)[name])
        async with crawlctl(home, "flow", "watch", flow, "--state", str(state)) as command:
            assert await command.end(patience=300) == 0, command.output

        _, shown = await ask(state, "flow", "show", flow)
        (manager,) = shown["managers"]
        settled = {name: number for name, number in manager["counts"].items() if number}
        assert settled == {"completed": 40, "repeated": 3}
        assert manager["close_reason"] == "finished"
        pages = sum(1 + at % 5 for at in range(40) if at not in (10, 29)) + 2 * (1 + 1)  # banned, then one page
        assert manager["stats"]["pages/total"] == pages
        assert manager["stats"]["ends/banned"] == 2
        assert manager["stats"]["ends/finished"] == 40
        assert manager["stats"]["crawlmanager/scheduled_jobs"] == 42
        _, runs = await ask(state, "list", "--flow", flow, "--limit", "100")
        sequences = sorted(sequence(run) for run in runs)
        expected = [f"JOBSEQ={number:010d}" for number in range(1, 41)]
        assert sequences == sorted([*expected, "JOBSEQ=0000000011.r1", "JOBSEQ=0000000030.r1"])


def sequence(run: dict[str, Any]) -> str:
    """The run's place among the manager's jobs."""
    return next(str(tag) for tag in run["tags"] if tag.startswith("JOBSEQ="))


def kill(pid: int) -> None:
    """Kill the process with all its children, as the death of a machine does."""
    process = psutil.Process(pid)
    children = process.children(recursive=True)
    process.kill()
    for child in children:
        with suppress(psutil.NoSuchProcess):  # a child may end with its parent
            child.kill()


async def completed(state: Path, flow: str, least: int) -> None:
    async def enough() -> bool:
        _, shown = await ask(state, "flow", "show", flow)
        return bool(shown["managers"][0]["counts"]["completed"] >= least)

    for _ in range(200):
        if await enough():
            return
        await asyncio.sleep(0.2)  # no event tells that a row has changed
    pytest.fail(f"fewer than {least} items completed: {json.dumps((await ask(state, 'flow', 'show', flow))[1])}")
