import asyncio

import pytest

from crawler_lifecycle.errors import TemporaryError
from crawler_lifecycle.http.state import VALID_SECONDS, Readiness

pytestmark = pytest.mark.regression(
    "Whoever asked without a token whether the API is ready had the database and Temporal asked each time"
)


async def test_what_it_needs_is_asked_once_a_second_however_many_want_to_know() -> None:
    now, asked = [0.0], list[float]()
    readiness = Readiness(lambda: now[0])

    async def look() -> None:
        asked.append(now[0])
        await asyncio.sleep(0)
        if now[0]:
            raise TemporaryError("no answer")

    await asyncio.gather(*(readiness.require(look) for _ in range(20)))
    assert asked == [0.0]
    now[0] = VALID_SECONDS
    answers = await asyncio.gather(*(readiness.require(look) for _ in range(20)), return_exceptions=True)
    assert (asked, {str(each) for each in answers}) == ([0.0, VALID_SECONDS], {"no answer"})
    now[0] = 0.0
    with pytest.raises(TemporaryError):
        await readiness.require(look)
