"""A headless Chromium for tests, spoken to in its own protocol (CDP) over one websocket."""

import asyncio
import base64
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

PROGRAMS = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
OTHER_NAME = "crawls.test"  # of this machine: pages of it are not trusted as those of localhost are
FLAGS = (
    "--headless", "--disable-gpu", "--no-first-run", "--disable-background-networking", "--disable-component-update",
    "--disable-sync", "--disable-extensions", "--disable-dev-shm-usage", "--mute-audio", "--hide-scrollbars",
    f"--host-resolver-rules=MAP {OTHER_NAME} 127.0.0.1",
    "--remote-debugging-port=0", "--remote-debugging-address=127.0.0.1",
)  # fmt: skip
DESKTOP, PHONE = (1280, 900), (390, 780)
KEYS = {
    "Enter": (13, "\r"), "Escape": (27, ""), "Tab": (9, ""), "n": (78, "n"), "/": (191, "/"), " ": (32, " "),
    "j": (74, "j"), "k": (75, "k"), "?": (191, "?"),
}  # fmt: skip


def program() -> str | None:
    return next((found for name in PROGRAMS if (found := shutil.which(name))), None)


class Page(Driven):
    """One tab. Everything that is awaited has a limit."""

    def __init__(self, connection: ClientConnection) -> None:
        super().__init__()
        self._connection = connection
        self._answers: dict[int, asyncio.Future[dict[str, Any]]] = {}
        self._number = 0
        self._session: str | None = None
        self._mouse: dict[str, Any] = {}
        self._reader = asyncio.create_task(self._read())

    async def attach(self) -> None:
        targets = (await self.ask("Target.getTargets"))["targetInfos"]
        target = next(each["targetId"] for each in targets if each["type"] == "page")
        attached = await self.ask("Target.attachToTarget", targetId=target, flatten=True)
        self._session = attached["sessionId"]
        for domain in ("Page", "Runtime", "Log"):
            await self.ask(f"{domain}.enable")

    async def ask(self, method: str, **parameters: Any) -> dict[str, Any]:
        return await self._ask(self._session, method, parameters)

    async def _ask(self, session: str | None, method: str, parameters: dict[str, Any]) -> dict[str, Any]:
        self._number += 1
        message: dict[str, Any] = {"id": self._number, "method": method, "params": parameters}
        if session:
            message["sessionId"] = session
        answer = self._answers[self._number] = asyncio.get_running_loop().create_future()
        await self._connection.send(json.dumps(message))
        async with asyncio.timeout(PATIENCE):
            result: dict[str, Any] = await answer
        return result

    async def open(self, url: str) -> None:
        await self.ask("Page.navigate", url=url)

    async def reload(self) -> None:
        await self.ask("Page.reload")

    async def evaluate(self, expression: str) -> Any:
        answer = await self.ask("Runtime.evaluate", expression=expression, returnByValue=True, awaitPromise=True)
        assert "exceptionDetails" not in answer, answer["exceptionDetails"]
        return answer["result"].get("value")

    @asynccontextmanager
    async def tab_in_front(self, url: str, ready: str) -> AsyncIterator[None]:
        """One more, as soon as this is true of it."""
        target = str((await self.ask("Target.createTarget", url=url))["targetId"])
        try:
            tab = (await self.ask("Target.attachToTarget", targetId=target, flatten=True))["sessionId"]
            async with asyncio.timeout(PATIENCE):
                while not await self._is_true_in(tab, ready):
                    await asyncio.sleep(0.1)
            yield
        finally:
            await self.ask("Target.closeTarget", targetId=target)

    async def _is_true_in(self, tab: str, expression: str) -> bool:
        try:
            answer = await self._ask(tab, "Runtime.evaluate", {"expression": expression})
        except Refused:  # it has no document yet
            return False
        return bool(answer["result"].get("value"))

    async def press_mouse(self, selector: str, text: str = "") -> None:
        x, y = await self.place_of(selector, text)
        self._mouse = {"x": x, "y": y, "button": "left", "clickCount": 1}
        await self.ask("Input.dispatchMouseEvent", type="mousePressed", **self._mouse)

    async def release_mouse(self) -> None:
        """Release the button where it was pressed."""
        await self.ask("Input.dispatchMouseEvent", type="mouseReleased", **self._mouse)

    async def type(self, text: str) -> None:
        """Into what has the focus."""
        await self.ask("Input.insertText", text=text)

    async def press(self, key: str) -> None:
        code, text = KEYS[key]
        common = {"key": key, "windowsVirtualKeyCode": code}
        await self.ask("Input.dispatchKeyEvent", type="keyDown", text=text, **common)
        await self.ask("Input.dispatchKeyEvent", type="keyUp", **common)

    async def look_like(self, width: int, height: int, *, dark: bool = False, mobile: bool = False) -> None:
        size = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": mobile}
        await self.ask("Emulation.setDeviceMetricsOverride", **size)
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        await self.ask("Emulation.setEmulatedMedia", features=[scheme])

    @asynccontextmanager
    async def on_a_phone(self) -> AsyncIterator[None]:
        """Look like a phone, and like a desktop afterwards."""
        await self.look_like(*PHONE, mobile=True)
        try:
            yield
        finally:
            await self.look_like(*DESKTOP)

    async def screenshot(self, path: Path) -> None:
        shot = await self.ask("Page.captureScreenshot", format="png")
        path.write_bytes(base64.b64decode(shot["data"]))

    async def close(self) -> None:
        self._reader.cancel()
        await asyncio.gather(self._reader, return_exceptions=True)

    async def _read(self) -> None:
        async for raw in self._connection:
            message = json.loads(raw)
            if answer := self._answers.pop(message.get("id", 0), None):
                if "error" in message:
                    answer.set_exception(Refused(message["error"]["message"]))
                else:
                    answer.set_result(message["result"])
            else:
                self._note(message)

    def _note(self, message: dict[str, Any]) -> None:
        """What the page's script has done wrong, and what its policy has kept it from."""
        parameters = message.get("params", {})
        if message.get("method") == "Runtime.exceptionThrown":
            details = parameters["exceptionDetails"]
            self.errors.append(details.get("exception", {}).get("description") or details["text"])
        elif message.get("method") == "Log.entryAdded" and parameters["entry"]["source"] in ("security", "javascript"):
            self.errors.append(parameters["entry"]["text"])


@asynccontextmanager
async def chromium(folder: Path) -> AsyncIterator[Page]:
    """A browser of its own, with nothing in it, gone afterwards."""
    found = program()
    assert found
    as_root = ["--no-sandbox"] if os.geteuid() == 0 else []
    profile = folder / "chromium"
    command = [found, *FLAGS, *as_root, f"--user-data-dir={profile}", "about:blank"]
    async with running(command, folder / "chromium.log", partial(_address, profile)) as connection:
        page = Page(connection)
        await page.attach()
        try:
            yield page
        finally:
            await page.close()


def _address(profile: Path) -> str | None:
    """Return the address of the websocket, from port and path in a file of two lines."""
    port_file = profile / "DevToolsActivePort"
    lines = port_file.read_text().splitlines() if port_file.exists() else []
    return f"ws://127.0.0.1:{lines[0]}{lines[1]}" if len(lines) == 2 else None
