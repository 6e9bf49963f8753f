from datetime import timedelta

import pytest
from temporalio.exceptions import ApplicationError, ApplicationErrorCategory

from crawler_lifecycle.database.database import Database
from crawler_lifecycle.flows import StepJob, Workflow
from crawler_lifecycle.flows.activities.steps import StepActivities, TryAgain
from crawler_lifecycle.flows.model.definition import CallForm
from crawler_lifecycle.flows.rules.messages import RunSteps, StepsEnded
from tests.hosts.supervised import MODULE, hosted

pytestmark = pytest.mark.regression(
    "A step without a function in its module filled the host's log: a traceback of 20 lines every ten seconds"
)


@pytest.mark.long
async def test_the_problem_of_a_flow_is_logged_once(database: Database, caplog: pytest.LogCaptureFixture) -> None:
    async with hosted(database) as host:
        for name in ("gone", "away"):
            flow = await host.push(
                Workflow(name).add("step", StepJob(function=f"{MODULE}:{name}", form=CallForm.CONTEXT))
            )
            steps = await host.starting(flow)
            for _ in range(3):
                with pytest.raises(TryAgain):
                    await host.host.run(steps)
    lines = [record.getMessage() for record in caplog.records if "waits:" in record.getMessage()]
    assert [line.partition("waits: ")[2] for line in lines] == [
        f"{MODULE} has no function {name} at its top level" for name in ("gone", "away")
    ]


class Busy:
    """A host that never runs a step."""

    async def run(self, step: RunSteps) -> StepsEnded:
        raise TryAgain(f"{step.flow_id} has to wait", timedelta(seconds=1), cause="Busy")


async def test_the_sdk_logs_no_traceback_of_a_further_try(database: Database) -> None:
    async with hosted(database) as host:
        flow = await host.push(Workflow("busy").add("step", StepJob(function=f"{MODULE}:nothing")))
        steps = await host.starting(flow)
        with pytest.raises(ApplicationError) as failure:
            await StepActivities(Busy()).run_steps(steps)
    assert failure.value.category is ApplicationErrorCategory.BENIGN
    assert failure.value.next_retry_delay == timedelta(seconds=1)
