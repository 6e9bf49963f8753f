"""Import a host's modules by their authors, and find functions in the modules.

An error in authors' code is shown with places and frames in the authors' files alone.
"""

import importlib
import importlib.util
import inspect
import json
import os
import re
import subprocess
import sys
import sysconfig
import traceback
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import ModuleType
from typing import Any

import crawler_lifecycle
from crawler_lifecycle.errors import LifecycleError, NotReady

STANDARD_LIBRARY = sysconfig.get_path("stdlib")
PRODUCT = str(Path(crawler_lifecycle.__file__).parent)  # authors' tracebacks go without its frames
MODULE_NAME = re.compile(r"\w+(\.\w+)*")
IMPORT = f"import json, sys; sys.path[:] = json.loads(sys.argv[1]); from {__name__} import load; load([sys.argv[2]])"
IMPORT_SECONDS = 30.0  # time limit for a new process
_importing: list[str] = []  # targets


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


@dataclass(frozen=True)
class Modules:
    """The authors' modules by name. Another process can import them by the same targets and folder.

    A process starts in the working directory of the import, since a function may have changed the host's.
    """

    modules: Mapping[str, ModuleType]
    targets: Sequence[str] = ()
    broken: Mapping[str, str] = field(default_factory=dict)  # problems of the modules that cannot be imported, by name
    folder: Path | None = None
    working_directory: Path = field(default_factory=Path.cwd)

    @property
    def names(self) -> list[str]:
        return [*self.modules, *self.broken]

    def function(self, reference: str) -> Callable[..., Any] | None:
        """Return the function or class for `module:qualname`; None if no module of the host defines the name.

        A name that the module only imports gives None: a reference names the defining module.
        """
        module_name, _, name = reference.partition(":")
        function: Callable[..., Any] | None = getattr(self.modules.get(module_name), name, None)
        if not callable(function) or getattr(function, "__module__", None) != module_name:
            return None
        return function

    def mended(self) -> str | None:
        """Return a broken target after its repair; None without one. A new process tries the import.

        The host keeps modules from the failed import, even after a repair of their files.
        """
        broken = (target for target in self.targets if name_of(target) in self.broken)
        return next((target for target in broken if self._can_be_imported(target)), None)

    def _can_be_imported(self, target: str) -> bool:
        command = [sys.executable, "-P", "-c", IMPORT, json.dumps(sys.path), target]
        try:
            done = subprocess.run(
                command,
                cwd=self.working_directory,
                timeout=IMPORT_SECONDS,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                check=False,
            )
        except (OSError, subprocess.TimeoutExpired):
            return False
        return done.returncode == 0


def load(targets: Sequence[str], folder: Path | None = None) -> Modules:
    """Import the targets: names of modules, or files. NotReady, with the cause, if no target can be imported.

    `folder`: further place for modules, for a host without the current folder among its places.
    """
    working_directory = Path.cwd()
    if folder is not None:
        _search_first(folder)
    modules: dict[str, ModuleType] = {}
    broken: dict[str, str] = {}
    for target in targets:
        name = name_of(target)
        try:
            modules[name] = _load(target)
        except NotReady as error:
            broken[name] = error.message
    if broken and not modules:
        raise NotReady(next(iter(broken.values())))
    return Modules(modules, targets, broken, folder, working_directory)


def name_of(target: str) -> str:
    """Return the name for the target's module; a file that runs as main gets the same name by `authors.functions`."""
    name = Path(target).stem if is_file(target) else target
    if not MODULE_NAME.fullmatch(name):
        raise NotReady(f"{target}: expected a module such as my_project.flows, or the path of a .py file")
    return name


def is_importing() -> bool:
    """Return whether a target is being imported at present."""
    return bool(_importing)


def is_file(target: str) -> bool:
    return target.endswith(".py") or os.sep in target


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


def _load(target: str) -> ModuleType:
    name = name_of(target)
    path = _usable(name, Path(target)) if is_file(target) else None
    _importing.append(target)
    try:
        return importlib.import_module(name) if path is None else _from_file(name, path)
    except (Exception, SystemExit) as error:  # also an error of ours, such as from a push at the module's top level
        raise NotReady(f"{target} cannot be imported: {cause(error)}") from error
    finally:
        _importing.remove(target)


def _usable(name: str, path: Path) -> Path:
    """Return the file's full path; raise NotReady without the file, or if another module has its name."""
    if not path.is_file():
        raise NotReady(f"{path}: no such file")
    path = path.resolve()
    known = sys.modules.get(name)
    if known is not None and getattr(known, "__file__", None) != str(path):
        raise NotReady(f"{path}: another module has the name {name} already; rename the file")
    return path


def _from_file(name: str, path: Path) -> ModuleType:
    """Import the file as a module, once. Its folder is searched first, as for a script."""
    if name in sys.modules:
        return sys.modules[name]
    _search_first(path.parent)
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module  # a module with dataclasses looks itself up while it is imported
    try:
        spec.loader.exec_module(module)
    except BaseException:
        del sys.modules[name]
        raise
    return module


def _search_first(folder: Path) -> None:
    path = str(folder.resolve())
    if path not in sys.path:
        sys.path.insert(0, path)
