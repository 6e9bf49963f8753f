"""Late starts: accepted requests that no worker has made a run, and schedules that have not fired at their time."""

from dataclasses import dataclass
from datetime import datetime, timedelta

from crawler_lifecycle.model.naming import RUN_WORKFLOW
from crawler_lifecycle.runs.model import RequestsInNeed
from crawler_lifecycle.schedules.commands import translation
from crawler_lifecycle.temporal.connection import RPC_TIMEOUT
from crawler_lifecycle.temporal.engine import Engine

ACCEPTED_BEFORE = timedelta(minutes=1)  # a later request may still become a run in time
MOST_REQUESTS = 10  # named in an answer


@dataclass(frozen=True, slots=True)
class LateStarts:
    requests: int  # accepted more than a minute ago, without a run
    schedule_seconds: float  # since the earliest occurrence that has not fired; 0 without such an occurrence


async def requests_without_run(engine: Engine, now: datetime) -> RequestsInNeed:
    """Return the requests for which no worker has made a run in time."""
    query = _without_run(engine, now)
    async with engine.calls() as client:
        counted = await client.count_workflows(query, rpc_timeout=RPC_TIMEOUT)
        if not counted.count:
            return RequestsInNeed(total=0, workflows=[])
        listed = client.list_workflows(query, limit=MOST_REQUESTS, rpc_timeout=RPC_TIMEOUT)
        return RequestsInNeed(total=counted.count, workflows=[workflow.id async for workflow in listed])


def _without_run(engine: Engine, now: datetime) -> str:
    """Return the query. A workflow gets its search attribute CrawlRunId with its run."""
    return (
        f"WorkflowType = '{RUN_WORKFLOW}' AND ExecutionStatus = 'Running' AND CrawlRunId IS NULL"
        f" AND TaskQueue = '{engine.task_queue}' AND StartTime < '{(now - ACCEPTED_BEFORE).isoformat()}'"
    )


async def late_starts(engine: Engine, now: datetime) -> LateStarts:
    late = timedelta()
    async with engine.calls() as client:
        requests = await client.count_workflows(_without_run(engine, now), rpc_timeout=RPC_TIMEOUT)
        async for listed in await client.list_schedules(rpc_timeout=RPC_TIMEOUT):
            if listed.schedule is None or listed.info is None or not translation.lists_our_runs(listed):
                continue
            memo = await listed.memo()
            is_ours = memo.get("task_queue", engine.task_queue) == engine.task_queue
            if is_ours and not listed.schedule.state.paused and listed.info.next_action_times:
                late = max(late, now - min(listed.info.next_action_times))
    return LateStarts(requests.count, late.total_seconds())
