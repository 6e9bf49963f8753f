"""HTTP APIs to test against: the app served for real on loopback, callers with tokens, and its streams read line by
line."""

import json
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import pytest
import uvicorn
from fastapi import FastAPI

from crawler_lifecycle.assembly.control import Control
from crawler_lifecycle.http.http_process import server_config
from crawler_lifecycle.http.tokens import Scope, Tokens
from crawler_lifecycle.model.deployment import Problem
from crawler_lifecycle.processes.api import ROUTERS
from crawler_lifecycle.settings.installation import Installation
from crawler_lifecycle.web.app import make_app

DOCUMENT = Path(__file__).parents[3] / "docs" / "api-openapi.json"
PATIENCE = 60.0


@dataclass(frozen=True)
class Event:
    kind: str
    data: dict[str, Any]
    id: str | None


@dataclass
class Api:
    """One served API, and tokens for it."""

    url: str
    tokens: Tokens
    app: FastAPI

    def token(self, *scopes: Scope) -> str:
        return self.tokens.make(f"token-{len(self.tokens.all())}", scopes)

    def client(self, *scopes: Scope, token: str | None = None) -> httpx.Client:
        headers = {"Authorization": f"Bearer {token or self.token(*(scopes or tuple(Scope)))}"}
        return httpx.Client(base_url=self.url, headers=headers, timeout=PATIENCE, trust_env=False)


@contextmanager
def served(state: Path, database_url: str, **settings: str) -> Iterator[Api]:
    """An API on this database; `settings` by their variables' names."""
    variables = {"CRAWLER_DATABASE__URL": database_url, "TEMPORAL_ADDRESS": "127.0.0.1:1", **settings}
    control = Control(Installation.with_variables(state, variables))
    chosen = control.installation.settings
    with socket.create_server(("127.0.0.1", 0)) as listening:
        app = make_app(control, chosen, ROUTERS)
        server = uvicorn.Server(server_config(app, timeout_graceful_shutdown=5))
        thread = threading.Thread(target=server.run, args=([listening],), daemon=True)
        thread.start()
        try:
            yield Api(f"http://127.0.0.1:{listening.getsockname()[1]}", Tokens(chosen.tokens_file), app)
        finally:
            app.state.api.closing.set()
            server.should_exit = True
            thread.join(20)
            control.parts.database.close()
            assert not thread.is_alive()


@pytest.fixture
def api(database_url: str, tmp_path: Path) -> Iterator[Api]:
    with served(tmp_path, database_url) as api:
        yield api


@contextmanager
def stream(http: httpx.Client, path: str, last: str | None = None) -> Iterator[Iterator[Event]]:
    headers = {"Last-Event-ID": last} if last is not None else {}
    with http.stream("GET", path, headers=headers) as response:
        assert response.status_code == 200, response.read()
        assert response.headers["content-type"].startswith("text/event-stream")
        yield _events(response.iter_lines())


def _events(lines: Iterator[str]) -> Iterator[Event]:
    fields: dict[str, str] = {}
    for line in lines:
        if line and not line.startswith(":"):
            name, _, value = line.partition(": ")
            fields[name] = value
        elif not line and fields:
            yield Event(fields["event"], json.loads(fields["data"]), fields.get("id"))
            fields = {}


def problem(response: httpx.Response, status: int, field: str | None = None) -> Problem:
    assert response.status_code == status, response.text
    assert response.headers["content-type"] == "application/problem+json"
    told = Problem.model_validate(response.json())
    assert told.status == status
    if field is not None:
        assert told.field == field, told
    return told
