"""Stack for integration tests: the embedded stack in a temporary folder, with a host for the author's modules."""

import logging
import os
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from crawler_lifecycle.client.blocking import LoopThread
from crawler_lifecycle.settings import PREFIX
from crawler_lifecycle.settings.installation import TEMPORAL
from crawler_lifecycle.stack.plan import DEFAULT, Ports, StepModules, make_plan
from crawler_lifecycle.stack.stack import Stack, owned

logger = logging.getLogger(__name__)


@contextmanager
def temporary_stack(
    modules: Sequence[str] = (), catalogue: Path | None = None, queues: Sequence[str] = ("default",)
) -> Iterator[Path]:
    """Run the stack during the block, on free ports, and yield its state folder.

    `modules`: modules or .py files with steps, and `queues` for their host. `catalogue`: file with crawlers;
    default: the examples.
    """
    with tempfile.TemporaryDirectory(prefix="flow-tests-", ignore_cleanup_errors=True) as folder:
        state = Path(folder).resolve() / "state"
        with _without_settings(), owned(state), LoopThread() as thread:
            plan = make_plan(state, Ports.free(), catalogue or DEFAULT, StepModules(tuple(modules), tuple(queues)))
            running = Stack(plan, logger.info, temporary=True).running()
            thread.run(running.__aenter__())
            try:
                yield state
            finally:
                thread.run(running.__aexit__(None, None, None))


@contextmanager
def _without_settings() -> Iterator[None]:
    """Remove all settings from the environment during the block: a test must not use another installation."""
    removed = {name: os.environ.pop(name) for name in list(os.environ) if name.startswith((PREFIX, TEMPORAL))}
    try:
        yield
    finally:
        os.environ.update(removed)
