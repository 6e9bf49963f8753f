"""Show runs in Temporal's own lists and pages, by search attributes and by current details."""

from temporalio import workflow
from temporalio.common import SearchAttributeKey

from crawler_lifecycle.base.words import counted
from crawler_lifecycle.model.lifecycle import LifecycleState
from crawler_lifecycle.model.run_plan import RunPlan
from crawler_lifecycle.model.states import RunStatus

CRAWLER_NAME = SearchAttributeKey.for_keyword("CrawlerName")
CRAWL_RUN_ID = SearchAttributeKey.for_int("CrawlRunId")
CRAWL_RUN_STATUS = SearchAttributeKey.for_keyword("CrawlRunStatus")
CRAWL_TRIGGER = SearchAttributeKey.for_keyword("CrawlTrigger")
CRAWL_SATURATED = SearchAttributeKey.for_keyword("CrawlSaturated")  # cause; unset while the run is not saturated
FLOW_ID = SearchAttributeKey.for_keyword("FlowId")
FLOW_STATE = SearchAttributeKey.for_keyword("FlowState")
SEARCH_ATTRIBUTES = (
    CRAWLER_NAME,
    CRAWL_RUN_ID,
    CRAWL_RUN_STATUS,
    CRAWL_TRIGGER,
    CRAWL_SATURATED,
    FLOW_ID,
    FLOW_STATE,
)


def set_search_attributes(plan: RunPlan, status: RunStatus) -> None:
    """Set the search attributes if the server has them: unknown attributes would fail the workflow task forever."""
    if not plan.search_attributes:
        return
    workflow.upsert_search_attributes(
        [
            CRAWLER_NAME.value_set(plan.crawler),
            CRAWL_RUN_ID.value_set(plan.run.run_id),
            CRAWL_RUN_STATUS.value_set(status),
            CRAWL_TRIGGER.value_set(plan.trigger),
        ]
    )


def set_saturated_attribute(plan: RunPlan, cause: str | None) -> None:
    """Show the cause while the run is saturated; None: the run is not saturated."""
    if plan.search_attributes:
        attribute = CRAWL_SATURATED.value_unset() if cause is None else CRAWL_SATURATED.value_set(cause)
        workflow.upsert_search_attributes([attribute])


def show_details(state: LifecycleState) -> None:
    """Show the state on the workflow's page."""
    lines = [f"**{state.stage}**: {state.waiting_for}"]
    if state.run_id is not None:
        lines.append(f"run {state.run_id} ({state.run_uid})")
    if state.alive is not None:
        lines.append(f"{counted(state.alive, 'task')} alive after {state.looks} looks")
    if state.next_look_at is not None:
        lines.append(f"next look at {state.next_look_at:%Y-%m-%dT%H:%M:%SZ} at the latest")
    workflow.set_current_details("\n\n".join(lines))
