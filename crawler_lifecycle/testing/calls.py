"""Find and call steps' functions, async functions on one loop for the whole play."""

import asyncio
import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextvars import copy_context
from importlib import import_module
from pathlib import PurePath
from types import ModuleType
from typing import Any

from crawler_lifecycle.errors import NotFound


def loaded(function: str) -> Callable[..., Any]:
    """Return the function or class for `module:qualname`; raise NotFound if the module has no such function."""
    module, _, name = function.partition(":")
    try:
        target: Any = getattr(_module(module), name)
    except (ImportError, AttributeError) as error:
        raise NotFound(f"no function {function}: {error}") from error
    if not callable(target):
        raise NotFound(f"no function {function}: the module has {target!r}"[:300])
    return target  # type: ignore[no-any-return]


def _module(name: str) -> ModuleType:
    """Return the module. The main program has the name of its file, and is not imported a second time."""
    main = sys.modules["__main__"]
    is_main = name not in sys.modules and PurePath(getattr(main, "__file__", None) or "").stem == name
    return main if is_main else import_module(name)


class FunctionCaller:
    """Functions see one loop, so an author's client may live longer than a call.

    A test may be async itself. Functions then run in another thread, since a loop already runs in the test's thread.
    """

    def __init__(self) -> None:
        self._runner: asyncio.Runner | None = None
        self._thread: ThreadPoolExecutor | None = None

    def __call__(self, call: Callable[[], Any]) -> Any:
        if not _is_loop_running():
            return self._called(call)
        self._thread = self._thread or ThreadPoolExecutor(1, thread_name_prefix="steps")
        return self._thread.submit(copy_context().run, self._called, call).result()

    def close(self) -> None:
        runner, thread, self._runner, self._thread = self._runner, self._thread, None, None
        if runner is not None and thread is not None:
            thread.submit(runner.close).result()
        elif runner is not None:
            runner.close()
        if thread is not None:
            thread.shutdown()

    def _called(self, call: Callable[[], Any]) -> Any:
        result = call()
        if not asyncio.iscoroutine(result):
            return result
        self._runner = self._runner or asyncio.Runner()
        return self._runner.run(result, context=copy_context())


def _is_loop_running() -> bool:
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return False
    return True
