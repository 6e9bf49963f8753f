"""Late starts: accepted requests that no worker has made a run, and schedules that have not fired at their time.

Requests are also late if very many came at once, as at midnight. Such a peak needs no repair of a part.
"""

from dataclasses import dataclass
from datetime import datetime, timedelta

from temporalio.client import Client

from crawler_lifecycle.base.words import counted, span
from crawler_lifecycle.model.naming import RUN_WORKFLOW
from crawler_lifecycle.runs.model import RequestsInNeed
from crawler_lifecycle.schedules.commands import translation
from crawler_lifecycle.temporal.connection import RPC_TIMEOUT
from crawler_lifecycle.temporal.engine import Engine

ACCEPTED_BEFORE = timedelta(minutes=1)  # a later request may still become a run in time
MOST_REQUESTS = 10  # named in an answer
LATE_SECONDS = 120.0  # after a schedule's time
PEAK, AROUND_A_PEAK = timedelta(minutes=10), timedelta(hours=1)
LEAST_IN_A_PEAK = 100  # requests


@dataclass(frozen=True, slots=True)
class LateStarts:
    requests: int  # accepted more than a minute ago, without a run
    schedule_seconds: float  # since the earliest occurrence that has not fired; 0 without such an occurrence
    schedule: str | None = None  # with this occurrence
    peak: int = 0  # requests in the last ten minutes, if requests are late and most of an hour came then

    @property
    def problems(self) -> list[str]:
        """The problems, in sentences for doctor and the log."""
        problems = list[str]()
        if self.schedule_seconds > LATE_SECONDS:
            late = span(int(self.schedule_seconds))
            problems.append(
                f"schedule {self.schedule} has not fired for {late} after its time: check the workers and the database "
                "of Temporal"
            )
        if self.requests:
            named = "`crawlctl status` names them"
            if self.peak:
                named = f"{self.peak} came within ten minutes: spread schedules over the hour, or add workers"
            problems.append(f"{counted(self.requests, 'accepted request')} without a run: {named}")
        return problems


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
    late, schedule = timedelta(), None
    async with engine.calls() as client:
        requests = await client.count_workflows(_without_run(engine, now), rpc_timeout=RPC_TIMEOUT)
        async for listed in await client.list_schedules(rpc_timeout=RPC_TIMEOUT):
            if listed.schedule is None or listed.info is None or not translation.lists_our_runs(listed):
                continue
            memo = await listed.memo()
            is_ours = memo.get("task_queue", engine.task_queue) == engine.task_queue
            if is_ours and not listed.schedule.state.paused and listed.info.next_action_times:
                delay = now - min(listed.info.next_action_times)
                if delay > late:
                    late, schedule = delay, listed.id
        peak = await _peak(client, engine, now) if requests.count else 0
    return LateStarts(requests.count, late.total_seconds(), schedule, peak)


async def _peak(client: Client, engine: Engine, now: datetime) -> int:
    """Return the requests in the last ten minutes if they are many, and most of the last hour; otherwise 0."""
    of_ours = f"WorkflowType = '{RUN_WORKFLOW}' AND TaskQueue = '{engine.task_queue}'"
    queries = [f"{of_ours} AND StartTime >= '{(now - time).isoformat()}'" for time in (PEAK, AROUND_A_PEAK)]
    recent, around = [(await client.count_workflows(query, rpc_timeout=RPC_TIMEOUT)).count for query in queries]
    return recent if recent >= LEAST_IN_A_PEAK and 2 * recent > around else 0
