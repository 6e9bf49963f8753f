import os
import socket
import threading
from collections.abc import Callable
from contextlib import closing
from functools import partial
from pathlib import Path
from typing import TypeVar

import pytest

from crawler_lifecycle.clusters.adapters.regular_files import NotRegular, open_regular
from crawler_lifecycle.clusters.ports import LogChunk
from crawler_lifecycle.model.deployment import DeploymentRequest
from crawler_lifecycle.model.looks import JobPhase
from tests.kit.clusters.clusters import PATIENCE, LocalBench

pytestmark = pytest.mark.regression("A pipe in place of a log held whoever read it, or wrote it, for ever")

R = TypeVar("R")
SECRET = "not for the log"


def pipe(path: Path) -> None:
    os.mkfifo(path)


def link(path: Path) -> None:
    (path.parent / "secret").write_text(SECRET)
    path.symlink_to("secret")


def folder(path: Path) -> None:
    path.mkdir()


def link_to_a_device(path: Path) -> None:
    path.symlink_to("/dev/zero")


def door(path: Path) -> None:
    with closing(socket.socket(socket.AF_UNIX)) as listener:
        here = Path.cwd()
        os.chdir(path.parent)  # the address of a socket is short
        try:
            listener.bind(path.name)
        finally:
            os.chdir(here)


KINDS = pytest.mark.parametrize("make", [pipe, link, folder, link_to_a_device, door])


def in_time(call: Callable[[], R]) -> R:
    answers: list[R] = []
    caller = threading.Thread(target=lambda: answers.append(call()), daemon=True)
    caller.start()
    caller.join(PATIENCE)
    assert answers, "no answer in time"
    return answers[0]


def log_of(local: LocalBench, request: DeploymentRequest) -> Path:
    return local.files(request) / "logs" / f"{request.task}-{request.attempt}.log"


@KINDS
def test_what_is_not_a_file_is_no_log(local: LocalBench, make: Callable[[Path], None]) -> None:
    request = local.request("exit 3")
    local.cluster.deploy(request)
    local.until_ended(request)
    log_of(local, request).unlink()
    make(log_of(local, request))
    for offset in (0, -100):
        chunk = in_time(partial(local.cluster.log, request.run_uid, 0, 1, offset))
        assert chunk == LogChunk("", 0, ended=True)
    [evidence] = in_time(lambda: local.cluster.evidence(request.run_uid, [(0, 1)]))
    assert evidence.log_tail == ""
    assert "3" in (evidence.message or "")


@KINDS
def test_a_job_whose_log_cannot_be_a_file_fails_and_says_so(local: LocalBench, make: Callable[[Path], None]) -> None:
    request = local.request("echo x > started")
    log_of(local, request).parent.mkdir(parents=True)
    make(log_of(local, request))
    local.cluster.deploy(request)
    job = local.until_ended(request)
    assert (job.phase, job.reason, job.exit_code, job.gone) == (JobPhase.FAILED, "cannot_start", 128, True)
    assert "0-1.log cannot be written: not a regular file" in (job.message or "")
    assert not (local.files(request) / "started").exists()


def test_a_pipe_in_place_of_a_record_holds_nobody(local: LocalBench) -> None:
    request = local.request("exit 0")
    local.client(capacity=0).deploy(request)
    pipe(local.folder_of(request).path / "started.json")
    job = in_time(lambda: local.job(request))
    assert job
    assert job.phase is JobPhase.UNCLEAR


def test_a_pipe_with_a_reader_is_no_file_either(tmp_path: Path) -> None:
    pipe(tmp_path / "pipe")
    reader = os.open(tmp_path / "pipe", os.O_RDONLY | os.O_NONBLOCK)
    try:
        with pytest.raises(NotRegular):
            open_regular(tmp_path / "pipe", os.O_WRONLY)
    finally:
        os.close(reader)


def test_a_file_is_opened_as_ever(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        open_regular(tmp_path / "file")
    for text in ("a", "b"):
        with os.fdopen(open_regular(tmp_path / "file", os.O_WRONLY | os.O_APPEND | os.O_CREAT), "w") as file:
            assert os.get_blocking(file.fileno())
            file.write(text)
    with os.fdopen(open_regular(tmp_path / "file")) as file:
        assert file.read() == "ab"
