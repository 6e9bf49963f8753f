from typing import Any

import pytest

from crawler_lifecycle.flows import TaskReceipt, Workflow, crawl, each_task
from crawler_lifecycle.flows.authors.running import Context
from crawler_lifecycle.flows.model.definition import MemberDefinition, Need
from crawler_lifecycle.flows.ports.steps import BegunStep
from crawler_lifecycle.flows.rules.messages import AttemptRef
from crawler_lifecycle.hosts.calling import job_of, prepared
from crawler_lifecycle.testing import completed, run_inline

pytestmark = pytest.mark.regression(
    "A function for a crawl's tasks got a dict if its first parameter had no annotation: `task.task` failed"
)


def bare(task, context):  # type: ignore[no-untyped-def]
    return [type(task).__name__, task.task]


def as_dict(task: dict[str, Any], context: Context) -> int:
    return int(task["task"])


def test_a_play_gives_a_receipt() -> None:
    workflow = Workflow().add("shop", crawl("books", tasks=2)).add_cascade("each", each_task("shop", bare))
    result = run_inline(workflow, crawls={"shop": completed(tasks=2)}).assert_completed()
    assert result.recorded("each") == {"0": ["TaskReceipt", 0], "1": ["TaskReceipt", 1]}


def test_a_host_gives_a_receipt() -> None:
    workflow = Workflow().add("shop", crawl("books")).add_cascade("each", each_task("shop", bare))
    (group,) = workflow.definition().groups
    assert group.template is not None
    item = TaskReceipt(crawl="shop", task=1, run_id=1, run_uid="u").model_dump(mode="json")
    step = BegunStep(
        start=AttemptRef(number=2, generation=1, attempt=1),
        path="each/1",
        definition=MemberDefinition(path="each/1", work=group.template, needs=(Need(on=("shop",), task=1),)),
        arguments=item,
        flow_id="w",
        flow_name=None,
        flow_uid="u",
        is_grafter=False,
        deaths=0,
    )
    context = Context({}, job_of(step))
    assert prepared(bare, step, context)() == ["TaskReceipt", 1]
    assert prepared(as_dict, step, context)() == 1, "an annotation decides"
