"""Errors in authors' code, with places and frames in the authors' files alone."""

import inspect
import sysconfig
import traceback
from collections.abc import Iterator
from pathlib import Path

import crawler_lifecycle
from crawler_lifecycle.errors import LifecycleError

STANDARD_LIBRARY = sysconfig.get_path("stdlib")
PRODUCT = str(Path(crawler_lifecycle.__file__).parent)  # an author looks for the line in the own file


def cause(error: BaseException, author: type | None = None) -> str:
    """Return the error in a line, with its place in the author's code. Without a frame there, name the class."""
    frames = _frames(error)
    place = f" ({frames[-1].filename}, line {frames[-1].lineno})" if frames else _place(author)
    message = " ".join(str(error).split())
    name = "" if isinstance(error, LifecycleError) else type(error).__name__  # our messages need no name
    return ": ".join(filter(None, [name, message])) + place


def cause_with_frames(error: BaseException, author: type) -> str:
    """Return the error in a line, and below the line the frames in the author's code."""
    frames = "".join(traceback.format_list(_frames(error)))
    return f"{cause(error, author)}\n{frames}".rstrip()


def authors_traceback(error: BaseException) -> str:
    """Return the traceback without the frames in our own modules."""
    whole = traceback.TracebackException.from_exception(error)
    for part in _chain(whole):
        part.stack = traceback.StackSummary.from_list([frame for frame in part.stack if PRODUCT not in frame.filename])
    return "".join(whole.format())


def _chain(part: traceback.TracebackException | None) -> Iterator[traceback.TracebackException]:
    if part is not None:
        yield part
        yield from _chain(part.__cause__)
        yield from _chain(part.__context__)


def _frames(error: BaseException) -> list[traceback.FrameSummary]:
    return [frame for frame in traceback.extract_tb(error.__traceback__) if _may_be_authors(frame.filename)]


def _may_be_authors(path: str) -> bool:
    is_library = path.startswith(STANDARD_LIBRARY) and "site-packages" not in path
    return not is_library and "importlib" not in path and PRODUCT not in path


def _place(author: type | None) -> str:
    if author is None:
        return ""
    return f" ({inspect.getsourcefile(author)}, line {inspect.getsourcelines(author)[1]})"
