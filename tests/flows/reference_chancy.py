"""The examples of Chancy's page on workflows. Only the imports and the constructions of the client are other ones."""

from crawler_lifecycle.client import WorkflowPlugin
from crawler_lifecycle.flows import Sequence, Workflow, job
from crawler_lifecycle.testing import MemoryFlows


@job()
async def top():
    print(f"Top")


@job()
async def left():
    print(f"Left")


@job()
async def right():
    print(f"Right")


@job()
async def bottom():
    print(f"Bottom")


async def a1_main():
    async with MemoryFlows.open() as chancy:
        workflow = (
            Workflow("example")
            .add(top, "top")
            .add(left, "left", ["top"])
            .add(right, "right", ["top"])
            .add(bottom, "bottom", ["left", "right"])
        )
        await WorkflowPlugin.push(chancy, workflow)
        return workflow


job1, job2, job_1, job_2, job_3, setup_job = top, left, top, left, right, bottom


async def a2_wait(chancy):
    workflow = Workflow("example")
    workflow.add("step1", job1)
    workflow.add("step2", job2, ["step1"])

    workflow_id = await WorkflowPlugin.push(chancy, workflow)
    completed_workflow = await WorkflowPlugin.wait_for_workflow(
        chancy,
        workflow_id,
        timeout=300,  # 5 minute timeout
    )
    return completed_workflow


def a3_add(workflow, job):
    workflow.add("step_1", job)
    workflow.add("step_2", job, ["step_1"])


def a3_add_group():
    workflow = Workflow("my_workflow")
    workflow.add("setup", setup_job)
    workflow.add_group([
        ("step_1", job_1),
        ("step_2", job_2),
        ("step_3", job_3),
    ], ["setup"])  # fmt: skip
    return workflow


@job()
async def first():
    print("First")


@job()
async def second():
    print("Second")


@job()
async def third():
    print("Third")


async def a4_main():
    async with MemoryFlows.open() as chancy:
        sequence = Sequence("example_workflow", [first, second, third])
        return await sequence.push(chancy)


def a5_chain():
    workflow = (
        Sequence("example_sequence")
        .add(first)
        .add(second)
        .add(third)
    )  # fmt: skip
    return workflow
