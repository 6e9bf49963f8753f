"""Check of the API's callers: a caller needs a valid token and may send a limited number of requests a second."""

import math
import time
from collections.abc import Callable
from dataclasses import dataclass, field

from starlette.responses import Response
from starlette.types import Scope

from crawler_lifecycle.errors import LifecycleError
from crawler_lifecycle.services.api.tokens import Tokens
from crawler_lifecycle.services.gate import no_token
from crawler_lifecycle.services.problems import RETRY_AFTER_SECONDS, problem

BURST = 4  # a caller may send so many seconds' worth of requests at once
MOST_CALLERS = 10_000  # above this number all buckets are forgotten, so that strangers cannot fill the memory


@dataclass
class RateLimit:
    """Limits every caller's requests. A caller's bucket fills steadily, and a request takes a unit."""

    per_second: float
    clock: Callable[[], float] = time.monotonic
    _buckets: dict[str, tuple[float, float]] = field(default_factory=dict)

    def take(self, caller: str) -> float:
        """Take a unit from the caller's bucket and return 0, or return the seconds until the bucket has a unit."""
        now, most = self.clock(), max(1.0, self.per_second * BURST)
        if len(self._buckets) > MOST_CALLERS:
            self._buckets.clear()
        units, since = self._buckets.get(caller, (most, now))
        units = min(most, units + (now - since) * self.per_second)
        if units < 1:
            self._buckets[caller] = (units, now)
            return (1 - units) / self.per_second
        self._buckets[caller] = (units - 1, now)
        return 0.0


class ApiCallerCheck:
    """Refuse a caller without a valid token or with too many requests. Endpoints find the token in `state.caller`."""

    def __init__(self, tokens: Tokens, per_second: float) -> None:
        self.tokens = tokens
        self.rate_limit = RateLimit(per_second)

    def __call__(self, given: str, scope: Scope) -> Response | None:
        try:
            caller = self.tokens.find(given) if given else None
        except LifecycleError as error:
            return problem(503, error.message, headers={"Retry-After": str(RETRY_AFTER_SECONDS)})
        address = (scope.get("client") or ("unknown",))[0]
        pause = self.rate_limit.take(f"token {caller.name}" if caller else f"address {address}")
        if pause:
            return problem(429, "too many requests", headers={"Retry-After": str(math.ceil(pause))})
        if caller is None:
            return no_token()
        scope.setdefault("state", {})["caller"] = caller
        return None
