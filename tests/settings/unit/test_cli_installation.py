"""Which installation a command means: the environment first, then the stack of the state folder, then the default."""

import asyncio
import os
import time
from pathlib import Path

import pytest

from crawler_lifecycle.errors import NotReady
from crawler_lifecycle.processes import flows as host
from crawler_lifecycle.settings import stack_file
from crawler_lifecycle.settings.installation import locate
from crawler_lifecycle.settings.stack_file import StackFile
from crawler_lifecycle.temporal.connection import TemporalConnection, identity_for

STACK = StackFile(
    stack="one",
    environment={
        "CRAWLER_DATABASE__URL": "sqlite:////stack.db",
        "CRAWLER_SCHEDULER__TOKEN": "secret",
        "CRAWLER_SCHEDULER__URL": "http://127.0.0.1:1",
        "TEMPORAL_ADDRESS": "127.0.0.1:2",
        "TEMPORAL_NAMESPACE": "stack",
    },
    web_ui="http://127.0.0.1:3",
)


@pytest.fixture(autouse=True)
def bare(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in os.environ:
        if name.startswith(("CRAWLER_", "TEMPORAL_")):
            monkeypatch.delenv(name)


def test_the_stack_of_the_folder_is_meant(tmp_path: Path) -> None:
    stack_file.write(tmp_path, STACK)
    found = locate(tmp_path)
    assert found.settings.database_url == "sqlite:////stack.db"
    assert found.settings.scheduler.token.get_secret_value() == "secret"
    assert found.temporal["TEMPORAL_ADDRESS"] == "127.0.0.1:2"


def test_the_folder_may_be_named_by_the_environment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    stack_file.write(tmp_path, STACK)
    monkeypatch.setenv("CRAWLER_STATE", str(tmp_path))
    assert locate().settings.state == tmp_path
    assert locate().settings.scheduler.url == "http://127.0.0.1:1"


def test_the_environment_goes_before_the_stack(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    stack_file.write(tmp_path, STACK)
    monkeypatch.setenv("CRAWLER_SCHEDULER__URL", "http://elsewhere")
    found = locate(tmp_path).settings.scheduler
    assert (found.url, found.token.get_secret_value()) == ("http://elsewhere", "secret")


def test_another_temporal_is_taken_whole(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    stack_file.write(tmp_path, STACK)
    monkeypatch.setenv("TEMPORAL_ADDRESS", "cloud:7233")
    monkeypatch.setenv("TEMPORAL_API_KEY", "key")
    found = locate(tmp_path).temporal
    assert (found["TEMPORAL_ADDRESS"], found["TEMPORAL_API_KEY"]) == ("cloud:7233", "key")
    assert "TEMPORAL_NAMESPACE" not in found


def test_credentials_of_another_temporal_do_not_reach_the_stack(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    stack_file.write(tmp_path, STACK)
    monkeypatch.setenv("TEMPORAL_API_KEY", "key")
    assert "TEMPORAL_API_KEY" not in locate(tmp_path).temporal


def test_without_a_stack_there_are_the_defaults(tmp_path: Path) -> None:
    found = locate(tmp_path)
    assert found.settings.database_url == f"sqlite:///{tmp_path / 'crawler.db'}"
    assert "TEMPORAL_ADDRESS" not in found.temporal


def test_a_broken_stack_file_is_one_clear_line(tmp_path: Path) -> None:
    (tmp_path / "stack.json").write_text('{"stack": ')
    with pytest.raises(NotReady, match=r"stack\.json"):
        locate(tmp_path)


def test_secrets_are_for_their_owner_only_and_stay(tmp_path: Path) -> None:
    token = stack_file.make_token(tmp_path)
    stack_file.write(tmp_path, STACK)
    assert stack_file.make_token(tmp_path) == token
    assert {path.stat().st_mode & 0o777 for path in tmp_path.iterdir()} == {0o600}


def test_a_host_of_steps_finds_the_stack_as_commands_do(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    stack_file.write(tmp_path, STACK)
    environment = {**os.environ, "CRAWLER_STATE": str(tmp_path), "TEMPORAL_API_KEY": "of another server"}
    monkeypatch.setattr(os, "environ", environment)
    host.take_stack()
    assert environment["TEMPORAL_ADDRESS"] == "127.0.0.1:2"
    assert environment["CRAWLER_DATABASE__URL"] == "sqlite:////stack.db"
    assert "TEMPORAL_API_KEY" not in environment


def test_a_temporal_of_another_installation_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: dict[str, float] = {}

    async def pollers(_: TemporalConnection) -> dict[str, float]:
        return seen

    monkeypatch.setattr(TemporalConnection, "pollers", pollers)
    connection = TemporalConnection({}, "queue")
    asyncio.run(connection.refuse_other_installation("mine"))
    seen[identity_for("other")] = time.time() - 300
    asyncio.run(connection.refuse_other_installation("mine"))
    seen[identity_for("other")] = time.time()
    with pytest.raises(NotReady, match="serves installation other, and the database has installation mine"):
        asyncio.run(connection.refuse_other_installation("mine"))
    seen[identity_for("mine")] = time.time()
    asyncio.run(connection.refuse_other_installation("mine"))
