"""Errors of the service, in two families: temporary (another try may help) and permanent (no other try can help).

An adapter translates the errors of its library into these families once. A message is written for the person who has to
act.
"""


class LifecycleError(Exception):
    """Base class of all errors below. `cause` is the cause that a run or task shows while the error makes it wait."""

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
    """A cluster, service or database understood the request and refused it."""


class Fenced(PermanentError):
    """A write came from an outdated supervisor: another supervisor has taken over the run, and the writer must stop."""


class NotReady(TemporaryError):
    """A part of the installation, such as the database, is not set up or has another version.

    Runs wait until an operator mends the part.
    """
