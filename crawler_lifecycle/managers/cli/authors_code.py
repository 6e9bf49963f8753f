"""Reports errors and doubtful settings in an author's code, without a traceback of crawlctl."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from crawler_lifecycle.console.common import print_to_stderr
from crawler_lifecycle.errors import BadInput, LifecycleError

if TYPE_CHECKING:
    from crawler_lifecycle.managers import BaseLoopScript


@contextmanager
def refusals_of_a_function(name: str) -> Iterator[None]:
    """Raise BadInput, with the error and its place, where the author's function raises."""
    from crawler_lifecycle.flows.authors.tracebacks import cause

    with _refusals(name, cause):
        yield


@contextmanager
def refusals_of_a_class(author: type) -> Iterator[None]:
    """Raise BadInput, with the error, its place and the author's frames, where the author's class raises."""
    from crawler_lifecycle.flows.authors.tracebacks import cause_with_frames

    with _refusals(author.__name__, lambda error: cause_with_frames(error, author)):
        yield


@contextmanager
def _refusals(field: str, in_words: Callable[[Exception], str]) -> Iterator[None]:
    """Raise BadInput for an error in author's code. Our own refusals pass."""
    try:
        yield
    except LifecycleError:
        raise
    except Exception as error:
        raise BadInput(field, in_words(error)) from error


def warn_of_a_single_cycle(manager: "BaseLoopScript") -> None:
    """Print a warning for a generator's manager that closes after its first cycle, whatever the generator has left."""
    from crawler_lifecycle.managers.authors.generator_manager import SINGLE_CYCLE, GeneratorCrawlManager

    if isinstance(manager, GeneratorCrawlManager) and not manager.loop_mode:
        print_to_stderr(f"warning: {SINGLE_CYCLE}; `loop_mode = 60` or --loop-mode 60 lets the manager continue")
