"""A headless Firefox for tests, spoken to in WebDriver BiDi over one websocket, without a driver between."""

import asyncio
import json
import os
import shutil
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Any

from websockets.asyncio.client import ClientConnection

from tests.browser.driven import PATIENCE, Driven, Refused
from tests.browser.programs import running

PROGRAMS = ("firefox-esr", "firefox")
FLAGS = ("--headless", "--no-remote", "--remote-debugging-port", "0")
KEYS = {"Enter": "\ue007", "Escape": "\ue00c", "Tab": "\ue004"}  # as WebDriver names them; others are their text
# Firefox tells no client of a breach of the page's policy, but it tells of what the page writes to the console.
POLICY = """() => addEventListener("securitypolicyviolation",
    (event) => console.error("policy", event.violatedDirective, event.blockedURI))"""


def program() -> str | None:
    return next((path for name in PROGRAMS if (path := shutil.which(name))), None)


class Page(Driven):
    """One tab. Everything that is awaited has a limit."""

    def __init__(self, connection: ClientConnection) -> None:
        super().__init__()
        self._connection = connection
        self._answers: dict[int, asyncio.Future[dict[str, Any]]] = {}
        self._number = 0
        self._tab = ""
        self._reader = asyncio.create_task(self._read())

    async def attach(self) -> None:
        await self.ask("session.new", capabilities={})
        self._tab = (await self.ask("browsingContext.getTree"))["contexts"][0]["context"]
        await self.ask("session.subscribe", events=["log.entryAdded"])
        await self.ask("script.addPreloadScript", functionDeclaration=POLICY)

    async def ask(self, method: str, **parameters: Any) -> dict[str, Any]:
        self._number += 1
        answer = self._answers[self._number] = asyncio.get_running_loop().create_future()
        await self._connection.send(json.dumps({"id": self._number, "method": method, "params": parameters}))
        async with asyncio.timeout(PATIENCE):
            result: dict[str, Any] = await answer
        return result

    async def open(self, url: str) -> None:
        await self.ask("browsingContext.navigate", context=self._tab, url=url, wait="interactive")

    async def evaluate(self, expression: str) -> Any:
        script = f"(async () => JSON.stringify(await ({expression})))()"
        target = {"context": self._tab}
        answer = await self.ask("script.evaluate", expression=script, target=target, awaitPromise=True)
        assert answer["type"] == "success", answer
        text = answer["result"].get("value")
        return None if text is None else json.loads(text)

    async def look_like(self, width: int, height: int) -> None:
        size = {"width": width, "height": height}
        await self.ask("browsingContext.setViewport", context=self._tab, viewport=size)

    async def press_mouse(self, selector: str, text: str = "") -> None:
        x, y = await self.place_of(selector, text)
        move = {"type": "pointerMove", "x": round(x), "y": round(y)}
        await self._act("pointer", [move, {"type": "pointerDown", "button": 0}])

    async def release_mouse(self) -> None:
        await self._act("pointer", [{"type": "pointerUp", "button": 0}])

    async def press(self, key: str) -> None:
        value = KEYS.get(key, key)
        await self._act("key", [{"type": kind, "value": value} for kind in ("keyDown", "keyUp")])

    async def type(self, text: str) -> None:
        """Type into the element that has the focus."""
        for character in text:
            await self.press(character)

    async def close(self) -> None:
        await self.ask("browser.close")
        self._reader.cancel()
        await asyncio.gather(self._reader, return_exceptions=True)

    async def _act(self, device: str, actions: list[dict[str, Any]]) -> None:
        source = {"type": device, "id": device, "actions": actions}
        await self.ask("input.performActions", context=self._tab, actions=[source])

    async def _read(self) -> None:
        async for raw in self._connection:
            message = json.loads(raw)
            if answer := self._answers.pop(message.get("id", 0), None):
                if message["type"] == "error":
                    answer.set_exception(Refused(message["message"]))
                else:
                    answer.set_result(message["result"])
            elif message.get("method") == "log.entryAdded" and message["params"]["level"] == "error":
                self.errors.append(message["params"]["text"])


@asynccontextmanager
async def firefox(folder: Path) -> AsyncIterator[Page]:
    """Start a browser with an empty profile. Nothing of the browser is left running afterwards."""
    path, profile = program(), folder / "firefox"
    assert path
    profile.mkdir()
    command = [path, *FLAGS, "--profile", str(profile), "about:blank"]
    environment = os.environ | {"MOZ_CRASHREPORTER_DISABLE": "1"}
    async with running(command, folder / "firefox.log", partial(_address, profile), environment) as connection:
        page = Page(connection)
        await page.attach()
        try:
            yield page
        finally:
            await page.close()


def _address(profile: Path) -> str | None:
    """Return the address of the websocket, as soon as Firefox has written the whole file with its port."""
    server_file = profile / "WebDriverBiDiServer.json"
    if not (server_file.exists() and server_file.read_text().rstrip().endswith("}")):
        return None
    return f"ws://127.0.0.1:{json.loads(server_file.read_text())['ws_port']}/session"
