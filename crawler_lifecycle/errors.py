"""Errors in two families: temporary (another try may help) and permanent (another try cannot help).

An adapter translates its library's errors into these families once. A message is written for the person with the duty
to act. `code` is the stable name for programs; the HTTP API and `crawlctl --json` report the code.
"""

MOST_MISTAKES_IN_A_MESSAGE = 5


class LifecycleError(Exception):
    """Base class for all errors below. While the error makes a run or task wait, the run or task shows `cause`."""

    code = "failed"

    def __init__(self, message: str, *, cause: str | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.cause = cause


class TemporaryError(LifecycleError):
    """The same call may succeed later. The failed call may or may not have had its effect."""

    code = "not_ready"


class PermanentError(LifecycleError):
    """The same call can never succeed until a person changes its conditions."""


class BadInput(PermanentError):
    """The caller's input is not acceptable; the message names the wrong fields and the expected values.

    `field` and `expected` describe the first mistake, and `mistakes` has all mistakes.
    """

    code = "bad_input"

    def __init__(self, field: str, expected: str, *more: tuple[str, str]) -> None:
        self.field = field
        self.expected = expected
        self.mistakes = ((field, expected), *more)
        shown = [": ".join(mistake) for mistake in self.mistakes[:MOST_MISTAKES_IN_A_MESSAGE]]
        left_out = len(self.mistakes) - len(shown)
        super().__init__("; ".join(shown) + (f" (and {left_out} more)" if left_out else ""))


class NotFound(PermanentError):
    """The requested object, such as a run or a file, does not exist in this installation."""

    code = "not_found"


class Removed(NotFound):
    """The requested object existed, and retention has removed it."""

    code = "removed"


class Conflict(PermanentError):
    """The present state forbids the request: a name or key is taken, or the run's state does not allow the request."""

    code = "refused"


class Over(Conflict):
    """The run or flow is over, so the request comes too late."""

    code = "over"


class Refused(PermanentError):
    """A cluster, service or database understood and refused the request."""


class Fenced(PermanentError):
    """A write came from an outdated supervisor: another supervisor has taken over the run, and the writer must stop."""


class NotReady(TemporaryError):
    """A part, such as the database, is not set up or has another version.

    Runs wait until an operator mends the part.
    """
