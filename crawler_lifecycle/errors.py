"""Which failures are worth another try, and which never are?

The adapters translate what their libraries raise into these two families, once. Everything above
only asks: temporary or permanent. The message is written for the person who has to act on it.
"""


class LifecycleError(Exception):
    """Something this project understands went wrong. `cause`: one word for it, where people wait because of it."""

    def __init__(self, message: str, *, cause: str | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.cause = cause


class TemporaryError(LifecycleError):
    """The same call may succeed later; nothing is known to have changed."""


class PermanentError(LifecycleError):
    """The same call can never succeed; somebody has to change something first."""


class BadInput(PermanentError):
    """What the caller sent is not acceptable; the message names the field and what was expected."""

    def __init__(self, field: str, expected: str) -> None:
        super().__init__(f"{field}: {expected}")
        self.field = field
        self.expected = expected


class NotFound(PermanentError):
    """There is nothing by that name here."""


class Conflict(PermanentError):
    """The name is taken by something else, and it stays taken."""


class Over(Conflict):
    """The run has ended: what was asked for cannot be done to it any more."""


class Refused(PermanentError):
    """The other side understood the request and will not do it."""


class Fenced(PermanentError):
    """Another supervisor has taken over this run: this one must not write any more."""


class NotReady(TemporaryError):
    """A part of the installation is not set up, or for another version, until somebody mends it: no run ends by it."""
