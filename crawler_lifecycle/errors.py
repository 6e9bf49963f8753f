"""Two families of errors: temporary and permanent.

An adapter translates its library's errors into these families once. The rest of the code asks only whether another try
may help. A message is written for the person who has to act.
"""


class LifecycleError(Exception):
    """An error known to the project. Runs and tasks waiting because of the error show its `cause`."""

    def __init__(self, message: str, *, cause: str | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.cause = cause


class TemporaryError(LifecycleError):
    """The same call may succeed later. The failed call may have had its effect all the same."""


class PermanentError(LifecycleError):
    """The same call can never succeed until a person changes its conditions."""


class BadInput(PermanentError):
    """The caller's input is not acceptable; the message names the field and the expected value."""

    def __init__(self, field: str, expected: str) -> None:
        super().__init__(f"{field}: {expected}")
        self.field = field
        self.expected = expected


class NotFound(PermanentError):
    """The name does not exist here."""


class Conflict(PermanentError):
    """The present state forbids the request: a name or key is taken, or the run's state does not allow the request."""


class Over(Conflict):
    """The run is over, so the request comes too late."""


class Refused(PermanentError):
    """A cluster, service or database understood the request and refused it."""


class Fenced(PermanentError):
    """Another supervisor has taken over the run, and the writer must stop writing."""


class NotReady(TemporaryError):
    """A part is not set up, or has another version. Runs wait until an operator mends the part."""
