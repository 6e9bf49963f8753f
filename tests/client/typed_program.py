"""An author's program with all verbs, for the type checker: authors check their programs strictly."""

from crawler_lifecycle.client import Age, Flows, WorkflowPlugin, flows
from crawler_lifecycle.flows import (
    Cancel,
    Context,
    RunningJob,
    Sequence,
    Worker,
    Workflow,
    any_of,
    blocking,
    crawl,
    each_task,
    job,
    step,
    worker,
)


@worker(queue="x", max_attempts=3)
class Mail(Worker):
    async def process(self, job: RunningJob) -> int:
        handle = Workflow.for_job(job)
        await handle.status()
        await flows.enqueue_many(Workflow.apply_graft(job, Workflow().add("a", Mail.new({}))))
        return int(job.args["n"])


@job(timeout=5)
async def top(n: int = 3) -> int:
    return n


@step(max_attempts=3)
def merge(context: Context) -> dict[str, int] | Cancel:
    return {"n": context["x"]}


def each(item: int, context: Context) -> int:
    return item


async def main() -> None:
    w = (
        Workflow("n", ignore_discarded=True)
        .add("a", top)
        .add("b", Mail.new({"n": 1}), deps="a")
        .add("shop", crawl("bookshop", arguments={"a": "b"}, tasks=3), when="archived", retries=2)
        .add_many("m", {"x": crawl("a")}, deps=["a"], max_parallel=2)
        .add_cascade("c", ([1, 2], each), deps=any_of("m", at_least=0.5))
        .add_cascade("t", each_task("shop", each))
        .add_cascade("z", merge, deps="c", timeout=3)
    )
    async with Flows.open() as f:
        i: str = await f.push(w)
        done: Workflow = await f.wait(i, timeout=3)
        n: int = await w.cancel_jobs(names=["a"])
        m: int = await w.retry_jobs()
        r = await w.all_recorded()
        j = await w.get_job("a")
        if j is not None:
            await w.all_jobs(deps_of=j)
        await f.prune(Age() > 3)
        await f.stop(i, drain=True, wait=True, reason="enough")
        print(await f.why(i, "a"), [attempt.error for attempt in await f.attempts(i, "a")])
        await Sequence("s", [top, merge]).add(top).push(f)
        await WorkflowPlugin.push(f, w)
        print(done, n, m, r)
    with Flows.open_sync() as s:
        print(s.run(w.status()).counts, s.why(i, "a"), s.attempts(i, "a"))
        s.stop(i, force=True)
        print(blocking(w.get_context()))
