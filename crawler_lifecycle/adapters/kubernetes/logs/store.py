"""What did a job print: from a byte on, its last lines, or all of it into the run's files?

The cluster keeps a log for as long as the pod, and only its latest part: the node begins a new file every 10 MiB or so.
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
from crawler_lifecycle.adapters.kubernetes.logs.mirrors import COMPARED, WORTH_IT, Mirrors, Place
from crawler_lifecycle.adapters.kubernetes.objects import Pod
from crawler_lifecycle.adapters.kubernetes.observe import pods
from crawler_lifecycle.adapters.log_files import CHUNK, TAIL_LINES, chunk_of, log_name, tail_of
from crawler_lifecycle.adapters.log_files import TAIL_BYTES as LAST_BYTES
from crawler_lifecycle.domain.naming import checked_uid
from crawler_lifecycle.ports import LogChunk

TAIL_BYTES = 1 << 16  # counted from the first of the last lines: their end has to be in it,
FEWER_LINES = (TAIL_LINES, 5, 1)  # or fewer are asked for
LONGEST_LINE = 1 << 20
TAIL_SECONDS = 15.0
NODE_SECONDS = 30.0
WHOLE_SECONDS = 60.0
SILENCE_SECONDS = 60.0
LONGEST_SILENCE_SECONDS = 600.0  # of a pod that was told to end, and tidies up
APOLOGY = b"unable to retrieve container logs for "  # which some nodes answer, with 200, once they have dropped it
NO_PLACE = "logs-not-kept.txt"
NEVER_ANY = (400, 404)  # it never started, or its pod is gone
NODE_SILENT = (500, 502, 504)  # for now, or for ever


@dataclass(frozen=True, slots=True)
class Logs:
    api: Api
    files: Path
    most_bytes: int
    mirrors: Mirrors = field(default_factory=Mirrors)

    def kept(self, run_uid: str, task: int, attempt: int) -> Path:
        """Where a log is when its job has left the cluster."""
        return self.files / checked_uid(run_uid) / log_name(task, attempt)

    def read_kept(self, run_uid: str, task: int, attempt: int, offset: int) -> LogChunk | None:
        return files.read(self.kept(run_uid, task, attempt), offset)

    def tail_of_kept(self, run_uid: str, task: int, attempt: int) -> str:
        """Empty where the end of it is not kept."""
        kept = self.read_kept(run_uid, task, attempt, -LAST_BYTES)
        if kept is None or kept.offset > self.most_bytes:
            return ""
        return "\n".join(kept.text.splitlines()[-TAIL_LINES:])

    def tail(self, pod: Pod, until: float) -> str:
        """In that time, however often it is asked for."""
        found, until = "", min(until, time.monotonic() + TAIL_SECONDS)
        for lines in FEWER_LINES:
            most = LONGEST_LINE if lines == 1 else TAIL_BYTES
            with tempfile.TemporaryFile() as file:
                file.writelines(self._pieces(pod, {"tailLines": lines, "limitBytes": most}, until))
                has_its_end, found = file.tell() < most, tail_of(file)
            if has_its_end:
                break
        return found

    def can_be_asked(self, pod: Pod) -> bool:
        """Whether its node answers, whatever it says."""
        try:
            for _ in self._pieces(pod, {"tailLines": 1, "limitBytes": 1}, time.monotonic() + NODE_SECONDS):
                pass
        except Missing:
            return True
        except ApiFailed as error:
            return error.status is not None and error.status not in NODE_SILENT
        return True

    def chunk(self, pod: Pod, offset: int, *, ended: bool) -> LogChunk:
        """The API cannot begin at a byte: what comes before is read, and dropped. Whoever goes on reading a long log
        gets the rest of it from a mirror.

        A log that is shorter than it was is in a new file, of which all is told: some of it again, rather than not."""
        uid = pod.metadata.uid
        if not ended and (mirrored := self.mirrors.read(uid, offset)):
            return mirrored
        wanted = min(offset + CHUNK + 1, self.most_bytes) if offset >= 0 else self.most_bytes
        with tempfile.TemporaryFile() as file:  # it has no name: what crawls print outlives no process of ours
            try:
                file.writelines(self._pieces(pod, {"limitBytes": wanted}, time.monotonic() + WHOLE_SECONDS))
            except (Missing, ApiFailed) as error:
                if not (is_gone(error) or node_is_silent(error)):
                    raise
            size = file.tell()
            chunk = replace(chunk_of(file, 0 if offset > size else offset, ended=ended), read=size)
            before = os.pread(file.fileno(), COMPARED, max(0, size - COMPARED))
        if not ended and offset > 0 and size >= WORTH_IT and chunk.offset == size:
            self.mirrors.begin(uid, Place(size, before), lambda: self._stream(pod))
        return chunk

    def _stream(self, pod: Pod) -> Generator[bytes]:
        yield from self._pieces(pod, {"follow": "true", "limitBytes": self.most_bytes}, silence=SILENCE_SECONDS)

    def is_kept(self, run_uid: str, task: int, attempt: int) -> bool:
        """Or a crawl has put something there."""
        return files.is_there(self.kept(run_uid, task, attempt))

    def keep(self, pod: Pod, run_uid: str, task: int, attempt: int, *, or_a_part: bool) -> None:
        """All of it, up to a limit, to the run's files, in the place of whatever a crawl may have put there."""
        files.write(self.kept(run_uid, task, attempt), self._all_of(pod, or_a_part=or_a_part))

    def keep_to_its_end(
        self, pod: Pod, run_uid: str, task: int, attempt: int, begun: Callable[[], None] = lambda: None
    ) -> None:
        """The same of one that still prints, until it ends: it is not there before. ApiFailed: it broke off, or nothing
        came for ten minutes. What had come until then is kept if its pod is gone, unless there is more.

        `begun`: called once its node has answered."""
        self.files.mkdir(parents=True, exist_ok=True)
        broke_off = None
        with tempfile.TemporaryFile(dir=self.files) as file:  # without a name: nothing is left of it if we die
            try:
                self._hear(pod, file, begun)
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
        """As far as anybody says."""
        try:
            found = PODS.one(self.api.get(self.api.core("pods", pod.metadata.name)))
        except (Missing, ApiFailed):
            return False
        return found.metadata.uid == pod.metadata.uid

    def _hear(self, pod: Pod, file: IO[bytes], begun: Callable[[], None]) -> None:
        """A stream that ends may have been cut, in order, by somebody in between: its log has ended if another one has
        nothing new."""
        before = -1
        while file.tell() > before:
            before = known = max(0, file.tell())
            try:
                for piece in self._all_of(pod, or_a_part=False, to_its_end=True):
                    begun()
                    file.write(piece[known:])
                    known = max(0, known - len(piece))
            except (Missing, ApiFailed) as error:
                if not before or not is_gone(error):
                    raise
                return

    def keep_why_not(self, run_uid: str, task: int, attempt: int, problem: str) -> None:
        """In the place of a log that nobody gets any more."""
        line = f"(the log could not be read while its job was in the cluster: {problem})\n"
        files.write(self.kept(run_uid, task, attempt), [line.encode()], over=False)

    def say_that_there_is_no_place(self, run_uid: str, problem: str) -> None:
        """Once for all logs of the run, among its files."""
        text = f"Something that is not ours is in the place of logs, which are not kept: {problem}\n"
        files.write_once(self.files / checked_uid(run_uid) / NO_PLACE, text)

    def _all_of(self, pod: Pod, *, or_a_part: bool, to_its_end: bool = False) -> Iterator[bytes]:
        """One that breaks off is that of a silent node, unless a part will do. Its last line says what is missing."""
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
        name = pods.speaker(pod)
        named = {"container": name} if name else {}
        path = self.api.core("pods", pod.metadata.name, "log")
        return self.api.chunks(path, {**named, **query}, accept="*/*", until=until, silence=silence)


def _not_read(error: ApiFailed) -> bytes:
    return f"\n(the rest of the log could not be read: {error.message})\n".encode()


def is_gone(error: Missing | ApiFailed) -> bool:
    """There is no log, and there will be none."""
    return isinstance(error, Missing) or error.status in NEVER_ANY


def node_is_silent(error: Missing | ApiFailed) -> bool:
    """It restarts, or nobody reaches it, or it is gone with its logs."""
    return isinstance(error, ApiFailed) and (error.timed_out or error.status in NODE_SILENT)
