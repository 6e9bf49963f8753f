"""Removes paths from problems for strangers: `/readyz` needs no token, so its answers must not show local paths."""

import logging
import re
from collections.abc import Iterator
from contextlib import contextmanager

from crawler_lifecycle.errors import LifecycleError, TemporaryError

logger = logging.getLogger(__name__)
# A slash after a letter, a digit, a colon or another slash is part of an address, such as http://host/name. The end of
# a sentence or a bracket is no part of the path.
PATH = re.compile(r"(?<![\w/.:~-])/[^\s'\"`),;]*[^\s'\"`),;:.]")


def without_paths(message: str) -> str:
    return PATH.sub("<path>", message)


class PublicProblems:
    """Shows problems without their paths. The log gets the whole message if the problem is new."""

    def __init__(self) -> None:
        self._logged: str | None = None

    @contextmanager
    def shown(self) -> Iterator[None]:
        """Raise the block's error as a TemporaryError without paths."""
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
