"""Runs over the HTTP API, with the methods of `RunCommands` in `control`."""

import time
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
from crawler_lifecycle.control.reading import EXPORT_PATIENCE, OpenArchive, is_handed_over
from crawler_lifecycle.errors import NotFound, TemporaryError
from crawler_lifecycle.ports import LogChunk

OUTAGE_PATIENCE = 60.0  # seconds of an outage in which a watched run is read again
PAUSE = 0.5  # seconds between two reads while the exports are made, or after a failed read


class RemoteRuns:
    def __init__(self, api: Api) -> None:
        self._api = api

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
            page_size=limit,
        )
        older = (run for run in chosen if before is None or run.run_id < before)
        return list(islice(older, limit))

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
        """Yield the run at every change, until the run is over and its exports are done or exceed EXPORT_PATIENCE."""
        return iterate(self._watch(run))

    def _watch(self, run: int | str) -> Iterator[RunDetails]:
        last = self.show(run)
        yield last
        for _ in self._changes(last):
            details = self._read(last.run.run_id)
            if details != last:
                yield details
                last = details
            if details.run.status.is_over:
                break
        deadline = time.monotonic() + EXPORT_PATIENCE
        while not is_handed_over(last) and time.monotonic() < deadline:
            time.sleep(PAUSE)
            details = self._read(last.run.run_id)
            if details != last:
                yield details
                last = details

    def _changes(self, details: RunDetails) -> Iterator[object]:
        """Yield at every event about the run; nothing for a run that is over."""
        if not details.run.status.is_over:
            yield from self._api.changes(details.run.run_id)

    def _read(self, run_id: int) -> RunDetails:
        """Return the run, also after an outage."""
        deadline = time.monotonic() + OUTAGE_PATIENCE
        while True:
            try:
                return self.show(run_id)
            except TemporaryError:
                if time.monotonic() > deadline:
                    raise
            time.sleep(PAUSE)

    def log(self, details: RunDetails, task: int, offset: int = 0) -> LogChunk:
        """Return the log of the task's last attempt, from the byte `offset` on."""
        if task >= len(details.tasks):
            raise NotFound(f"run {details.run.run_id} has no task {task}: its tasks are 0 to {len(details.tasks) - 1}")
        part = self._api.runs.log(details.run.run_id, task, offset)
        return LogChunk(part.text, part.offset, part.ended, read=part.offset - offset)

    @contextmanager
    def download(self, run: int | str, end: int | None = None) -> Iterator[OpenArchive]:
        """Open the archive of an end, by default of the last end."""
        record = self._api.runs.overview(run).run
        number = record.end_number if end is None else end
        with self._api.archives.open(record.run_id, end) as archive:
            yield OpenArchive(record.run_id, record.crawler, number, archive.size, archive.sha256, archive.chunks)

    async def start(self, request: RunRequest) -> Started:
        return await call(lambda: self._api.runs.start(request))

    async def stop(self, run: int | str, request: StopRequest) -> Stopping:
        return await call(
            lambda: self._api.runs.stop(run, force=request.force, reason=request.reason, actor=request.actor)
        )

    async def resume(self, run: int | str, *, reopen: bool = False) -> Resumed:
        return await call(lambda: self._api.runs.resume(run, reopen=reopen))

    async def export(self, run: int | str) -> RunOverview:
        def export() -> RunOverview:
            self._api.runs.export(run)
            return self._api.runs.overview(run)

        return await call(export)
