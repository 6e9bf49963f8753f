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

from tests.kit.service.embedded import ask, crawlctl, environment, processes_of, stack_processes, up

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

SLOW = """
from crawler_lifecycle.flows import Workflow
from crawler_lifecycle.managers import GeneratorCrawlManager, manager


class Slow(GeneratorCrawlManager):
    name = "any"
    spider = "sleeper"
    loop_mode = 60

    def set_parameters_gen(self):
        yield from ({"seconds": 3600, "number": number} for number in range(4))


def deliver(shops):
    raise AssertionError("the manager was stopped")


workflow = Workflow("slow").add("shops", manager(Slow, "--max-running-jobs", "2")).add("deliver", deliver, "shops")
"""
GRAPH = """
from crawler_lifecycle.managers import GraphManager, Resource, SpiderTask, Task

DATABASE = Resource("database")


class Delivery(GraphManager):
    name = "delivery"
    loop_mode = 60

    def configure_workflow(self):
        crawl = SpiderTask("crawl", "shop", shop="alfa", retries=2)
        two_parts = "deliver.py --part 0\\ndeliver.py --part 1"
        deliver = Task("deliver", two_parts, init_args=["--all"], retry_args=["--missing"])
        deliver.add_required_resources({DATABASE: 1})
        crawl.add_next_task(deliver)
        deliver.add_next_task(Task("report", "deliver.py --report", wait_time=1))
        return (crawl,)
"""
SCRIPT = """
import sys
from pathlib import Path

with (Path(__file__).parent / "words").open("a") as file:
    file.write(" ".join(sys.argv[1:]) + "\\n")
sys.exit(sys.argv[1:] == ["--part", "1", "--all"])
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


async def test_a_stop_of_a_graph_ends_with_the_proof_for_its_managers_crawls(home: Path) -> None:
    """The crawls run for an hour; after the stop, none of them is left, and a retry continues with the manager."""
    state = home / "state"
    (home / "slow.py").write_text(SLOW)
    async with up(state, "--flows", str(home / "slow.py")):
        assert (await ask(state, "flow", "push", str(home / "slow.py"), "--id", "slow"))[0] == 0
        await running(state, "slow", 2)
        async with crawlctl(home, "flow", "stop", "slow", "--wait", "--state", str(state)) as command:
            assert await command.end() == 0, command.output
        _, runs = await ask(state, "list", "--flow", "slow")
        assert [run["reason"] for run in runs] == ["stopped", "stopped"]
        assert not [process for process in processes_of(state) if "sleeper" in process.cmdline()]
        _, jobs = await ask(state, "flow", "jobs", "slow")
        assert {job["path"]: job["state"] for job in jobs} == {"shops": "cancelled", "deliver": "cancelled"}
        assert (await ask(state, "flow", "retry", "slow", "1", "--manager", "shops", "--arg", "seconds=0"))[0] == 0
        await completed(state, "slow", 1)
        async with crawlctl(home, "flow", "stop", "slow", "--force", "--wait", "--state", str(state)) as command:
            assert await command.end() == 0, command.output


async def test_a_graph_manager_runs_spiders_and_scripts_and_survives_kills(home: Path) -> None:
    """The howto's graph: a crawl, then a delivery in two parts, which fails at first, then a report."""
    state = home / "state"
    (home / "delivery.py").write_text(GRAPH)
    (home / "deliver.py").write_text(SCRIPT)
    runner = f'["{{python}}", "-m", "crawler_lifecycle.compat.shub.run_script", "{home}/deliver.py"]'
    shop = f'["{{python}}", "{SHOPS.parents[1]}/tiny_jobs.py", "shop"]'
    catalogue = home / "catalogue.toml"
    catalogue.write_text(f'[crawlers.shop]\ncommand = {shop}\n[crawlers."py:deliver.py"]\ncommand = {runner}\n')
    async with up(state, "--catalogue", str(catalogue), "--flows", str(home / "delivery.py")):
        start = ("flow", "start", str(home / "delivery.py"), "--id", "one", "--state", str(state), "--", "--root-jobs")
        async with crawlctl(home, *start) as command:
            assert await command.end() == 0, command.output
        flow = "one/delivery"
        await completed(state, flow, 1)
        kill(stack_processes(state)["flows"])
        kill(stack_processes(state)["lifecycle"])
        async with crawlctl(home, "flow", "watch", flow, "--state", str(state)) as command:
            assert await command.end(patience=300) == 0, command.output
        _, items = await ask(state, "flow", "jobs", flow)
        tasks = [next(tag for tag in item["tags"] if tag.startswith("TASK_ID=")).partition("=")[2] for item in items]
        assert tasks == ["crawl", "deliver.0", "deliver.1", "report"]
        assert [item["state"] for item in items] == ["completed"] * 4
    words = sorted((home / "words").read_text().splitlines())
    assert words == ["--part 0 --all", "--part 1 --all", "--part 1 --missing", "--report"]


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


async def running(state: Path, flow: str, least: int) -> None:
    """Wait until the crawls of items run as processes."""
    for _ in range(300):
        _, runs = await ask(state, "list", "--flow", flow)
        if sum(run["tasks"].get("RUNNING", 0) for run in runs) >= least:
            return
        await asyncio.sleep(0.2)  # no event tells that a row has changed
    pytest.fail(f"fewer than {least} crawls run: {(await ask(state, 'list', '--flow', flow))[1]}")


async def completed(state: Path, flow: str, least: int) -> None:
    async def enough() -> bool:
        _, shown = await ask(state, "flow", "show", flow)
        return bool(shown["managers"][0]["counts"]["completed"] >= least)

    for _ in range(200):
        if await enough():
            return
        await asyncio.sleep(0.2)  # no event tells that a row has changed
    pytest.fail(f"fewer than {least} items completed: {json.dumps((await ask(state, 'flow', 'show', flow))[1])}")
