"""Runs over the HTTP API, with the methods of `RunCommands` in `control`."""

from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import contextmanager
from itertools import islice

from crawler_lifecycle.cli.remote.threads import call, iterate
from crawler_lifecycle.client.http import Api
from crawler_lifecycle.contract.answers import InstallationView, Resumed, Started, Stopping
from crawler_lifecycle.contract.attention import Attention
from crawler_lifecycle.contract.records import RunDetails, RunOverview, RunSummary
from crawler_lifecycle.contract.requests import RunRequest, StopRequest
from crawler_lifecycle.contract.states import ListedStatus
from crawler_lifecycle.control.reading import Download
from crawler_lifecycle.errors import NotFound
from crawler_lifecycle.ports import LogChunk


class RemoteRuns:
    """Runs by their RunID or run_uid. `actor`: name for records, beside the token's name."""

    def __init__(self, api: Api, actor: str | None = None) -> None:
        self._api = api
        self._actor = actor

    def list(
        self,
        *,
        limit: int = 20,
        before: int | None = None,
        status: ListedStatus | None = None,
        crawler: str | None = None,
        flows: bool = False,
        flow: str | None = None,
        tag: str | None = None,
        outcome: str | None = None,
        label: str | None = None,
    ) -> Sequence[RunSummary]:
        """Return runs, newest first; with `before`, only runs older than this RunID."""
        chosen = self._api.runs.all(
            listed=status,
            crawler=crawler,
            flows="true" if flows else None,
            flow=flow,
            tag=tag,
            outcome=outcome,
            label=label,
            before=before,
            page_size=limit,
        )
        return list(islice(chosen, limit))

    def installation(self, most_saturated: int) -> InstallationView:
        """Return the installation's use of its capacity, and the runs without room in the cluster."""
        view = self._api.limits.installation()
        return view.model_copy(update={"saturated": view.saturated[:most_saturated]})

    def attention(self) -> Attention:
        """Count waits for people, hosts and room."""
        return self._api.attention()

    def show(self, run: int | str) -> RunDetails:
        return self._api.runs.show(run)

    def watch(self, run: int | str) -> AsyncIterator[RunDetails]:
        """Yield the run at every change, until the run is over and its exports are done."""
        return iterate(self._api.runs.watch(run))

    def log(self, details: RunDetails, task: int, offset: int = 0) -> LogChunk:
        """Return the log of the task's last attempt, from the byte `offset` on."""
        if task >= len(details.tasks):
            raise NotFound(f"run {details.run.run_id} has no task {task}: its tasks are 0 to {len(details.tasks) - 1}")
        part = self._api.runs.log(details.run.run_id, task, offset)
        return LogChunk(part.text, part.offset, part.ended, read=part.offset - offset)

    @contextmanager
    def download(self, run: int | str, end: int | None = None) -> Iterator[Download]:
        """Open the archive of an end, by default of the last end."""
        record = self._api.runs.overview(run).run
        number = record.end_number if end is None else end
        with self._api.archives.open(record.run_id, end) as archive:
            yield Download(record.run_id, record.crawler, number, archive.size, archive.sha256, archive.chunks)

    async def start(self, request: RunRequest) -> Started:
        return await call(lambda: self._api.runs.start(request))

    async def stop(self, run: int | str, request: StopRequest) -> Stopping:
        return await call(
            lambda: self._api.runs.stop(run, force=request.force, reason=request.reason, actor=request.actor)
        )

    async def resume(self, run: int | str, *, reopen: bool = False) -> Resumed:
        return await call(lambda: self._api.runs.resume(run, reopen=reopen, actor=self._actor))

    async def export(self, run: int | str) -> RunOverview:
        def export() -> RunOverview:
            self._api.runs.export(run, actor=self._actor)
            return self._api.runs.overview(run)

        return await call(export)
