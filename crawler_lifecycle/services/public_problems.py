"""Removes local paths from error messages that strangers may read: `/readyz` needs no token."""

import logging
import re
from collections.abc import Iterator
from contextlib import contextmanager

from crawler_lifecycle.errors import LifecycleError, TemporaryError

logger = logging.getLogger(__name__)
# A slash after a letter, a digit, a colon or another slash is part of an address, such as http://host/name, and a slash
# after a dot, a tilde or a hyphen is part of a relative path. A bracket or the full stop at the end of a sentence is no
# part of the path.
PATH = re.compile(r"(?<![\w/.:~-])/[^\s'\"`),;]*[^\s'\"`),;:.]")


def without_paths(message: str) -> str:
    return PATH.sub("<path>", message)


class PublicProblems:
    """Hides paths from clients. The log gets the whole message, but a repeated problem only once."""

    def __init__(self) -> None:
        self._logged: str | None = None  # the last logged message; None: the last block raised no error

    @contextmanager
    def hide_paths(self) -> Iterator[None]:
        """Raise an error from the block again as a TemporaryError without paths."""
        try:
            yield
        except LifecycleError as error:
            self._log(error.message)
            raise TemporaryError(without_paths(error.message), cause=error.cause) from error
        self._logged = None

    def _log(self, message: str) -> None:
        if message != self._logged:
            logger.warning("not ready: %s", message)
        self._logged = message
