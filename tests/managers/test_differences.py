"""What a class takes from shub-workflow in vain, as `crawlctl flow check` names it."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from crawler_lifecycle.errors import BadInput
from crawler_lifecycle.managers import (
    AsyncSchedulerCrawlManagerMixin,
    CachedFinishedJobsMixin,
    GeneratorCrawlManager,
    GraphManager,
    JobParams,
)
from crawler_lifecycle.managers.authors.arguments import command_line
from crawler_lifecycle.managers.authors.preview import (
    ATTRIBUTES,
    CALLED_IN_VAIN,
    MEMBERS,
    NEVER_CALLED,
    differences,
    preview,
)
from crawler_lifecycle.managers.authors.requesting import request_of
from crawler_lifecycle.managers.authors.workflow_manager import WorkFlowManager
from tests.managers.reference import at_once, crawlmanager, input_files


class Old(GeneratorCrawlManager):
    name = "old"
    spider = "books"
    loop_mode = 60
    stats_interval = 30

    def __init__(self) -> None:
        super().__init__()
        self.project_settings: dict[str, Any] = {}

    def set_parameters_gen(self) -> Iterator[Any]:
        settings = self.get_sc_project_settings()  # type: ignore[attr-defined]
        yield {"key": self.project_settings["key"], **settings}

    def upload_stats(self) -> None:
        super().upload_stats()

    def is_running(self, key: str) -> bool:
        return super().is_running(key)

    def on_close(self) -> None:
        list(self.get_owned_jobs(state=["finished"], meta=["tags"], colour="red"))
        self.add_job("books", override={})  # type: ignore[call-arg]
        self.add_job("books", job_args_override={})


def in_vain(manager: type[WorkFlowManager]) -> list[str]:
    with command_line(()):
        return differences(manager())


def test_each_member_that_is_used_in_vain_is_named_with_its_place() -> None:
    named = {text.partition(": ")[2]: text.partition(": ")[0] for text in in_vain(Old)}
    assert set(named) == {
        "stats_interval has no effect: stats are stored with each reaction",
        f"self.get_sc_project_settings is not there: {MEMBERS['get_sc_project_settings']}",
        "an own upload_stats is never called: stats are stored with each reaction",
        f"an own is_running is never called: {NEVER_CALLED['is_running']}",
        "get_owned_jobs ignores meta: each job has all fields",
        "get_owned_jobs takes no argument colour",
        "add_job takes no argument override",
    }
    line = Old.set_parameters_gen.__code__.co_firstlineno + 1
    assert named[f"self.get_sc_project_settings is not there: {MEMBERS['get_sc_project_settings']}"] == (
        f"{__file__}, line {line}"
    )


@pytest.mark.parametrize("manager", [crawlmanager.CrawlManager, at_once.CrawlManager, input_files.CrawlManager])
def test_the_reference_examples_have_no_difference(manager: type[WorkFlowManager]) -> None:
    assert in_vain(manager) == []


# names by what they are for, as recorded from shub-workflow 1.14
RECORDED = {
    "command line": "PROGRAMS add_argparser_options argparser args description parse_args",
    "project": "default_project_id get_project parse_project_id project_id project_required _own_project_id",
    "settings and spiders": "client get_sc_project_settings project_settings spider_loader _pseudo_crawler"
    " get_canonical_spidername get_project_running_spiders",
    "flow and tags": "name flow_id flow_id_required generate_flow_id set_flow_id_name _get_flowid_name_from_tags"
    " append_flow_tag add_job_tags async_add_job_tags remove_job_tags get_job_tags get_keyvalue_job_tag children_tags"
    " _make_children_tags",
    "jobs": "get_own_jobkey_from_env get_job get_job_metadata get_metadata_key _list_metadata _update_metadata get_jobs"
    " get_jobs_with_tags get_owned_jobs get_finished_owned_jobs update_finished_cache is_running is_finished finish"
    " wait_for get_running_jobs _running_job_keys",
    "starts": "schedule_script schedule_spider async_schedule_spider _schedule_job _async_schedule_job"
    " handle_schedule_error handle_schedule_duplicate_error schedule_spider_with_jobargs get_job_settings spider",
    "files and stats": "fshelper init_fshelper stats print_stats upload_stats maybe_upload_stats stats_interval"
    " aggregate_spider_stats target_spider_stats stats_only_total",
    "loop": "run loop_mode max_running_time is_max_time_ran_out on_start on_close is_closed close_reason"
    " get_close_reason set_close_reason base_loop_tasks workflow_loop workflow_loop_enabled _on_start _close _run_loops"
    " _async_run_loops",
    "resume": "is_resumed _is_resumed _check_resume_workflow resume_workflow resume_running_job_hook"
    " resume_finished_job_hook acquire_all_jobs dont_acquire_finished_jobs",
    "ends": "base_failed_outcomes failed_outcomes check_running_jobs running_jobs_reverse_check running_job_hook"
    " finished_metadata_hook finished_ok_hook bad_outcome_hook MAX_RETRIES get_retry_override",
    "generator": "set_parameters_gen add_job add_delayed_jobs get_delayed_jobs get_delayed_spiders spider_delayed_count"
    " get_running_spiders spider_running_count can_schedule_job_with_params create_dupe_filter get_job_unique_id"
    " get_max_next_params max_running_jobs default_max_jobs _jobuids _workflow_step_gen _async_workflow_step_gen"
    " _fulljobparams_from_spiderargs",
    "graph": "configure_workflow get_task pending_jobs get_running_jobid get_job_taskid jobs_graph get_jobdict run_job"
    " run_pending_jobs handle_retry",
}
NAMES = {name for names in RECORDED.values() for name in names.split()}
OURS_AS_WELL = {"_get_metadata_key"}  # of earlier versions


def test_each_recorded_member_is_here_or_is_named() -> None:
    class Everything(AsyncSchedulerCrawlManagerMixin, CachedFinishedJobsMixin, GeneratorCrawlManager):
        name, spider = "everything", "books"

    with command_line(()):
        manager = Everything()
    members = {*dir(Everything), *vars(manager), *dir(GraphManager)}
    assert NAMES - members - MEMBERS.keys() - ATTRIBUTES.keys() == set()
    assert MEMBERS.keys() & members == set()
    assert {*MEMBERS, *ATTRIBUTES, *NEVER_CALLED, *CALLED_IN_VAIN} - NAMES == OURS_AS_WELL


def test_members_of_the_engine_and_calls_without_effect_are_named() -> None:
    class Deep(GeneratorCrawlManager):
        name, spider = "deep", "books"

        def handle_schedule_duplicate_error(self, **schedule_kwargs: Any) -> None:
            """Count repeats."""

        def get_project(self, project_id: int | str | None = None) -> Any:
            return super().get_project(project_id)

        def _workflow_step_gen(self, max_next_params: int) -> Any:
            return iter(())

        def finished_ok_hook(self, spider: str, outcome: str, job_args_override: JobParams, jobkey: str) -> None:
            self.upload_stats()
            self.maybe_upload_stats()
            self.update_finished_cache()  # type: ignore[attr-defined]
            len(self._jobuids)  # type: ignore[attr-defined]

    assert {text.partition(": ")[2] for text in in_vain(Deep)} == {
        *(
            f"an own {name} is never called: {NEVER_CALLED[name]}"
            for name in ("handle_schedule_duplicate_error", "get_project")
        ),
        f"an own _workflow_step_gen is never called: {MEMBERS['_workflow_step_gen']}",
        *(f"self.{name} {why}" for name, why in CALLED_IN_VAIN.items()),
        f"self._jobuids is not there: {MEMBERS['_jobuids']}",
    }


def test_members_that_are_never_called_are_here() -> None:
    members = {*dir(WorkFlowManager), *dir(CachedFinishedJobsMixin)}
    assert members >= NEVER_CALLED.keys()


def test_the_limits_are_in_the_words_of_the_author() -> None:
    class Large(Old):
        def set_parameters_gen(self) -> Iterator[Any]:
            yield {"url": "x" * 5000}
            yield {"units": 99}
            yield {"tags": ["short", "t" * 200]}
            yield {"job_settings": {"DELAY": None}}

    with command_line(()):
        result = preview(Large(), first=10, most=10)
    assert [job.problem for job in result.refused] == [
        "spider_args.url: expected at most 4096 characters",
        "units: expected at most 16.0, not 99.0; units multiply the memory in the catalogue",
        f"tags: '{'t' * 100}': expected at most 128 characters",
        "job_settings.DELAY: expected a text, a number, a list or a dict, not None: leave the name out",
    ]
    assert any("get_sc_project_settings" in difference for difference in result.differences)


def arguments(number: int, length: int = 1) -> dict[str, str]:
    return {f"name-{n}": "x" * length for n in range(number)}


@pytest.mark.parametrize(
    ("allowed", "refused", "limit"),
    [
        ({"spider_args": {"url": "x" * 4096}}, {"spider_args": {"url": "x" * 4097}}, "4,096 characters"),
        ({"job_settings": {"A": "x" * 4096}}, {"job_settings": {"A": "x" * 4097}}, "4,096 characters"),
        ({"spider_args": arguments(100)}, {"spider_args": arguments(101)}, "100 each"),
        ({"spider_args": {"n" * 128: "x"}}, {"spider_args": {"n" * 129: "x"}}, "of 128 characters"),
        ({"spider_args": arguments(15, 4096)}, {"spider_args": arguments(17, 4096)}, "65,536 bytes"),
        ({"job_settings": {"A": 1}}, {"job_settings": {"A": None}}, "leave the name out"),
        ({"units": 16}, {"units": 16.5}, "16, above 0"),
        ({"units": 0.5}, {"units": -1}, "16, above 0"),
        ({"tags": sorted(arguments(100))}, {"tags": sorted(arguments(101))}, "100, of 128 characters"),
        ({"tags": ["t" * 128]}, {"tags": ["t" * 129]}, "100, of 128 characters"),
        ({"labels": [f"a:{n}" for n in range(20)]}, {"labels": [f"a:{n}" for n in range(21)]}, "| 20 |"),
        ({"priority": -100}, {"priority": 101}, "-100 to 100"),
    ],
)
def test_the_limits_of_the_page_hold(allowed: Any, refused: Any, limit: str) -> None:
    page = (Path(__file__).parents[2] / "docs" / "howto" / "managers.md").read_text()
    assert limit in page.partition("## Limits")[2].partition("\n## ")[0]
    spider: Any = {"spider": "books"}
    request_of(spider | allowed, ())
    (field,) = refused
    with pytest.raises(BadInput, match=field):
        request_of(spider | refused, ())
