"""Read logs of jobs: a chunk from a byte on, the last lines, or the whole log into the run's files.

A log written into the run's files is a kept log: readers use the kept log first, and need the cluster no more. The
cluster keeps a log for as long as the pod, and only its latest part: the node begins a new file about every 10 MiB.
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

from crawler_lifecycle.clusters.adapters.log_files import CHUNK, TAIL_BYTES, TAIL_LINES, chunk_of, log_name, tail_of
from crawler_lifecycle.clusters.kubernetes.http.answers import ApiFailed, Missing
from crawler_lifecycle.clusters.kubernetes.http.api import KubernetesApi
from crawler_lifecycle.clusters.kubernetes.http.decoding import PODS
from crawler_lifecycle.clusters.kubernetes.logs import files
from crawler_lifecycle.clusters.kubernetes.logs.files import COMPARED_BYTES, SHORTEST_MIRRORED, Mirrors, Position
from crawler_lifecycle.clusters.kubernetes.objects import Pod
from crawler_lifecycle.clusters.kubernetes.observe import pods
from crawler_lifecycle.clusters.ports import LogChunk
from crawler_lifecycle.model.naming import checked_uid

# The API server cuts a tail off after its limit in bytes, counted from the tail's first line: the end, the most
# important part, is missing. A tail as long as the limit is requested again with fewer lines.
MOST_BYTES_OF_TAIL = 1 << 16
MOST_BYTES_OF_LAST_LINE = 1 << 20
LINES_PER_TRY = (TAIL_LINES, 5, 1)
# most seconds for the requests
TAIL_SECONDS = 15.0  # all tries for a tail together
NODE_SECONDS = 30.0  # for a node's answer
WHOLE_SECONDS = 60.0  # a chunk, or an ended job's whole log
# a stream without data for longer has failed
SILENCE_SECONDS = 60.0  # for a mirror
LONGEST_SILENCE_SECONDS = 600.0  # for a pod that was asked to end, and tidies up
APOLOGY = b"unable to retrieve container logs for "  # some nodes answer so, with status 200, after dropping the log
# File in the run's folder with the reason why its logs are not kept: the crawl has put a folder in the place of a log,
# or a link or a file in the place of the folder for logs.
OCCUPIED_PLACE_NOTE = "logs-not-kept.txt"
# HTTP statuses if a log is requested
NO_LOG_EVER = (400, 404)  # the container never started, or its pod does not exist
NODE_SILENT = (500, 502, 504)  # the API server gets no answer from the node, for now or permanently


@dataclass(frozen=True, slots=True)
class Logs:
    """Logs in the cluster, read by pod, and kept logs, read by run, task and attempt."""

    api: KubernetesApi
    files_folder: Path  # with a folder for each run
    most_bytes: int  # per log; the rest is neither shown nor kept
    mirrors: Mirrors = field(default_factory=Mirrors)

    def kept(self, run_uid: str, task: int, attempt: int) -> Path:
        """Return the path of the kept log, whether the file exists or not."""
        return self.files_folder / checked_uid(run_uid) / log_name(task, attempt)

    def read_kept(self, run_uid: str, task: int, attempt: int, offset: int) -> LogChunk | None:
        return files.read(self.kept(run_uid, task, attempt), offset)

    def tail_of_kept(self, run_uid: str, task: int, attempt: int) -> str:
        """Return the last lines; empty if no log is kept, or the kept log was cut off at `most_bytes`."""
        kept = self.read_kept(run_uid, task, attempt, -TAIL_BYTES)
        if kept is None or kept.offset > self.most_bytes:  # then the log's own last lines are missing
            return ""
        return "\n".join(kept.text.splitlines()[-TAIL_LINES:])

    def tail(self, pod: Pod, until: float) -> str:
        """Return the last lines of the pod's log, within TAIL_SECONDS for all tries together."""
        last_lines, until = "", min(until, time.monotonic() + TAIL_SECONDS)
        for lines in LINES_PER_TRY:
            most_bytes = MOST_BYTES_OF_LAST_LINE if lines == 1 else MOST_BYTES_OF_TAIL
            with tempfile.TemporaryFile() as file:
                file.writelines(self._pieces(pod, {"tailLines": lines, "limitBytes": most_bytes}, until))
                is_cut_off, last_lines = file.tell() >= most_bytes, tail_of(file)
            if not is_cut_off:
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

        The API cannot begin at a byte, so the bytes before the offset are read and dropped. A reader that has read a
        long log to its present end gets the further lines from a mirror. A log that became shorter is in a new file,
        and is returned from its beginning: repeated text is better than missing text. If no log exists or the node is
        silent, the chunk is empty.
        """
        uid = pod.metadata.uid
        if not ended and (mirrored := self.mirrors.read(uid, offset)):
            return mirrored
        # a byte more than the chunk shows whether the log continues
        most_bytes = min(offset + CHUNK + 1, self.most_bytes) if offset >= 0 else self.most_bytes
        with tempfile.TemporaryFile() as file:  # the file has no name: crawl output outlives no process of ours
            try:
                file.writelines(self._pieces(pod, {"limitBytes": most_bytes}, time.monotonic() + WHOLE_SECONDS))
            except (Missing, ApiFailed) as error:
                if not (no_log_exists(error) or node_is_silent(error)):
                    raise
            size = file.tell()
            chunk = replace(chunk_of(file, 0 if offset > size else offset, ended=ended), read=size)
            # by these bytes the mirror recognises that its stream brings the same log
            bytes_before_end = os.pread(file.fileno(), COMPARED_BYTES, max(0, size - COMPARED_BYTES))
        is_at_present_end = offset > 0 and chunk.offset == size
        if not ended and is_at_present_end and size >= SHORTEST_MIRRORED:
            self.mirrors.begin(uid, Position(size, bytes_before_end), lambda: self._stream(pod))
        return chunk

    def _stream(self, pod: Pod) -> Generator[bytes]:
        yield from self._pieces(pod, {"follow": "true", "limitBytes": self.most_bytes}, silence=SILENCE_SECONDS)

    def is_place_taken(self, run_uid: str, task: int, attempt: int) -> bool:
        """Return whether the kept log's place is taken, by a kept log or by a file that the crawl itself put there."""
        return files.exists(self.kept(run_uid, task, attempt))

    def keep(self, pod: Pod, run_uid: str, task: int, attempt: int, *, part_is_enough: bool) -> None:
        """Write the log of an ended job, up to `most_bytes`, to the run's files, and replace a file in its place.

        If the stream breaks off, a part is kept with `part_is_enough`; otherwise raise ApiFailed.
        """
        files.write(self.kept(run_uid, task, attempt), self._whole_log(pod, part_is_enough=part_is_enough))

    def keep_to_its_end(
        self, pod: Pod, run_uid: str, task: int, attempt: int, on_answer: Callable[[], None] = lambda: None
    ) -> None:
        """Keep the log of a job that still prints; the file appears after the job's end.

        Raise ApiFailed if the stream breaks off, or is silent for LONGEST_SILENCE_SECONDS. If the pod does not exist
        any more then, or the API server does not answer, the part received so far is kept, unless the log's place is
        taken. `on_answer` is called with every piece that the node sends.
        """
        self.files_folder.mkdir(parents=True, exist_ok=True)
        failure = None
        with tempfile.TemporaryFile(dir=self.files_folder) as file:  # without a name: our crash leaves no file
            try:
                self._copy_to_its_end(pod, file, on_answer)
            except ApiFailed as error:
                if not file.tell() or self._exists(pod):
                    raise
                failure = error
                file.write(_line_about_unread_rest(error))
            file.seek(0)
            pieces = iter(partial(file.read, CHUNK), b"")
            files.write(self.kept(run_uid, task, attempt), pieces, overwrite=failure is None)
        if failure:
            raise failure

    def _exists(self, pod: Pod) -> bool:
        """Return whether the API server still has the pod. False if the request fails: a part is better than no log."""
        try:
            present = PODS.item(self.api.get(self.api.core_path("pods", pod.metadata.name)))
        except (Missing, ApiFailed):
            return False
        return present.metadata.uid == pod.metadata.uid

    def _copy_to_its_end(self, pod: Pod, file: IO[bytes], on_answer: Callable[[], None]) -> None:
        """Copy the log, one stream after another, until a stream brings no new bytes.

        The end of a stream does not prove the log's end: a proxy may have ended the stream early and in order. If a
        later stream finds no log, the log in the file is whole.
        """
        size_before = -1
        while file.tell() > size_before:
            size_before = to_skip = file.tell()  # a new stream begins with the bytes in the file already
            try:
                for piece in self._whole_log(pod, part_is_enough=False, until_job_ends=True):
                    on_answer()
                    file.write(piece[to_skip:])
                    to_skip = max(0, to_skip - len(piece))
            except (Missing, ApiFailed) as error:
                is_first_stream = size_before == 0
                if is_first_stream or not no_log_exists(error):
                    raise
                return

    def keep_problem(self, run_uid: str, task: int, attempt: int, problem: str) -> None:
        """Write the problem in place of an unreadable log, unless the log's place is taken."""
        line = f"(the log could not be read while its job was in the cluster: {problem})\n"
        files.write(self.kept(run_uid, task, attempt), [line.encode()], overwrite=False)

    def note_occupied_place(self, run_uid: str, problem: str) -> None:
        """Write OCCUPIED_PLACE_NOTE with the problem, once for all logs of the run."""
        text = f"Something that is not ours is in the place of logs, which are not kept: {problem}\n"
        files.write_once(self.files_folder / checked_uid(run_uid) / OCCUPIED_PLACE_NOTE, text)

    def _whole_log(self, pod: Pod, *, part_is_enough: bool, until_job_ends: bool = False) -> Iterator[bytes]:
        """Yield the log up to `most_bytes`, and a line about a missing rest. `until_job_ends`: follow a growing log.

        If the stream breaks off, raise ApiFailed as for a silent node, unless a part is enough.
        """
        query: dict[str, str | int] = {"limitBytes": self.most_bytes + 1}  # a byte too many shows a missing rest
        until, silence, received = time.monotonic() + WHOLE_SECONDS, None, 0
        if until_job_ends:
            until, silence = math.inf, LONGEST_SILENCE_SECONDS
            query["follow"] = "true"
        try:
            for piece in self._pieces(pod, query, until, silence):
                yield piece[: max(0, self.most_bytes - received)]
                received += len(piece)
            if received > self.most_bytes:
                yield f"\n(the rest of the log is not kept: it is longer than {self.most_bytes} bytes)\n".encode()
        except ApiFailed as error:
            if not received:
                raise
            if not part_is_enough:
                raise ApiFailed(error.message, timed_out=True) from error  # `node_is_silent` is true for a time-out
            yield _line_about_unread_rest(error)

    def _pieces(
        self, pod: Pod, query: Mapping[str, str | int], until: float = math.inf, silence: float | None = None
    ) -> Iterator[bytes]:
        """Yield the log's pieces, as the API's `query` limits the log; `silence`: most seconds without a piece.

        Raise Missing if the node sends an apology in place of the log.
        """
        name = pods.container_with_log(pod)
        container = {"container": name} if name else {}
        path = self.api.core_path("pods", pod.metadata.name, "log")
        is_begin = True
        for piece in self.api.chunks(path, {**container, **query}, accept="*/*", until=until, silence=silence):
            if is_begin and piece.startswith(APOLOGY):
                raise Missing(piece.decode(errors="replace"))
            is_begin = is_begin and not piece
            yield piece


def _line_about_unread_rest(error: ApiFailed) -> bytes:
    return f"\n(the rest of the log could not be read: {error.message})\n".encode()


def no_log_exists(error: Missing | ApiFailed) -> bool:
    """Return whether the error means that no log exists, now or ever."""
    return isinstance(error, Missing) or error.status in NO_LOG_EVER


def node_is_silent(error: Missing | ApiFailed) -> bool:
    """Return whether the error means that the node restarts, cannot be reached, or has gone with its logs."""
    return isinstance(error, ApiFailed) and (error.timed_out or error.status in NODE_SILENT)
