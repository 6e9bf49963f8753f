"""Questions and requests about a stored workflow, by the innermost open client."""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any, Protocol

from pydantic import JsonValue

from crawler_lifecycle.base.names import ROOT, joined, parent_path
from crawler_lifecycle.errors import BadInput
from crawler_lifecycle.flows.authors.open_client import open_client
from crawler_lifecycle.flows.authors.steps import Level
from crawler_lifecycle.flows.model.records import FlowStatus, MemberRecord
from crawler_lifecycle.flows.model.requests import CancelMembers, Downstream, RetryMembers
from crawler_lifecycle.flows.model.values import encode
from crawler_lifecycle.model.requests import refusals_as_bad_input

Names = str | Iterable[str] | None


class HasPath(Protocol):
    """A job: from `get_job` or `all_jobs`, or the running job in a step."""

    @property
    def path(self) -> str: ...


class Verbs(Level):
    """A workflow or sub-workflow by its flow's id and its path. All names belong to its own level."""

    path: str

    async def status(self) -> FlowStatus:
        """Return state, counts and times, with the sub-workflows' statuses in `subs`."""
        return await open_client().status(self.id, self.path)

    async def get_job(self, name: str) -> MemberRecord | None:
        """Return the job; None without such a job."""
        path = joined(self.path, name)
        return next((job for job in await open_client().jobs(self.id, [path]) if job.path == path), None)

    async def all_jobs(
        self, *, names: Names = None, deps_of: HasPath | None = None, subs: bool = False
    ) -> list[MemberRecord]:
        """Return the jobs in their order. A sub-workflow's name selects all its jobs.

        `deps_of`: only the direct dependencies, as in the job's context, on any level. `subs`: also jobs in
        sub-workflows.
        """
        client = open_client()
        if deps_of is not None:
            chosen = list(await client.jobs(self.id, await client.dependencies(self.id, deps_of.path)))
        else:
            chosen = list(_within(await client.jobs(self.id), [self.path]))
        if names is not None:
            chosen = list(_within(chosen, self._paths(names)))
        elif not subs and deps_of is None:
            chosen = [job for job in chosen if parent_path(job.path) == self.path]
        return chosen

    async def get_recorded(self, name: str) -> Any:
        """Return a job's recorded result; None without a record. A sub-workflow has its jobs' results by name."""
        path = joined(self.path, name)
        return (await open_client().results(self.id, [path])).get(path)

    async def all_recorded(self, *, names: Names = None, deps_of: HasPath | None = None) -> dict[str, Any]:
        """Return all recorded results by name, nested for sub-workflows. Jobs without a record are left out.

        `deps_of`: only the direct dependencies, as in the job's context. A name from another level is a whole path.
        """
        client = open_client()
        if names is None and deps_of is None:
            results = await client.results(self.id, None if self.path == ROOT else [self.path])
            return dict(results if self.path == ROOT else results.get(self.path, {}))
        paths = None if names is None else self._paths(names)
        if deps_of is not None:
            deps = await client.dependencies(self.id, deps_of.path)
            paths = [path for path in deps if paths is None or path in paths]
        results = await client.results(self.id, paths)
        return {path.removeprefix(joined(self.path, "")): value for path, value in results.items()}

    async def get_context(self) -> dict[str, Any] | None:
        """Return the context; None if none was given."""
        context = await open_client().context(self.id, self.path)
        return None if context is None else dict(context)

    async def cancel_jobs(self, *, names: Names = None, terminate: bool = True, reason: str | None = None) -> int:
        """Cancel all open jobs, or the named jobs, and return their number.

        Running jobs are asked to end, except with `terminate=False`. Their results are refused in any case.
        Over if the whole flow has ended already.
        """
        with refusals_as_bad_input():
            request = CancelMembers(paths=self._chosen(names), terminate=terminate, reason=reason)
        return await open_client().change(self.id, request)

    async def retry_jobs(
        self,
        *,
        names: Names = None,
        completed: bool = False,
        downstream: str = Downstream.CANCELLED,
        arguments: Mapping[str, Any] | None = None,
        removed_arguments: Iterable[str] = (),
    ) -> int:
        """Give cancelled, discarded and retryable jobs another attempt, and return their number.

        `completed`: also completed jobs. `downstream="all"`: also all jobs after them. `arguments`: over the named
        jobs' previous arguments. `removed_arguments`: names that the jobs no longer have.
        """
        if downstream not in tuple(Downstream):
            raise BadInput("downstream", f"expected {' or '.join(Downstream)}, not {downstream!r}")
        with refusals_as_bad_input():
            request = RetryMembers(
                paths=self._chosen(names),
                completed=completed,
                downstream=Downstream(downstream),
                arguments=None if arguments is None else _encoded(arguments),
                removed_arguments=tuple(removed_arguments),
            )
        return await open_client().change(self.id, request)

    def _chosen(self, names: Names) -> tuple[str, ...] | None:
        """Return the paths for a request; None for all the flow's jobs."""
        if names is not None:
            return tuple(self._paths(names))
        return None if self.path == ROOT else (self.path,)

    def _paths(self, names: str | Iterable[str]) -> list[str]:
        return [joined(self.path, name) for name in ([names] if isinstance(names, str) else names)]


def _within(jobs: Sequence[MemberRecord], paths: Collection[str]) -> Iterator[MemberRecord]:
    """Yield the jobs with the paths, and all jobs inside the sub-workflows with the paths."""
    chosen = set(paths)
    for job in jobs:
        if not chosen.isdisjoint(_prefixes(job.path)):
            yield job


def _prefixes(path: str) -> Iterator[str]:
    """Yield the path and the paths around the path, the top level last."""
    while path != ROOT:
        yield path
        path = parent_path(path)
    yield ROOT


def _encoded(arguments: Mapping[str, Any]) -> dict[str, JsonValue]:
    return {name: encode(f"arguments {name!r}", value) for name, value in arguments.items()}
