"""How is a receiver of notices asked over HTTP? In bounded time, without following it elsewhere."""

import httpx

from crawler_lifecycle.adapters.http_deadline import DeadlineTransport


def make_http(timeout: float) -> httpx.Client:
    """May be used by several threads at once; one request takes `timeout` in all, each phase its share."""
    shares = httpx.Timeout(connect=0.2 * timeout, pool=0.1 * timeout, write=0.1 * timeout, read=0.6 * timeout)
    return httpx.Client(timeout=shares, transport=DeadlineTransport(timeout))
