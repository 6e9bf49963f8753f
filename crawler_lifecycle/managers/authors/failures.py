"""Failures of authors' code, as the host of a manager hears of them."""

from crawler_lifecycle.errors import PermanentError
from crawler_lifecycle.flows.authors.tracebacks import authors_traceback
from crawler_lifecycle.flows.model.turns import GENERATOR_CHANGED


class AuthorsFailure(PermanentError):
    """Author's code raised. No effect of its hook is stored."""

    def __init__(self, phase: str, job: str | None, error: BaseException) -> None:
        super().__init__(f"{phase}: {type(error).__name__}: {error}")
        self.phase = phase
        self.job = job
        self.error = authors_traceback(error)


class GeneratorChanged(AuthorsFailure):
    """The generator yields other parameter sets than before. People decide: a resume continues with the new sets."""

    def __init__(self, position: int) -> None:
        error = ValueError(
            f"the first {position} parameter sets are not those of the previous reading, and dedup is off: after a "
            "resume, that many sets are left out, and the sets after them become jobs"
        )
        super().__init__(GENERATOR_CHANGED, None, error)
