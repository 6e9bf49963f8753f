"""oban-py's client object."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from crawler_lifecycle.compat.application import Application
from crawler_lifecycle.flows import Graft, Job, Workflow
from crawler_lifecycle.flows import Sequence as Chain
from crawler_lifecycle.flows.model.records import MemberRecord


@dataclass(frozen=True)
class Pool:
    """A pool's address. The service's client makes its own connections."""

    dsn: str | None

    async def close(self) -> None:
        """Close no connection."""


class Oban(Application):
    """The client on this installation, whatever database the pool names. Hosts run the jobs.

    Further arguments concern Oban's own processes, and have no effect.
    """

    _instances: ClassVar[dict[str, "Oban"]] = {}

    def __init__(
        self,
        *,
        pool: Any = None,
        name: str | None = None,
        queues: Mapping[str, Any] | None = None,
        dispatcher: Any = None,
        leadership: bool | None = None,
        lifeline: Mapping[str, Any] | None = None,
        node: str | None = None,
        notifier: Any = None,
        prefix: str | None = None,
        pruner: Mapping[str, Any] | None = None,
        refresher: Mapping[str, Any] | None = None,
        scheduler: Mapping[str, Any] | None = None,
        stager: Mapping[str, Any] | None = None,
    ) -> None:
        del dispatcher, leadership, lifeline, node, notifier, prefix, pruner, refresher, scheduler, stager
        super().__init__(getattr(pool, "dsn", pool))
        self.queues = dict(queues or {})
        self._instances[name or "oban"] = self

    @staticmethod
    async def create_pool(
        dsn: str | None = None,
        *,
        min_size: int | None = None,
        max_size: int | None = None,
        timeout: float | None = None,
    ) -> Pool:
        del min_size, max_size, timeout
        return Pool(dsn)

    @classmethod
    def get_instance(cls, name: str = "oban") -> "Oban":
        """Return the client with the name. An unopened client, such as in a host, is the innermost open client."""
        return cls._instances.get(name) or cls(name=name)

    def note(self) -> str:
        queues = ", ".join(self.queues)
        return f", and hosts of steps run the queues ({queues}): crawlctl host MODULE" if queues else ""

    async def start(self) -> "Oban":
        """Open the client."""
        return await self.__aenter__()

    async def stop(self) -> None:
        """Close the client."""
        await self.__aexit__()

    async def enqueue(self, job: Job) -> MemberRecord:
        """Store a job, as a workflow with a single step."""
        (record,) = await self.enqueue_many(job)
        return record

    async def enqueue_many(
        self, jobs_or_first: Workflow | Chain | Graft | Job | Iterable[Job], /, *rest: Job
    ) -> Sequence[MemberRecord]:
        """Store a workflow, a graft or jobs, all or nothing. Return the stored jobs.

        Jobs without a workflow become their own workflow.
        """
        work = jobs_or_first
        if not isinstance(work, Workflow | Chain | Graft):
            jobs = [work, *rest] if isinstance(work, Job) else list(work)
            work = Workflow()
            for number, job in enumerate(jobs):
                work.add(str(number), job)
        flow = await self.method("enqueue_many")(work)
        jobs_on_record: Sequence[MemberRecord] = await self.method("jobs")(flow)
        inside = f"{work.job.path}/" if isinstance(work, Graft) else ""
        return [record for record in jobs_on_record if record.path.startswith(inside)]
