"""The runner: a program that starts one job, waits for its end and records the end, whatever other process dies.

`placing` starts the runner with the job's lock as an open file. The job writes straight into its log, so the job runs
on if its runner is killed. After the end the runner starts waiting jobs.
"""

import errno
import os
import signal
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path

import psutil

from crawler_lifecycle.clusters.adapters.regular_files import open_regular
from crawler_lifecycle.clusters.local import processes
from crawler_lifecycle.clusters.local.placing import Placing
from crawler_lifecycle.clusters.local.records import EndRecord, JobFolder, Layout, Spec, StartRecord, UnreadableRecord
from crawler_lifecycle.model.reasons import CANNOT_START, DEADLINE_EXCEEDED, STOPPED_BEFORE_START, of_exit_code

PATIENCE_WITH_LEFTOVERS = 30.0  # seconds for killing processes after the program's end; survivors are recorded
PAUSE_BETWEEN_TRIES = 1.0  # seconds between two tries to write the end
# exit codes for a job without a started program; shells use the first two codes
NOT_EXECUTABLE_CODE, NOT_FOUND_CODE, NO_PROGRAM_CODE = 126, 127, 128
NOT_EXECUTABLE_ERRORS = (errno.EACCES, errno.EPERM, errno.ENOEXEC, errno.ENOTDIR, errno.EISDIR)


class Runner:
    """A job's runner, from the record at the start to the record at the end."""

    def __init__(self, layout: Layout, job: JobFolder, spec: Spec) -> None:
        self.layout = layout
        self.job = job
        self.spec = spec
        self.started_at: float | None = None
        self.first_process: processes.FirstProcess | None = None
        self.deadline_passed = False
        self.adopts_orphans = processes.adopt_orphans()  # then all processes of the job are our descendants

    def run(self) -> None:
        if self.job.stop_asked:
            self._write_end(code=None, reason=STOPPED_BEFORE_START, message="stopped before it was started")
            return
        self._write_start()
        try:
            log = self._open_log()
        except OSError as error:
            problem = f"its log {self.spec.log} cannot be written: {error.strerror}"
            self._write_end(code=NO_PROGRAM_CODE, reason=CANNOT_START, message=problem)
            return
        try:
            process = self._spawn(log)
        except OSError as error:
            self._write_end(*_end_without_start(self.spec.command[0], error))
            return
        finally:
            os.close(log)
        self.first_process = processes.FirstProcess(process.pid, processes.created(process.pid))
        # The second record names the program's process. A full disk prevents the record, and must not end the runner:
        # its job runs on.
        with suppress(OSError):
            self._write_start()
        with suppress(OSError, UnreadableRecord):
            self._signal_pending_stop()
        self._watch_deadline()
        self._wait(process)

    def _open_log(self) -> int:
        Path(self.spec.files).mkdir(parents=True, exist_ok=True)
        log = Path(self.spec.log)
        log.parent.mkdir(parents=True, exist_ok=True)
        return open_regular(log, os.O_WRONLY | os.O_APPEND | os.O_CREAT)

    def _spawn(self, log: int) -> "subprocess.Popen[bytes]":
        return subprocess.Popen(
            self.spec.command,
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            cwd=self.spec.files,
            env={**os.environ, **self.spec.environment},
            start_new_session=True,
            # The job inherits the lock until its program begins, whose environment shows the job's uid. So the job
            # has always the lock or the uid, and no look takes the job for gone if this runner is killed here.
            close_fds=False,
        )

    def _signal_pending_stop(self) -> None:
        """Send the signals for a stop that came during the job's start, before there was a process to signal."""
        stop = self.job.stop()
        if stop and self.job.claim_signal():
            processes.send(self._living_processes(), signal.SIGTERM)
        if stop and stop.kill:
            processes.send(self._living_processes(), signal.SIGKILL)

    def _watch_deadline(self) -> None:
        """Call `_on_deadline` at the deadline, and again after every grace period."""
        if self.spec.deadline_seconds is not None:
            signal.signal(signal.SIGALRM, self._on_deadline)
            signal.setitimer(signal.ITIMER_REAL, self.spec.deadline_seconds, self.spec.grace_seconds)

    def _on_deadline(self, *_: object) -> None:
        processes.send(self._living_processes(), signal.SIGKILL if self.deadline_passed else signal.SIGTERM)
        self.deadline_passed = True

    def _wait(self, process: "subprocess.Popen[bytes]") -> None:
        """Wait for the program's end, kill processes that outlive the program, and record the end."""
        code = processes.wait_for_child(process.pid)
        process.returncode = code  # Popen did not see the end, and would take the child for alive
        ended_at = time.time()
        signal.setitimer(signal.ITIMER_REAL, 0)  # no more deadline
        stop_asked = self.job.was_signalled  # a request without a signal did not end the program
        is_clean = self.adopts_orphans and processes.has_no_child()
        left_over = 0 if is_clean else processes.kill_until_none(self._living_processes, PATIENCE_WITH_LEFTOVERS)
        if code < 0:
            code = 128 - code  # ended by the signal -code; shells give the same exit code
        reason = DEADLINE_EXCEEDED if self.deadline_passed else _reason_of(code)
        message = f"ended with exit code {code}" if reason else None
        if self.deadline_passed:
            message = f"ended because it ran for more than {self.spec.deadline_seconds} s (exit code {code})"
        self._write_end(code, reason, message, stop_asked=stop_asked, at=ended_at, left_over=left_over)

    def _living_processes(self) -> list[psutil.Process]:
        return processes.of_job(processes.survey(), self.spec.uid, self.first_process)

    def _write_start(self) -> None:
        self.started_at = self.started_at or time.time()
        self.job.write(
            StartRecord(
                uid=self.spec.uid,
                installation=self.spec.installation,
                at=self.started_at,
                runner_pid=os.getpid(),
                runner_created=processes.created(os.getpid()),
                pid=self.first_process.pid if self.first_process else None,
                created=self.first_process.created if self.first_process else None,
            )
        )
        self.layout.announce_change(self.spec.run_uid)

    def _write_end(
        self,
        code: int | None,
        reason: str | None,
        message: str | None,
        *,
        stop_asked: bool | None = None,
        at: float | None = None,
        left_over: int = 0,
    ) -> None:
        self._write_until_written(
            EndRecord(
                uid=self.spec.uid,
                installation=self.spec.installation,
                at=at or time.time(),
                code=code,
                reason=reason,
                message=message,
                started_at=self.started_at,
                stop_asked=self.job.stop_asked if stop_asked is None else stop_asked,
                left_over=left_over,
            )
        )
        self.layout.announce_change(self.spec.run_uid)

    def _write_until_written(self, ended: EndRecord) -> None:
        """Try until the record is written: a full disk gets room again, and an absent root folder comes back.

        Give up only if the job's folder was removed.
        """
        while self.layout.is_away or self.job.path.exists():
            try:
                self.job.write(ended)
                return
            except OSError:  # not logged: the runner's log is on the same disk
                time.sleep(PAUSE_BETWEEN_TRIES)  # no event announces room on a disk


def _reason_of(code: int) -> str | None:
    """Return why a job with this exit code failed; None for 0, success."""
    return None if code == 0 else of_exit_code(code)


def _end_without_start(program: str, error: OSError) -> tuple[int, str, str]:
    """Return exit code, reason and message for a job without a started program."""
    if error.errno == errno.ENOENT:
        return (
            NOT_FOUND_CODE,
            of_exit_code(NOT_FOUND_CODE),
            f"{program}: command not found, or the interpreter it names",
        )
    if error.errno in NOT_EXECUTABLE_ERRORS:
        return (
            NOT_EXECUTABLE_CODE,
            of_exit_code(NOT_EXECUTABLE_CODE),
            f"{program}: cannot be executed: {error.strerror}",
        )
    return NO_PROGRAM_CODE, CANNOT_START, f"{program}: cannot be started: {error.strerror}"


def main(root: str, name: str, capacity: str, lock: str) -> None:
    """Run the job with this name, then start waiting jobs. `lock` is the descriptor of the job's lock."""
    os.set_inheritable(int(lock), False)  # the job's program must not keep the lock after the runner's end
    # Signals must not end the runner before its job. The handler does nothing, and is not inherited by the job, as
    # SIG_IGN would be.
    for signum in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(signum, lambda *_: None)
    layout = Layout(Path(root))
    job = JobFolder(layout.job(name))
    spec = job.spec()
    if spec and not job.has_started and not job.has_ended:
        Runner(layout, job, spec).run()
    os.close(int(lock))
    placing = Placing(layout, int(capacity))
    if spec and job.has_ended:
        placing.free(spec)
    if placing.has_waiting():  # without waiting jobs the lock is not needed
        with placing.exclusive():
            placing.start_waiting()


if __name__ == "__main__":
    main(*sys.argv[1:])
