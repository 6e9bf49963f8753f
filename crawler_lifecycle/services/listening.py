"""Listening socket of an HTTP service."""

import socket
from urllib.parse import urlsplit

from crawler_lifecycle.errors import NotReady


def listen(url: str, variable: str) -> socket.socket:
    """Return a socket on the URL's address, or raise NotReady with the setting's name."""
    try:
        parts = urlsplit(url)
        host, port = parts.hostname or "", 80 if parts.port is None else parts.port
        family = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0][0]
        return socket.create_server((host, port), family=family)
    except (ValueError, OSError) as error:
        reason = getattr(error, "strerror", None) or error
        raise NotReady(f"{variable}: cannot listen on {url}: {reason}") from error
