"""Reports errors in an author's code by the author's own lines, without a traceback of crawlctl."""

from collections.abc import Iterator
from contextlib import contextmanager

from crawler_lifecycle.errors import BadInput, LifecycleError


@contextmanager
def refusals_of_a_function(name: str) -> Iterator[None]:
    """Raise BadInput, with the error and its place, where the author's function raises."""
    from crawler_lifecycle.flows.authors import cause

    try:
        yield
    except LifecycleError:
        raise
    except Exception as error:
        raise BadInput(name, cause(error)) from error


@contextmanager
def refusals_of_a_class(author: type) -> Iterator[None]:
    """Raise BadInput, with the error, its place and the author's frames, where the author's class raises."""
    from crawler_lifecycle.flows.authors import cause_with_frames

    try:
        yield
    except LifecycleError:
        raise
    except Exception as error:
        field, _, expected = cause_with_frames(error, author).partition(": ")
        raise BadInput(field, expected) from error
