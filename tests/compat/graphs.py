"""An author's module in the form of Chancy's and Oban's pages: only import lines name this product."""

import asyncio

from crawler_lifecycle.compat.chancy import Chancy, Job, Queue, QueuedJob, Worker, job
from crawler_lifecycle.compat.chancy.plugin import Plugin
from crawler_lifecycle.compat.chancy.plugins.leadership import Leadership
from crawler_lifecycle.compat.chancy.plugins.workflow import Sequence, Workflow, WorkflowPlugin, WorkflowStep
from crawler_lifecycle.compat.oban import Cancel, Oban, Record, Snooze, worker
from crawler_lifecycle.compat.oban import job as oban_job
from crawler_lifecycle.compat.oban_pro import Workflow as ObanWorkflow

DSN = "postgresql://ann:secret@localhost/shop?sslmode=disable"


class Ticker(Plugin):
    """A plugin of the author's own."""


@job()
async def fetch():
    print("fetch")


@job(queue="slow")
def parse(*, pages: int = 1):
    print(f"parse {pages}")


def store():
    print("store")


async def main():
    async with Chancy(DSN, plugins=[Leadership(), WorkflowPlugin(), Ticker()]) as chancy:
        await chancy.migrate()
        await chancy.declare(Queue("default", concurrency=4, executor=Chancy.Executor.Async))
        workflow = Workflow("shop").add(fetch, "fetch").add("parse", parse, ["fetch"])
        workflow += WorkflowStep(job=Job.from_func(store, priority=3), step_id="store", dependencies=["parse"])
        workflow_id = await WorkflowPlugin.push(chancy=chancy, workflow=workflow)
        ended = await WorkflowPlugin.wait_for_workflow(
            chancy=chancy, workflow_id=workflow_id, interval=1, timeout=300
        )  # fmt: skip
        assert ended["store"].state == QueuedJob.State.SUCCEEDED
        return ended


async def chain():
    async with Chancy(DSN) as chancy:
        sequence = Sequence("chain", [fetch]).add(parse.job.with_kwargs(pages=2))
        return await sequence.push(chancy=chancy)


async def work():
    async with Chancy(DSN) as chancy, Worker(chancy, tags={"x"}) as hosted:
        identifier = await chancy.push(parse.job.with_kwargs(pages=3))
        await asyncio.wait_for(hosted.wait_for_shutdown(), 0.01)
        return identifier


@worker(queue="mail", max_attempts=3, tags=["News", "mail"])
class Mail:
    async def process(self, job):
        if job.args.get("late") and not SEEN:
            SEEN.append("snoozed")
            return Snooze(job.args["late"])
        if job.args.get("fails", 0) > len(job.errors):
            raise ValueError(f"attempt {job.attempt}")
        SEEN.append((job.id, job.worker, job.queue, job.tags, job.max_attempts, job.errors, job.cancelled()))
        return Cancel("nobody") if job.args.get("nobody") else Record({"to": job.args["to"]})


SEEN = []


@worker()
class Timed:
    async def process(self, job):
        if job.attempt <= job.args["snoozes"]:
            return Snooze(60)
        return job.scheduled_at


@worker()
class Mails:
    async def process(self, job):
        sub_workflow = ObanWorkflow()
        for user in ("ann", "bob"):
            sub_workflow.add(user, Mail.new({"to": user}))
        oban = Oban.get_instance()
        SEEN.append([mail.path for mail in await oban.enqueue_many(ObanWorkflow.apply_graft(job, sub_workflow))])


@oban_job(queue="reports")
def report(day: str, pages: int = 1):
    return f"{day}: {pages}"


async def enqueue():
    pool = await Oban.create_pool(DSN)
    async with Oban(pool=pool, queues={"mail": 10}) as oban:
        graph = ObanWorkflow("mails-1", "mails").add_graft("mails", Mails.new({}))
        jobs = await oban.enqueue_many(graph)
        (single,) = await oban.enqueue_many([report.new("monday", pages=2)])
        mailed = await Mail.enqueue({"to": "eve"}, priority=2)
        reported = await report.enqueue("sunday")
    await pool.close()
    return jobs, single, mailed, reported
