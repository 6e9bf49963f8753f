"""The examples of Oban's page on workflows. Only the imports are other ones, and the client is the innermost open one.

Each function has the code of one example; names that the page leaves open are defined below.
"""

from datetime import datetime
from typing import Any

from crawler_lifecycle.client import flows as oban
from crawler_lifecycle.flows import Workflow, worker

ENDED: list[str] = []
SEEN: dict[str, Any] = {}


@worker()
class StepWorker:
    async def process(self, job):
        print(f"Executing: {job.meta['name']}")


@worker()
class Worker:
    async def process(self, job):
        ENDED.append(job.meta["name"])
        return job.args or None


@worker()
class SetupWorker(Worker):
    pass


@worker()
class ProcessWorker(Worker):
    pass


@worker()
class FinishWorker(Worker):
    pass


@worker()
class FetchWorker(Worker):
    pass


@worker()
class MergeWorker(Worker):
    pass


@worker()
class NotifyWorker(Worker):
    pass


@worker()
class SummaryWorker(Worker):
    pass


@worker()
class ExtractWorker(Worker):
    pass


@worker()
class TransformWorker(Worker):
    pass


@worker()
class PrepareWorker(Worker):
    pass


@worker()
class SendWorker(Worker):
    pass


@worker()
class CleanupWorker(Worker):
    pass


async def b1_basic_usage():
    workflow = (
        Workflow()
        .add("a", StepWorker.new({}))
        .add("b", StepWorker.new({}), deps="a")
        .add("c", StepWorker.new({}), deps="b")
        .add("d", StepWorker.new({}), deps="b")
        .add("e", StepWorker.new({}), deps=["c", "d"])
    )

    await oban.enqueue_many(workflow)
    return workflow


def b2_sequential():
    return (
        Workflow()
        .add("first", Worker.new({}))
        .add("second", Worker.new({}), deps="first")
        .add("third", Worker.new({}), deps="second")
    )


def b3_fan_out():
    return (
        Workflow()
        .add("parent", Worker.new({}))
        .add("child_1", Worker.new({}), deps="parent")
        .add("child_2", Worker.new({}), deps="parent")
        .add("child_3", Worker.new({}), deps="parent")
    )


def b4_fan_in():
    return (
        Workflow()
        .add("step_1", Worker.new({}))
        .add("step_2", Worker.new({}))
        .add("step_3", Worker.new({}))
        .add("final", Worker.new({}), deps=["step_1", "step_2", "step_3"])
    )


def b5_diamond():
    return (
        Workflow()
        .add("start", Worker.new({}))
        .add("left", Worker.new({}), deps="start")
        .add("right", Worker.new({}), deps="start")
        .add("end", Worker.new({}), deps=["left", "right"])
    )


async def b6_sub_workflows():
    # Create reusable sub-workflows
    extract_flow = (
        Workflow()
        .add("extract", ExtractWorker.new({"source": "database"}))
        .add("transform", TransformWorker.new({"type": "normalize"}), deps="extract")
    )

    notify_flow = (
        Workflow()
        .add("prepare", PrepareWorker.new({"template": "report"}))
        .add("send", SendWorker.new({"method": "email"}), deps="prepare")
    )

    # Compose into a main workflow
    workflow = (
        Workflow()
        .add("setup", SetupWorker.new({"mode": "initialize"}))
        .add_workflow("extract", extract_flow, deps="setup")
        .add_workflow("notify", notify_flow, deps="extract")
        .add("finalize", CleanupWorker.new({"mode": "cleanup"}), deps="notify")
    )

    await oban.enqueue_many(workflow)
    return workflow


def b7_numbered(items):
    # Fan-out with numbered jobs
    workflow = (
        Workflow()
        .add("setup", SetupWorker.new({}))
        .add_many("process", [ProcessWorker.new({"item": id}) for id in items], deps="setup")
        .add("finish", FinishWorker.new({}), deps="process")
    )
    return workflow


def b8_named():
    # Fan-out with named jobs
    workflow = (
        Workflow()
        .add_many("fetch", {
            "users": FetchWorker.new({"table": "users"}),
            "orders": FetchWorker.new({"table": "orders"}),
        })
        .add("merge", MergeWorker.new({}), deps="fetch")
    )  # fmt: skip
    return workflow


# cascades


async def fetch_data(source):
    return [1, 2, 3] if source == "api" else []


def process(rec):
    return rec * 10


async def save_to_database(records):
    SEEN["saved"] = records


async def extract(context):
    source = context["source"]
    return {"records": await fetch_data(source), "extracted_at": datetime.now()}


async def transform(context):
    records = context["extract"]["records"]
    return {"transformed": [process(rec) for rec in records]}


async def load(context):
    records = context["transform"]["transformed"]
    await save_to_database(records)
    return {"loaded": len(records)}


async def b9_cascade():
    workflow = (
        Workflow()
        .add_context({"source": "api", "batch_id": 123})
        .add_cascade("extract", extract)
        .add_cascade("transform", transform, deps="extract")
        .add_cascade("load", load, deps="transform")
    )

    await oban.enqueue_many(workflow)
    return workflow


def step_1_func(context):
    return sorted(context)


step_2_func = step_1_func


def b10_context():
    workflow = (
        Workflow()
        .add_context({"user_id": 123, "batch_size": 100, "environment": "production"})
        .add_cascade("step_1", step_1_func)
        .add_cascade("step_2", step_2_func, deps="step_1")
    )
    return workflow


async def process_user(user_id, context):
    batch_id = context["batch_id"]
    SEEN["batch_id"] = batch_id
    return {"user_id": user_id, "processed": True}


async def summarize(context):
    # Results from fan-out are indexed by id or dict key, context["0"], context["1"], etc.
    results = context["process"]
    return sum(1 for res in results.values() if res["processed"])


def b11_fan_out_cascade():
    user_ids = [1, 2, 3, 4, 5]

    workflow = (
        Workflow()
        .add_context({"batch_id": 456})
        .add_cascade("process", (user_ids, process_user))
        .add_cascade("summarize", summarize, deps="process")
    )
    return workflow


def fetch_from_source(source, context):
    return f"read {source}"


def merge_results(context):
    return [context["fetch"]["wiki"], context["fetch"]["docs"]]


def b12_fan_out_over_a_dict():
    sources = {"wiki": "https://...", "docs": "https://..."}

    workflow = (
        Workflow()
        .add_cascade("fetch", (sources, fetch_from_source))
        .add_cascade("merge", merge_results, deps="fetch")
    )  # fmt: skip
    return workflow


# grafts


async def get_user_ids_for_account(account_id):
    return [account_id, account_id + 1]


@worker()
class UserNotifier:
    async def process(self, job):
        # Fetch user IDs at runtime-this data wasn't available when workflow was created
        user_ids = await get_user_ids_for_account(job.args["account_id"])

        # Build the sub-workflow dynamically
        sub_workflow = Workflow()

        for user_id in user_ids:
            sub_workflow.add(str(user_id), NotifyWorker.new({"user_id": user_id}))

        # Attach the sub-workflow to this graft point
        await oban.enqueue_many(Workflow.apply_graft(job, sub_workflow))


async def b13_graft():
    workflow = (
        Workflow()
        .add("setup", SetupWorker.new({}))
        .add_graft("notify", UserNotifier.new({"account_id": 123}), deps="setup")
        .add("summary", SummaryWorker.new({}), deps="notify")
    )

    await oban.enqueue_many(workflow)
    return workflow


# options


def b14_id_and_name():
    return Workflow(id="custom-unique-id"), Workflow(name="nightly-etl")


def b15_flags_of_a_workflow():
    # Apply to entire workflow
    return Workflow(ignore_cancelled=True, ignore_discarded=True)


def b16_flags_of_jobs():
    return (
        Workflow()
        .add("step_1", Worker.new({}))
        .add("step_2", Worker.new({}), deps="step_1", ignore_cancelled=True)
        .add("step_3", Worker.new({}), deps="step_2", ignore_discarded=True)
    )


# introspection


@worker()
class MyWorker:
    async def process(self, job):
        workflow = Workflow.for_job(job)

        # Now you can use workflow methods
        status = await workflow.status()
        all_jobs = await workflow.all_jobs()
        SEEN["status"], SEEN["all_jobs"] = status, all_jobs


async def b18_handle():
    workflow = Workflow(id="known-workflow-id")
    status = await workflow.status()
    return status


@worker()
class FetchingJobs:
    async def process(self, job):
        workflow = Workflow.for_job(job)

        # Get a single job by name
        extract_job = await workflow.get_job("extract")

        # Get all jobs in the workflow
        all_jobs = await workflow.all_jobs()

        # Get only specific named jobs
        some_jobs = await workflow.all_jobs(names=["extract", "transform"])

        # Get only the dependencies of the current job
        dep_jobs = await workflow.all_jobs(deps_of=job)

        SEEN["jobs"] = extract_job, all_jobs, some_jobs, dep_jobs


@worker()
class CheckingStatus:
    async def process(self, job):
        workflow = Workflow.for_job(job)
        status = await workflow.status()

        print(status.state)  # "executing", "completed", "cancelled", or "discarded"
        print(status.total)  # Total number of jobs
        print(status.counts)  # Dict of counts by state: {"completed": 5, "executing": 2, ...}
        print(status.duration)  # Time from start to completion (if finished)
        print(status.started_at)  # When the first job started
        print(status.stopped_at)  # When the last job finished (if complete)
        print(status.subs)  # Dict of sub-workflow statuses  # fmt: skip


# pictures


def b21_mermaid():
    workflow = (
        Workflow()
        .add("setup", SetupWorker.new({}))
        .add("process_a", ProcessWorker.new({}), deps="setup")
        .add("process_b", ProcessWorker.new({}), deps="setup")
        .add("finish", FinishWorker.new({}), deps=["process_a", "process_b"])
    )

    print(workflow.to_mermaid())


# cancellation and retry


@worker()
class CancellingAll:
    async def process(self, job):
        workflow = Workflow.for_job(job)

        # Cancel all jobs in the workflow
        count = await workflow.cancel_jobs()
        SEEN["count"] = count


@worker()
class CancellingTwo:
    async def process(self, job):
        workflow = Workflow.for_job(job)

        # Cancel only specific named jobs
        count = await workflow.cancel_jobs(names=["step_2", "step_3"])
        SEEN["count"] = count


async def b24_retry_all(job):
    workflow = Workflow.for_job(job)

    # Retry all retryable jobs in the workflow
    count = await workflow.retry_jobs()
    return count


async def b24_retry_one(job):
    workflow = Workflow.for_job(job)

    # Retry only specific named jobs
    count = await workflow.retry_jobs(names=["failed_step"])
    return count


# API reference


def constructor(id=None, name=None, check_deps=True, ignore_cancelled=False, ignore_discarded=False):
    return Workflow(
        id=id,
        name=name,
        check_deps=check_deps,
        ignore_cancelled=ignore_cancelled,
        ignore_discarded=ignore_discarded,
    )
