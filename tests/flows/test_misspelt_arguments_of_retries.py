import pytest

from crawler_lifecycle.assembly.store import SqlStore
from crawler_lifecycle.errors import BadInput
from crawler_lifecycle.flows import Workflow
from crawler_lifecycle.flows.model.requests import PushFlow
from crawler_lifecycle.testing import MemoryFlows, Play, Scenario
from tests.client.conftest import Hand
from tests.kit.authors.work import greet
from tests.kit.service.commands import Crawlctl

pytestmark = pytest.mark.regression(
    "A misspelt argument of a retry stayed with the job for good: all later attempts failed, and no door removed it"
)


def test_an_argument_is_removed(stored: SqlStore, crawlctl: Crawlctl) -> None:
    workflow = Workflow(id="w").add("greet", greet.job.with_kwargs(name="ann"))
    stored.flow_doors.push(PushFlow(definition=workflow.definition()))
    flow = Hand(stored, "w", stored.flow_records.uid_of("w"))
    flow.cancel()
    assert crawlctl("flow", "retry", "w", "greet", "--arg", "nmae=3").exit_code == 0
    flow.cancel()
    refused = crawlctl("flow", "retry", "w", "greet", "--no-arg", "nothing")
    assert refused.exit_code == 2
    assert "'greet' has no argument 'nothing'; it has 'name', 'nmae'" in refused.stderr
    assert crawlctl("flow", "retry", "w", "greet", "--no-arg", "nmae", "--actor", "ann").exit_code == 0
    line = crawlctl("flow", "show", "w").stdout.splitlines()[-1]
    assert line.endswith("retried by ann (token embedded): 1 job; arguments of greet: nmae 3 -> unset")


def test_a_play_goes_on_without_the_argument() -> None:
    play = Play(Workflow().add("greet", greet.job.with_kwargs(name="ann")), Scenario())
    assert play.run() == "completed"
    play.retry("greet", completed=True, arguments={"nmae": 3})
    assert play.run() == "discarded"
    play.retry("greet", removed_arguments=("nmae",))
    assert play.run() == "completed"
    with pytest.raises(BadInput, match="no argument 'nmae'"):
        play.retry("greet", completed=True, removed_arguments=("nmae",))


async def test_the_client_removes_an_argument() -> None:
    async with MemoryFlows.open() as flows:
        workflow = Workflow(id="w").add("greet", greet.job.with_kwargs(name="ann"))
        await flows.wait(await flows.push(workflow))
        await workflow.retry_jobs(names="greet", completed=True, removed_arguments=["name"])
        await flows.wait("w")
        assert await workflow.get_recorded("greet") == "hello nobody"
