"""Checks the API's callers for the gate: a caller needs a valid token, and its requests a second are limited."""

import math
import time
from collections.abc import Callable
from dataclasses import dataclass, field

from starlette.responses import Response
from starlette.types import Scope

from crawler_lifecycle.errors import LifecycleError
from crawler_lifecycle.http.gate import no_token
from crawler_lifecycle.http.problems import problem, refusal
from crawler_lifecycle.http.tokens import Tokens

BURST_SECONDS = 4  # after a rest, a caller may send the requests of four seconds at once
LARGEST_NUMBER_OF_BUCKETS = 10_000  # beyond, all buckets are forgotten: strangers must not fill the memory


@dataclass
class RateLimit:
    """Limits the requests of a caller: the caller's bucket gets `per_second` units a second, a request takes a unit."""

    per_second: float
    clock: Callable[[], float] = time.monotonic
    _buckets: dict[str, tuple[float, float]] = field(default_factory=dict)  # by caller: units, and when counted

    def take(self, caller: str) -> float:
        """Take a unit from the caller's bucket and return 0, or return the seconds until the bucket has a unit."""
        now, capacity = self.clock(), max(1.0, self.per_second * BURST_SECONDS)
        if len(self._buckets) > LARGEST_NUMBER_OF_BUCKETS:
            self._buckets.clear()
        units, counted_at = self._buckets.get(caller, (capacity, now))
        units = min(capacity, units + (now - counted_at) * self.per_second)
        if units < 1:
            self._buckets[caller] = (units, now)
            return (1 - units) / self.per_second
        self._buckets[caller] = (units - 1, now)
        return 0.0


class ApiCallerCheck:
    """Refuse a caller without a valid token or with too many requests. Endpoints find the token in `state.caller`.

    Called by the gate: return the refusal, or None to admit the request.
    """

    def __init__(self, tokens: Tokens, per_second: float) -> None:
        self.tokens = tokens
        self.rate_limit = RateLimit(per_second)

    def __call__(self, token: str, scope: Scope) -> Response | None:
        try:
            caller = self.tokens.find(token) if token else None
        except LifecycleError as error:
            return refusal(error)
        address = (scope.get("client") or ("unknown",))[0]
        # strangers are limited before the refusal, by their address, so that no program can try tokens quickly
        wait_seconds = self.rate_limit.take(f"token {caller.name}" if caller else f"address {address}")
        if wait_seconds:
            return problem(429, "too many requests", headers={"Retry-After": str(math.ceil(wait_seconds))})
        if caller is None:
            return no_token()
        scope.setdefault("state", {})["caller"] = caller
        return None
