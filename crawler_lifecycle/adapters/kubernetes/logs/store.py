"""Logs of jobs: a chunk from a byte on, the last lines, or the whole log into the run's files.

The cluster keeps a log for as long as the pod, and only its latest part: the node begins a new file about every 10 MiB.
"""

import math
import os
import tempfile
import time
from collections.abc import Callable, Generator, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import IO

from crawler_lifecycle.adapters.kubernetes.http.answers import ApiFailed, Missing
from crawler_lifecycle.adapters.kubernetes.http.api import Api
from crawler_lifecycle.adapters.kubernetes.http.decoding import PODS
from crawler_lifecycle.adapters.kubernetes.logs import files
from crawler_lifecycle.adapters.kubernetes.logs.mirrors import COMPARED, WORTH_IT, Mirrors, Position
from crawler_lifecycle.adapters.kubernetes.objects import Pod
from crawler_lifecycle.adapters.kubernetes.observe import pods
from crawler_lifecycle.adapters.log_files import CHUNK, TAIL_BYTES, TAIL_LINES, chunk_of, log_name, tail_of
from crawler_lifecycle.domain.naming import checked_uid
from crawler_lifecycle.ports import LogChunk

# The API server counts a tail's bytes from the tail's first line on, and cuts off the end, which matters most. A tail
# without its end is requested again with fewer lines.
MOST_BYTES_OF_TAIL = 1 << 16
MOST_BYTES_OF_LAST_LINE = 1 << 20
FEWER_LINES = (TAIL_LINES, 5, 1)
TAIL_SECONDS = 15.0
NODE_SECONDS = 30.0
WHOLE_SECONDS = 60.0
SILENCE_SECONDS = 60.0
LONGEST_SILENCE_SECONDS = 600.0  # for a pod that was asked to end, and tidies up
APOLOGY = b"unable to retrieve container logs for "  # some nodes answer so, with 200, after dropping the log
NO_PLACE = "logs-not-kept.txt"
NEVER_ANY = (400, 404)  # the container never started, or its pod is gone
NODE_SILENT = (500, 502, 504)  # for now, or for ever


@dataclass(frozen=True, slots=True)
class Logs:
    api: Api
    files_folder: Path  # with a folder for each run
    most_bytes: int
    mirrors: Mirrors = field(default_factory=Mirrors)

    def kept(self, run_uid: str, task: int, attempt: int) -> Path:
        """Return the place of a log whose job has left the cluster."""
        return self.files_folder / checked_uid(run_uid) / log_name(task, attempt)

    def read_kept(self, run_uid: str, task: int, attempt: int, offset: int) -> LogChunk | None:
        return files.read(self.kept(run_uid, task, attempt), offset)

    def tail_of_kept(self, run_uid: str, task: int, attempt: int) -> str:
        """Return the last lines; empty if the log's end is not kept."""
        kept = self.read_kept(run_uid, task, attempt, -TAIL_BYTES)
        if kept is None or kept.offset > self.most_bytes:
            return ""
        return "\n".join(kept.text.splitlines()[-TAIL_LINES:])

    def tail(self, pod: Pod, until: float) -> str:
        """Return the last lines; the time limit is for all tries together."""
        last_lines, until = "", min(until, time.monotonic() + TAIL_SECONDS)
        for lines in FEWER_LINES:
            most = MOST_BYTES_OF_LAST_LINE if lines == 1 else MOST_BYTES_OF_TAIL
            with tempfile.TemporaryFile() as file:
                file.writelines(self._pieces(pod, {"tailLines": lines, "limitBytes": most}, until))
                has_its_end, last_lines = file.tell() < most, tail_of(file)
            if has_its_end:
                break
        return last_lines

    def node_answers(self, pod: Pod) -> bool:
        """Return whether the pod's node answers a request for a byte of the log, even with a refusal."""
        try:
            for _ in self._pieces(pod, {"tailLines": 1, "limitBytes": 1}, time.monotonic() + NODE_SECONDS):
                pass
        except Missing:
            return True
        except ApiFailed as error:
            return error.status is not None and error.status not in NODE_SILENT
        return True

    def chunk(self, pod: Pod, offset: int, *, ended: bool) -> LogChunk:
        """Return a chunk from the offset on.

        The API cannot begin at a byte, so the bytes before the offset are read and dropped. A reader that goes on with
        a long log gets the rest from a mirror. A log that became shorter is in a new file, and is returned from its
        beginning: repeated text is better than missing text.
        """
        uid = pod.metadata.uid
        if not ended and (mirrored := self.mirrors.read(uid, offset)):
            return mirrored
        # a byte more than the chunk shows whether the log goes on
        wanted = min(offset + CHUNK + 1, self.most_bytes) if offset >= 0 else self.most_bytes
        with tempfile.TemporaryFile() as file:  # the file has no name: crawl output outlives no process of ours
            try:
                file.writelines(self._pieces(pod, {"limitBytes": wanted}, time.monotonic() + WHOLE_SECONDS))
            except (Missing, ApiFailed) as error:
                if not (is_gone(error) or node_is_silent(error)):
                    raise
            size = file.tell()
            chunk = replace(chunk_of(file, 0 if offset > size else offset, ended=ended), read=size)
            before = os.pread(file.fileno(), COMPARED, max(0, size - COMPARED))
        if not ended and offset > 0 and size >= WORTH_IT and chunk.offset == size:
            self.mirrors.begin(uid, Position(size, before), lambda: self._stream(pod))
        return chunk

    def _stream(self, pod: Pod) -> Generator[bytes]:
        yield from self._pieces(pod, {"follow": "true", "limitBytes": self.most_bytes}, silence=SILENCE_SECONDS)

    def is_kept(self, run_uid: str, task: int, attempt: int) -> bool:
        """Return whether a file has the log's place; the file may be from a crawl."""
        return files.is_there(self.kept(run_uid, task, attempt))

    def keep(self, pod: Pod, run_uid: str, task: int, attempt: int, *, or_a_part: bool) -> None:
        """Write the log, up to a limit, to the run's files, over any file that a crawl put there."""
        files.write(self.kept(run_uid, task, attempt), self._all_of(pod, or_a_part=or_a_part))

    def keep_to_its_end(
        self, pod: Pod, run_uid: str, task: int, attempt: int, begun: Callable[[], None] = lambda: None
    ) -> None:
        """Keep the log of a job that still prints; the file appears after the job's end.

        Raise ApiFailed if the stream breaks off, or is silent for ten minutes. If the pod is gone, the part received so
        far is kept, unless a log is there already. `begun` is called once the node has answered.
        """
        self.files_folder.mkdir(parents=True, exist_ok=True)
        broke_off = None
        with tempfile.TemporaryFile(dir=self.files_folder) as file:  # without a name: our crash leaves no file behind
            try:
                self._copy_to_its_end(pod, file, begun)
            except ApiFailed as error:
                if not file.tell() or self._is_there(pod):
                    raise
                broke_off = error
                file.write(_not_read(error))
            file.seek(0)
            pieces = iter(partial(file.read, CHUNK), b"")
            files.write(self.kept(run_uid, task, attempt), pieces, over=broke_off is None)
        if broke_off:
            raise broke_off

    def _is_there(self, pod: Pod) -> bool:
        """Return whether the API server lists the pod; an error counts as no."""
        try:
            present = PODS.item(self.api.get(self.api.core_path("pods", pod.metadata.name)))
        except (Missing, ApiFailed):
            return False
        return present.metadata.uid == pod.metadata.uid

    def _copy_to_its_end(self, pod: Pod, file: IO[bytes], begun: Callable[[], None]) -> None:
        """Copy the log until a new stream brings no new bytes: a proxy may have ended the stream early and in order."""
        copied = -1
        while file.tell() > copied:
            copied = to_skip = file.tell()  # a new stream begins with the bytes copied already
            try:
                for piece in self._all_of(pod, or_a_part=False, to_its_end=True):
                    begun()
                    file.write(piece[to_skip:])
                    to_skip = max(0, to_skip - len(piece))
            except (Missing, ApiFailed) as error:
                if not copied or not is_gone(error):
                    raise
                return

    def keep_why_not(self, run_uid: str, task: int, attempt: int, problem: str) -> None:
        """Write the problem in the place of a log that cannot be read any more."""
        line = f"(the log could not be read while its job was in the cluster: {problem})\n"
        files.write(self.kept(run_uid, task, attempt), [line.encode()], over=False)

    def say_that_there_is_no_place(self, run_uid: str, problem: str) -> None:
        """Write the problem once for all the run's logs, among its files."""
        text = f"Something that is not ours is in the place of logs, which are not kept: {problem}\n"
        files.write_once(self.files_folder / checked_uid(run_uid) / NO_PLACE, text)

    def _all_of(self, pod: Pod, *, or_a_part: bool, to_its_end: bool = False) -> Iterator[bytes]:
        """Yield the log; its last line names a missing rest.

        If the stream breaks off, raise ApiFailed as for a silent node, unless a part is enough.
        """
        query: dict[str, str | int] = {"limitBytes": self.most_bytes + 1}
        until, silence, came = time.monotonic() + WHOLE_SECONDS, None, 0
        if to_its_end:
            until, silence = math.inf, LONGEST_SILENCE_SECONDS
            query["follow"] = "true"
        try:
            for piece in self._pieces(pod, query, until, silence):
                if not came and piece.startswith(APOLOGY):
                    raise Missing(piece.decode(errors="replace"))
                yield piece[: max(0, self.most_bytes - came)]
                came += len(piece)
            if came > self.most_bytes:
                yield f"\n(the rest of the log is not kept: it is longer than {self.most_bytes} bytes)\n".encode()
        except ApiFailed as error:
            if not came:
                raise
            if not or_a_part:
                raise ApiFailed(error.message, timed_out=True) from error
            yield _not_read(error)

    def _pieces(
        self, pod: Pod, query: Mapping[str, str | int], until: float = math.inf, silence: float | None = None
    ) -> Iterator[bytes]:
        name = pods.container_with_log(pod)
        named = {"container": name} if name else {}
        path = self.api.core_path("pods", pod.metadata.name, "log")
        return self.api.chunks(path, {**named, **query}, accept="*/*", until=until, silence=silence)


def _not_read(error: ApiFailed) -> bytes:
    return f"\n(the rest of the log could not be read: {error.message})\n".encode()


def is_gone(error: Missing | ApiFailed) -> bool:
    """Return whether no log exists, now or ever."""
    return isinstance(error, Missing) or error.status in NEVER_ANY


def node_is_silent(error: Missing | ApiFailed) -> bool:
    """Return whether the node restarts, cannot be reached, or is gone with its logs."""
    return isinstance(error, ApiFailed) and (error.timed_out or error.status in NODE_SILENT)
