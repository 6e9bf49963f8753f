"""Failures of authors' code, as the host of a manager hears of them."""

import traceback

from crawler_lifecycle.errors import PermanentError


class AuthorsFailure(PermanentError):
    """Author's code raised. Nothing of its hook is on record."""

    def __init__(self, phase: str, job: str | None, error: BaseException) -> None:
        super().__init__(f"{phase}: {type(error).__name__}: {error}")
        self.phase = phase
        self.job = job
        self.error = "".join(traceback.format_exception(error))
