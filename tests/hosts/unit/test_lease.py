"""A host's lease for its attempts."""

import asyncio
from collections.abc import Mapping
from datetime import timedelta
from typing import cast

from crawler_lifecycle.errors import TemporaryError
from crawler_lifecycle.flows.ports.steps import StepLedger
from crawler_lifecycle.hosts.lease import UnderWay


class LedgerAwayAtFirst:
    tries = 0

    def renew(self, _token: str, _lasts: timedelta, _held: object) -> Mapping[object, bool]:
        self.tries += 1
        if self.tries == 1:
            raise TemporaryError("the database is away")
        return {}


async def test_what_waits_for_the_lease_continues_after_a_renewal() -> None:
    under_way = UnderWay(cast(StepLedger, LedgerAwayAtFirst()), "token", timedelta(seconds=1))
    waiting = asyncio.create_task(under_way.hold())
    under_way.start()
    try:
        await asyncio.sleep(0)
        assert not waiting.done()
        await asyncio.wait_for(waiting, 10)
    finally:
        under_way.close()
