"""Graph managers: turns of tasks, waits, parts, retries, routes, resources, and the command line."""

import json
from collections.abc import Callable, Iterable
from typing import Any

import pytest

from crawler_lifecycle.errors import BadInput
from crawler_lifecycle.managers import BaseTask, GraphManager, Resource, SpiderTask, Task
from crawler_lifecycle.managers.authors.arguments import command_line
from crawler_lifecycle.managers.authors.link import AuthorsFailure
from crawler_lifecycle.managers.authors.preview import preview
from crawler_lifecycle.testing import ManagerPlay, StartedJob, assert_crash_safe, completed
from tests.managers.play import retry_items

FOUR = "{% for i in range(4) %}NAME --parg={{ i }}\n{% endfor %}"


class Graph(GraphManager):
    name = "test"
    loop_mode = 60


def four(name: str) -> str:
    return FOUR.replace("NAME", name)


def graph(build: Callable[[GraphManager], Iterable[BaseTask]]) -> type[GraphManager]:
    class Built(Graph):
        def configure_workflow(self) -> Iterable[BaseTask]:
            return build(self)

    return Built


def play_of(manager: type[GraphManager], *arguments: str, **options: Any) -> ManagerPlay:
    play = ManagerPlay(manager, *arguments, **options)
    play.cycle()
    return play


def line(job: StartedJob) -> str:
    """The command of a job, as its author wrote it."""
    return " ".join([job.spider.removeprefix("py:"), *job.arguments.get("cmd_args", "").split()])


def running(play: ManagerPlay) -> list[str]:
    return [line(job) for job in play.running]


def end(play: ManagerPlay, *commands: str, outcome: Any = "finished") -> list[str]:
    """End the jobs whose commands begin so, or all. Return the commands that start next."""
    before = len(play.started)
    chosen = [job for job in play.running if not commands or line(job).startswith(commands)]
    assert chosen
    for job in chosen:
        play.end(job.number, outcome)
    play.cycle()
    return [line(job) for job in play.started[before:]]


def parts(command: str, *rest: str, of: Iterable[int] = range(4)) -> list[str]:
    return [" ".join([command, f"--parg={number}", *rest]) for number in of]


class First(Graph):
    def configure_workflow(self) -> Iterable[BaseTask]:
        a = Task("jobA", "commandA", ["argA", "--optionA"], retry_args=["argA"], tags=["tag1", "tag2"], units=2)
        b = Task("jobB", "commandB", init_args=["argB", "--optionB"])
        c = Task("jobC", "commandC", init_args=["argC"])
        a.add_next_task(c)
        c.add_next_task(Task("jobD", "commandD", init_args=["argD"]))
        c.add_wait_for(b)
        return a, b


class Second(Graph):
    def configure_workflow(self) -> Iterable[BaseTask]:
        a = Task("jobA", four("commandA"), ["argA", "--optionA"], ["argA"], tags=["tag1", "tag2"], retries=2)
        b = Task("jobB", four("commandB"), ["argB"])
        c = Task("jobC", "commandC", ["argC"], retries=2)
        d = Task("jobD", "commandD")
        a.add_next_task(b)
        a.add_next_task(d)
        b.add_next_task(c)
        d.add_wait_for(b)
        return (a,)


class Third(Graph):
    def configure_workflow(self) -> Iterable[BaseTask]:
        a, b = Task("jobA", four("commandA"), tags=["tag1", "tag2"]), Task("jobB", four("commandB"))
        c, d, e = Task("jobC", "commandC"), Task("jobD", "commandD"), Task("jobE", "commandE")
        a.add_next_task(b)
        a.add_next_task(c)
        c.add_next_task(d)
        d.add_next_task(e)
        e.add_wait_for(b)
        return (a,)

    def generate_flow_id(self) -> str:
        return "generated"


# turns and waits


def test_tasks_follow_one_another_and_wait_for_others() -> None:
    play = play_of(First, "--starting-job=jobA", "--starting-job=jobB")
    assert running(play) == ["commandA argA --optionA", "commandB argB --optionB"]
    first = play.running[0]
    assert (first.memory_factor, {"tag1", "tag2", "TASK_ID=jobA"} < set(first.tags)) == (2, True)
    assert end(play, "commandA", outcome="failed") == ["commandA argA"]
    play.cycle()
    assert len(play.started) == 3
    assert end(play, "commandA") == []
    assert end(play, "commandB") == ["commandC argC"]
    assert end(play) == ["commandD argD"]
    assert end(play) == []
    assert play.close_reason == "finished"


def test_the_root_jobs_are_the_returned_tasks() -> None:
    assert running(play_of(First, "--root-jobs")) == ["commandA argA --optionA", "commandB argB --optionB"]


def test_a_task_in_parts_ends_with_all_its_parts() -> None:
    play = play_of(Second, "--starting-job=jobA")
    assert running(play) == parts("commandA", "argA", "--optionA")
    assert end(play, "commandA --parg=0", outcome="failed") == ["commandA --parg=0 argA"]
    assert end(play) == parts("commandB", "argB")
    assert end(play, "commandB --parg=0") == []
    assert end(play) == ["commandC argC", "commandD"]


def test_a_skipped_task_and_all_that_follow_do_not_run() -> None:
    play = play_of(Third, "--starting-job=jobA", "--skip-job=jobC")
    assert end(play) == parts("commandB")
    assert end(play) == []
    assert play.close_reason == "finished"


def test_a_task_waits_for_a_task_that_has_ended_before() -> None:
    play = play_of(Third, "--starting-job=jobA")
    assert sorted(end(play)) == [*parts("commandB"), "commandC"]
    assert end(play, "commandB") == []
    assert end(play) == ["commandD"]
    assert end(play) == ["commandE"]


@pytest.mark.parametrize(
    ("arguments", "turns"),
    [
        (["-s", "jobD"], [["commandD"], ["commandE"]]),  # jobB never has a turn
        (["-s", "jobA", "--skip-job", "jobB"], [parts("commandA"), ["commandC"], ["commandD"], ["commandE"]]),
        (["-s", "jobB", "-s", "jobE"], [parts("commandB"), ["commandE"]]),
    ],
)
def test_nobody_waits_for_a_task_that_does_not_run(arguments: list[str], turns: list[list[str]]) -> None:
    play = play_of(Third, *arguments)
    assert [running(play), *(end(play) for _ in turns[1:])] == turns
    assert end(play) == []
    assert play.close_reason == "finished"


def test_a_task_waits_for_all_parts_of_a_starting_task() -> None:
    play = play_of(Second, "--starting-job=jobB")
    assert end(play, "commandB --parg=0") == []
    assert end(play) == ["commandC argC"]


def chain(_: GraphManager, *edges: str, waits: str = "") -> dict[str, BaseTask]:
    """Five tasks, of which the first two have parts: `AB` is an edge, and `DC` among the waits lets D wait for C."""
    tasks: dict[str, BaseTask] = {name: Task(f"job{name}", four(f"command{name}")) for name in "AB"}
    tasks |= {name: Task(f"job{name}", f"command{name}") for name in "CDE"}
    for edge in edges:
        tasks[edge[0]].add_next_task(tasks[edge[1]])
    for wait in waits.split():
        tasks[wait[0]].add_wait_for(tasks[wait[1]])
    return tasks


@pytest.mark.parametrize(
    ("edges", "waits", "roots", "starting", "turns"),
    [
        (("AB", "AC", "CD"), "ED", "AE", "CE", [["commandC"], ["commandD"], ["commandE"]]),
        (("AB", "BC"), "DC ED", "ADE", "BDE", [parts("commandB"), ["commandC"], ["commandD"], ["commandE"]]),
        (("AB", "BC", "BD", "CE"), "DA ED", "A", "B", [parts("commandB"), ["commandC"], ["commandD"], ["commandE"]]),
        (("AB", "BC", "BE", "CD"), "DE EA", "A", "B", [parts("commandB"), ["commandC"], ["commandE"], ["commandD"]]),
    ],
)
def test_waits_for_tasks_that_wait_themselves(
    edges: tuple[str, ...], waits: str, roots: str, starting: str, turns: list[list[str]]
) -> None:
    manager = graph(lambda self: [chain(self, *edges, waits=waits)[name] for name in roots])
    play = play_of(manager, *(f"--starting-job=job{name}" for name in starting))
    assert [running(play), *(end(play) for _ in turns[1:])] == turns
    assert end(play) == []


def test_one_task_at_a_time_starts_without_its_wait() -> None:
    def build(_: GraphManager) -> Iterable[BaseTask]:
        tasks = [Task("jobA", four("commandA")), Task("jobB", "commandB"), Task("jobC", "commandC")]
        unseen = Task("jobE", "commandE")
        for task in tasks:
            task.add_wait_for(unseen)
        return [*tasks, unseen]

    play = play_of(graph(build), "-s", "jobA", "-s", "jobB", "-s", "jobC")
    assert running(play) == parts("commandA")
    play.cycle()
    assert len(play.started) == 4
    assert end(play) == ["commandB"]
    assert end(play) == ["commandC"]


def test_tasks_that_wait_for_one_another_are_an_error() -> None:
    def build(_: GraphManager) -> Iterable[BaseTask]:
        a, b = Task("jobA", "commandA"), Task("jobB", four("commandB"))
        c, d = Task("jobC", "commandC"), Task("jobD", "commandD")
        a.add_next_task(d)
        b.add_wait_for(c)
        c.add_wait_for(d)
        d.add_wait_for(b)
        return a, b, c

    play = play_of(graph(build), "--root-jobs")
    assert running(play) == ["commandA"]
    play.end()
    with pytest.raises(
        AuthorsFailure, match=r"wait for one another: jobB.0 waits for jobC, .*jobD waits for jobB.0 and"
    ):
        play.cycle()


def test_a_task_has_no_second_turn_while_it_is_under_way() -> None:
    def build(_: GraphManager) -> Iterable[BaseTask]:
        a, b = Task("jobA", "commandA", on_finish={"default": ["jobB"]}), Task("jobB", "commandB")
        return a, b

    play = play_of(graph(build), "--root-jobs")
    assert end(play, "commandA") == []
    assert any("jobB is under way" in text for text in play.lines)


# retries and routes


def test_a_part_is_tried_again_as_often_as_its_task_allows() -> None:
    play = play_of(Second, "--starting-job=jobA")
    for part in range(2):
        first = f"commandA --parg={part}"
        for _ in range(2):
            assert end(play, first, outcome="failed") == [f"{first} argA"]
        assert end(play, first, outcome="failed") == []
    assert len(play.running) == 2


def test_without_retry_args_a_retry_has_the_first_arguments() -> None:
    play = play_of(Second, "--starting-job=jobC")
    assert [end(play, outcome="failed") for _ in range(2)] == [["commandC argC"]] * 2
    assert end(play, outcome="failed") == []
    assert play.close_reason == "finished_with_failures"
    assert [(item.state, item.attempt) for item in play.items] == [("failed", 3)]


class Routes(Graph):
    def __init__(self) -> None:
        super().__init__()
        self.failed_outcomes.append("banned")

    def configure_workflow(self) -> Iterable[BaseTask]:
        crawl = SpiderTask("crawl", "shop", retries=0, on_finish={"no_items": ["alert"], "banned": ["cleanup"]})
        for name in ("deliver", "alert", "cleanup"):
            crawl.add_next_task(Task(name, f"{name}.py"))
        crawl.on_finish["finished"] = ["deliver"]
        return (crawl,)

    def bad_outcome_hook(self, task_id: str, jobid: str | None, outcome: str) -> None:
        self.state["bad"] = [*self.state.get("bad", []), [task_id, jobid, outcome]]


@pytest.mark.parametrize(
    ("outcome", "following", "bad"),
    [
        ("finished", ["deliver.py"], 0),
        (completed("no_items"), ["alert.py"], 0),
        (completed("banned"), ["cleanup.py"], 1),
        ("failed", [], 1),
        (completed("another"), ["alert.py", "cleanup.py", "deliver.py"], 0),
    ],
)
def test_the_outcome_chooses_the_next_tasks(outcome: Any, following: list[str], bad: int) -> None:
    play = play_of(Routes, "--root-jobs")
    key = play.running[0].key
    assert sorted(end(play, outcome=outcome)) == following
    seen: Any = play.state.get("bad", [])
    assert [entry[:2] for entry in seen] == [["crawl", key]] * bad


def test_an_outcome_of_its_own_may_be_tried_again() -> None:
    manager = graph(lambda _: [SpiderTask("crawl", "shop", retries=1, on_finish={"banned": ["retry"]})])
    play = play_of(manager, "--root-jobs")
    assert end(play, outcome=completed("banned")) == ["shop"]
    assert end(play, outcome=completed("banned")) == []
    assert play.close_reason == "finished"  # the list of failed outcomes has no such word


def test_a_stopped_task_is_not_tried_again_by_default() -> None:
    play = play_of(First, "--starting-job=jobB")
    assert end(play, outcome="cancelled") == []
    assert play.close_reason == "finished_with_failures"


def test_a_task_may_lead_to_itself() -> None:
    play = play_of(graph(lambda _: [Task("poll", "poll", on_finish={"again": ["poll"]})]), "--root-jobs")
    assert [end(play, outcome=completed("again")) for _ in range(3)] == [["poll"]] * 3
    assert end(play) == []
    assert len(play.items) == 4


def test_a_refused_task_has_failed_and_the_rest_continues() -> None:
    def build(_: GraphManager) -> Iterable[BaseTask]:
        unknown = SpiderTask("unknown", "nobody", on_finish={"refused": ["last"]})
        invalid = SpiderTask("invalid", "shop", depth=None)
        unknown.add_next_task(Task("last", "last"))
        return unknown, invalid, Task("other", "other")

    class Hooked(graph(build)):  # type: ignore[misc]
        def bad_outcome_hook(self, task_id: str, jobid: str | None, outcome: str) -> None:
            self.stats.inc_value(f"bad/{task_id}/{outcome}")

    play = play_of(Hooked, "--root-jobs", refuses={"nobody": "no such crawler"})
    assert running(play) == ["other", "last"]
    assert play.until_closed() == "finished_with_failures"
    assert {name for name in play.stats if name.startswith("bad")} == {"bad/unknown/refused", "bad/invalid/refused"}


# resources, times and numbers

FOO, BAR = Resource("foo"), Resource("bar")


def _needing(*needs: tuple[str, list[dict[Resource, int]]], in_parts: str = "") -> list[BaseTask]:
    """Return tasks with their alternatives of resources. `in_parts`: the tasks with four parts."""
    tasks = []
    for name, alternatives in needs:
        command = f"command{name}"
        tasks.append(Task(f"job{name}", four(command) if name in in_parts else command))
        for resources in alternatives:
            tasks[-1].add_required_resources(resources)
    return list(tasks)


def test_tasks_share_a_resource() -> None:
    play = play_of(
        graph(lambda _: _needing(("A", [{FOO: 1}]), ("B", [{FOO: 1}]))), "--root-jobs"
    )  # one for the most demanding task
    assert running(play) == ["commandA"]
    assert end(play) == ["commandB"]


def test_a_task_takes_the_alternative_that_is_free() -> None:
    needs = (("A", [{FOO: 1}]), ("B", [{FOO: 1}]), ("C", [{FOO: 1}, {BAR: 1}]), ("D", [{BAR: 1}]))
    play = play_of(graph(lambda _: _needing(*needs)), "--root-jobs")
    assert running(play) == ["commandA", "commandC"]
    assert end(play, "commandC") == ["commandD"]
    assert end(play, "commandD") == []
    assert end(play) == ["commandB"]


def test_parts_share_the_resources_of_their_task() -> None:
    play = play_of(graph(lambda _: _needing(("A", [{FOO: 1}]), ("B", [{FOO: 1}]), in_parts="A")), "--root-jobs")
    assert running(play) == parts("commandA")
    assert end(play, *parts("commandA", of=range(3))) == []
    assert end(play) == ["commandB"]


@pytest.mark.parametrize(
    ("of_c", "after_a", "after_b"),
    [
        ([{FOO: 1, BAR: 1}], [], parts("commandC")),
        ([{FOO: 1}, {BAR: 1}], parts("commandC"), []),
    ],
)
def test_parts_need_several_resources_or_alternatives(
    of_c: list[dict[Resource, int]], after_a: list[str], after_b: list[str]
) -> None:
    needs = (("A", [{FOO: 1}]), ("B", [{FOO: 1}, {BAR: 1}]), ("C", of_c))
    play = play_of(graph(lambda _: _needing(*needs, in_parts="AC")), "--root-jobs")
    assert running(play) == [*parts("commandA"), "commandB"]
    assert end(play, "commandA") == after_a
    assert end(play, "commandB") == after_b


def test_parts_of_two_tasks_share_a_resource_part_by_part() -> None:
    manager = graph(lambda _: _needing(("A", [{FOO: 1}]), ("C", [{FOO: 1}]), in_parts="AC"))
    play = play_of(manager, "--root-jobs", "--max-running-jobs=3")
    assert running(play) == parts("commandA", of=range(3))
    assert end(play) == [*parts("commandA", of=[3]), *parts("commandC", of=range(2))]
    assert end(play) == parts("commandC", of=range(2, 4))


def test_a_retry_takes_its_resources_again() -> None:
    play = play_of(graph(lambda _: _needing(("A", [{FOO: 1}]), ("B", [{FOO: 1}]))), "--root-jobs")
    assert end(play, outcome="failed") == ["commandA"]
    assert end(play) == ["commandB"]


def test_no_more_jobs_than_allowed_run_at_once() -> None:
    manager = graph(lambda _: [Task("jobA", four("commandA")), Task("jobB", "commandB")])
    play = play_of(manager, "--root-jobs", "--max-running-jobs=2")
    assert [running(play), end(play), end(play)] == [
        parts("commandA", of=range(2)),
        parts("commandA", of=range(2, 4)),
        ["commandB"],
    ]
    assert end(play) == []
    assert play.close_reason == "finished"


def test_only_the_starting_jobs_run() -> None:
    play = play_of(First, "--root-jobs", "--only-starting-jobs")
    assert end(play) == []
    assert (play.close_reason, len(play.started)) == ("finished", 2)


@pytest.mark.long
def test_a_task_waits_for_its_time_before_its_first_try() -> None:
    def build(_: GraphManager) -> Iterable[BaseTask]:
        a, b = Task("jobA", four("commandA"), wait_time=3600), Task("jobB", "commandB")
        b.add_wait_for(a)
        return a, b

    play = play_of(graph(build), "--root-jobs")
    assert play.slept == [60]
    play.skip(minutes=59)
    assert play.started == []
    play.skip(minutes=2)
    assert running(play) == parts("commandA")
    assert end(play, *parts("commandA", of=[0]), outcome="failed") == parts("commandA", of=[0])
    assert end(play) == ["commandB"]


# jobs


def test_spiders_have_arguments_settings_and_units() -> None:
    def build(_: GraphManager) -> Iterable[BaseTask]:
        spider = SpiderTask("crawl", "shop", ["tag1"], 1.5, job_settings={"DEPTH": 2}, shop="alfa", pages=3)
        spider.add_next_task(Task("report", "py:report.py --all", project_id=1999))
        return (spider,)

    play = play_of(graph(build), "--root-jobs", "--spider-args", '{"run": 7}')
    job = play.running[0]
    assert (job.spider, job.memory_factor, dict(job.settings)) == ("shop", 1.5, {"DEPTH": "2"})
    assert dict(job.arguments) == {"shop": "alfa", "pages": "3", "run": "7"}
    end(play)
    assert (play.running[0].spider, play.running[0].labels) == ("py:report.py", ("project:1999",))


def test_words_of_a_command_keep_their_blanks() -> None:
    command = '{% for i in range(2) %}commandB --config=\'{"topic": {{ i }}, "file": "dump {{ i }}"}\'\n{% endfor %}'
    task = Task("jobB", command, ["argB"])
    assert [json.loads(task.get_command(index)[1].removeprefix("--config=")) for index in range(2)] == [
        {"topic": 0, "file": "dump 0"},
        {"topic": 1, "file": "dump 1"},
    ]
    arguments = task.job_params(index=1)["spider_args"]
    assert arguments == {"cmd_args": """'--config={"topic": 1, "file": "dump 1"}' argB"""}


@pytest.mark.parametrize("arguments", [(), ("--flow-id=given",)])
def test_tags_of_tasks(arguments: tuple[str, ...]) -> None:
    class Tagged(Third):
        def on_start(self, resumed: bool = False) -> None:
            self.append_flow_tag("EXEC_ID=mine")

    play = play_of(Tagged, "-s", "jobA", "--children-tag=tag3", "-t", "tag4", *arguments)
    common = ["EXEC_ID=mine", "FLOW_ID=play", "PARENT_NAME=test"]
    assert [list(job.tags) for job in play.running] == [
        [*common, f"TASK_ID=jobA.{part}", "tag1", "tag2", "tag3", "tag4"] for part in range(4)
    ]


def test_tasks_are_added_before_their_turn() -> None:
    class Late(Graph):
        calls = 0

        def configure_workflow(self) -> Iterable[BaseTask]:
            a, b = Task("jobA", "commandA"), Task("jobB", "commandB")
            a.add_next_task(b)

            def add_c(manager: Any, is_retry: bool) -> None:
                manager.get_task("jobB").add_next_task(Task("jobC", "commandC"))
                assert not is_retry
                self.calls += 1

            b.set_start_callback(add_c)
            return (a,)

        def on_start(self, resumed: bool = False) -> None:
            self.get_task("jobA").add_next_task(Task("jobX", "commandX"))

    play = play_of(Late, "--root-jobs")
    manager: Any = play.manager
    assert (manager.calls, running(play)) == (0, ["commandA"])
    with pytest.raises(BadInput, match="has had its turn"):
        manager.get_task("jobA").add_next_task(Task("jobY", "commandY"))
    assert end(play) == ["commandB", "commandX"]
    assert end(play, "commandB", outcome="failed") == ["commandB"]
    play.replace()
    assert end(play, "commandB") == ["commandC"]
    successor: Any = play.manager
    assert (manager.calls, successor.calls) == (1, 1)
    assert play.until_closed() == "finished"


def test_tasks_and_the_manager_know_their_jobs() -> None:
    play = play_of(First, "--root-jobs")
    keys = [job.key for job in play.running]
    assert end(play, "commandA", outcome="failed") == ["commandA argA"]
    again = play.running[0].key
    for _ in range(2):
        manager: Any = play.manager
        assert manager.get_task("jobA").get_scheduled_jobs() == [keys[0], again]
        assert manager.get_running_jobid("jobB") == keys[1]
        assert {manager.get_job_taskid(job) for job in manager.get_owned_jobs(state=["running"])} == {"jobA", "jobB"}
        end(play, "commandA") if manager.pending_jobs else play.replace()
        play.cycle()


# deaths and people


@pytest.mark.sequences
def test_a_graph_is_crash_safe() -> None:
    def script(play: ManagerPlay) -> None:
        play.cycle()
        for job in play.running:
            play.end(job.number, "failed" if job.number == 2 else "finished")
        play.until_closed()

    assert assert_crash_safe(Second, script, arguments=("--root-jobs",), every=5) > 10


def test_people_try_a_failed_task_again_and_the_graph_continues() -> None:
    play = play_of(First, "--root-jobs")
    end(play, "commandB")
    end(play, outcome="failed")
    end(play, outcome="failed")
    assert play.close_reason == "finished_with_failures"
    retry_items(play)
    play.cycle()
    assert running(play) == ["commandA argA"]
    assert end(play) == ["commandC argC"]
    assert play.until_closed() == "finished"


def test_a_stopped_graph_continues_after_a_retry() -> None:
    play = play_of(First, "--root-jobs")
    play.stop()
    play.cycle()
    end(play, outcome="cancelled")
    assert play.close_reason == "cancelled"
    retry_items(play)
    play.cycle()
    assert sorted(running(play)) == ["commandA argA --optionA", "commandB argB --optionB"]
    assert play.until_closed() == "finished"
    assert len(play.started) == 6


def test_a_paused_graph_starts_nothing_and_resumes() -> None:
    play = play_of(First, "--root-jobs")
    play.pause()
    assert end(play, "commandB") == []
    assert end(play) == []
    play.resume()
    assert play.until_closed() == "finished"


# the command line and the check


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        (("--starting-job=jobA", "--starting-job=jobN"), "there is no task 'jobN', but jobA, jobB, jobC, jobD"),
        (("--root-jobs", "--skip-job=jobN"), "there is no task 'jobN'"),
        ((), "expected either --starting-job or --root-jobs"),
        (("-s", "jobA", "--root-jobs"), "expected only one of --starting-job or --root-jobs"),
        (("--root-jobs", "--jobs-graph={}"), "the graph comes from configure_workflow alone"),
    ],
)
def test_a_wrong_command_line_is_refused(arguments: tuple[str, ...], problem: str) -> None:
    with pytest.raises(BadInput, match=problem), command_line(arguments):
        First()


def test_wrong_graphs_are_refused() -> None:
    def twice(_: GraphManager) -> Iterable[BaseTask]:
        a, b, c = (Task(f"job{name}", "command") for name in "ABC")
        a.add_next_task(c)
        b.add_next_task(c)
        return a, b

    with command_line(("--root-jobs", "--comment=second")):
        lost = Task("jobA", "command", on_finish={"banned": ["alert"]})
        graphs: list[tuple[Any, str]] = [(twice, "has 'jobC' twice"), (lambda _: (), "returns no task")]
        for build, problem in [*graphs, (lambda _: [lost], "not in the graph: alert")]:
            with pytest.raises(BadInput, match=problem):
                graph(build)()
        with pytest.raises(NotImplementedError):
            Graph()
    for make, problem in (
        (lambda: Task("retry", "x"), "other than 'retry'"),
        (lambda: Task("a.b", "x"), "without a dot"),
        (lambda: Task("a", " "), "no command"),
        (lambda: type("Own", (Task,), {"run": None}), "define job_params"),
    ):
        with pytest.raises(BadInput, match=problem):
            make()


def test_a_single_cycle_is_refused() -> None:
    class Once(First):
        loop_mode = 0

    with pytest.raises(BadInput, match="seconds between its cycles"):
        play_of(Once, "--root-jobs")


def test_a_check_shows_the_jobs_of_all_tasks() -> None:
    def build(_: GraphManager) -> Iterable[BaseTask]:
        spider = SpiderTask("crawl", "shop", depth=None)
        spider.add_next_task(Task("report", "report.py\nreport.py --all"))
        return (spider,)

    with command_line(("--root-jobs",)):
        seen = preview(graph(build)(), first=10, most=100)
    assert (seen.read, seen.new, seen.crawlers) == (3, 2, ["py:report.py"])
    assert [job.problem for job in seen.refused] == [
        "spider_args.depth: expected a text, a number, a list or a dict, not None: leave the name out"
    ]
