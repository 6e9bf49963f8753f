"""A browser's tab for tests, whichever protocol drives the browser: waits, texts and places of elements."""

import asyncio
import json
import time
from abc import ABC, abstractmethod
from typing import Any

PATIENCE = 60.0
RESTING_PLACE = """(async () => {
    const frame = () => new Promise(requestAnimationFrame)
    const middle = () => {
        const found = FIND
        found?.scrollIntoView({block: 'center'})
        const box = found?.getBoundingClientRect()
        return box && [box.x + box.width / 2, box.y + box.height / 2]
    }
    const before = middle()
    await frame()
    await frame()
    const place = middle(), hit = place && document.elementFromPoint(...place)
    return String(before) === String(place) && hit && FIND.parentElement.contains(hit) && place
})()"""


class Refused(Exception):
    """The browser cannot do that now."""


class Driven(ABC):
    """Everything that is awaited has a limit. `errors`: failures of the page's scripts, and breaches of its policy."""

    def __init__(self) -> None:
        self.errors: list[str] = []

    @abstractmethod
    async def evaluate(self, expression: str) -> Any:
        """Return the value of a JavaScript expression. Raise Refused while there is no document."""

    @abstractmethod
    async def press_mouse(self, selector: str, text: str = "") -> None:
        """Press the button on the element that `place_of` finds."""

    @abstractmethod
    async def release_mouse(self) -> None:
        """Release the button where it was pressed."""

    async def until(self, expression: str, patience: float = PATIENCE) -> None:
        """Until this is true of the page."""
        deadline = time.monotonic() + patience
        asked = f"(() => {{ try {{ return Boolean({expression}) }} catch {{ return false }} }})()"
        while True:
            try:
                if await self.evaluate(asked):
                    return
            except Refused:  # between two documents there is nothing to ask
                pass
            assert time.monotonic() < deadline, f"never: {expression}\n{await self.text()}\n{self.errors}"
            await asyncio.sleep(0.1)

    async def text(self) -> str:
        return str(await self.evaluate("document.body?.innerText"))

    async def until_text(self, *words: str, patience: float = PATIENCE) -> None:
        for each in words:
            await self.until(f"document.body.innerText.includes({json.dumps(each)})", patience)

    async def _resting_place(self, find: str) -> list[float]:
        """Return the middle of an element as soon as the element rests for two frames and a click there meets it.

        A row of a table counts as a whole: its link lies over every cell.
        """
        rest = RESTING_PLACE.replace("FIND", find)
        deadline = time.monotonic() + PATIENCE
        while not (place := await self.evaluate(rest)):
            assert time.monotonic() < deadline, f"never at rest: {find}\n{await self.text()}\n{self.errors}"
            await asyncio.sleep(0.05)
        resting: list[float] = place
        return resting

    async def place_of(self, selector: str, text: str = "") -> list[float]:
        """Return the middle of the first visible element that fits and has this text, as soon as it rests."""
        find = (
            f"[...document.querySelectorAll({json.dumps(selector)})].find((each) => each.checkVisibility()"
            f" && !each.disabled && each.textContent.includes({json.dumps(text)}))"
        )
        await self.until(f"Boolean({find})")
        return await self._resting_place(find)

    async def click(self, selector: str, text: str = "") -> None:
        """Click the first visible element that fits and has this text, where its middle is, as a mouse would."""
        await self.press_mouse(selector, text)
        await self.release_mouse()
