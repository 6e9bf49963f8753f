from collections.abc import Mapping
from typing import Any, cast

import pytest
from temporalio.testing import ActivityEnvironment
from temporalio.worker import ActivityInboundInterceptor, ActivityOutboundInterceptor, ExecuteActivityInput

from crawler_lifecycle import logs
from crawler_lifecycle.model.run_plan import RunInput, RunRef
from crawler_lifecycle.runs.model import TakeOver
from crawler_lifecycle.temporal.boundary import Boundary

pytestmark = pytest.mark.regression(
    "What a worker logged while it took a run over, or handed it on, did not say of which run"
)


class Server(ActivityOutboundInterceptor):
    def __init__(self) -> None: ...

    def heartbeat(self, *details: Any) -> None: ...


class Step(ActivityInboundInterceptor):
    """Answers what a line that it writes would carry."""

    def __init__(self) -> None: ...

    def init(self, outbound: ActivityOutboundInterceptor) -> None: ...

    async def execute_activity(self, input: ExecuteActivityInput) -> Mapping[str, object]:  # noqa: A002 (the SDK's name)
        return logs._about.get()


async def ids_of(*args: object) -> Mapping[str, object]:
    interceptor = Boundary().intercept_activity(Step())
    interceptor.init(Server())
    given = ExecuteActivityInput(fn=ids_of, args=args, executor=None, headers={})
    done: Mapping[str, object] = await cast("Any", ActivityEnvironment().run(interceptor.execute_activity, given))
    return done


async def test_a_line_names_its_run_wherever_the_step_has_it() -> None:
    by_reference = RunInput(run=RunRef(run_id=7, run_uid="u", epoch=1))
    by_number = TakeOver(run_id=8, crawler="books", workflow_id="w", temporal_run_id="t")
    assert (await ids_of(by_reference))["run_id"] == 7
    assert (await ids_of(by_number))["run_id"] == 8
    assert "run_id" not in await ids_of()
