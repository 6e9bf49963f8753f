"""Errors in two families: temporary (another try may help) and permanent (another try cannot help).

An adapter translates its library's errors into these families once. A message is written for the person with the duty
to act.
"""


class LifecycleError(Exception):
    """Base class for all errors below. While the error makes a run or task wait, the run or task shows `cause`."""

    def __init__(self, message: str, *, cause: str | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.cause = cause


class TemporaryError(LifecycleError):
    """The same call may succeed later. The failed call may or may not have had its effect."""


class PermanentError(LifecycleError):
    """The same call can never succeed until a person changes its conditions."""


class BadInput(PermanentError):
    """The caller's input is not acceptable; the message names the field and the expected value."""

    def __init__(self, field: str, expected: str) -> None:
        super().__init__(f"{field}: {expected}")
        self.field = field
        self.expected = expected


class NotFound(PermanentError):
    """The requested object, such as a run or a file, does not exist in this installation."""


class Conflict(PermanentError):
    """The present state forbids the request: a name or key is taken, or the run's state does not allow the request."""


class Over(Conflict):
    """The run is over, so the request comes too late."""


class Refused(PermanentError):
    """A cluster, service or database understood and refused the request."""


class Fenced(PermanentError):
    """A write came from an outdated supervisor: another supervisor has taken over the run, and the writer must stop."""


class NotReady(TemporaryError):
    """A part, such as the database, is not set up or has another version.

    Runs wait until an operator mends the part.
    """
