"""A host of steps beside a running installation, for the time of a block."""

import os
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from functools import partial

from crawler_lifecycle.control.control import Control
from crawler_lifecycle.errors import NotReady
from crawler_lifecycle.services.embedded.child import Say, StackChild
from crawler_lifecycle.services.embedded.plan import StepModules, steps_part
from crawler_lifecycle.services.embedded.stack import probe_host

OWN_GROUP = 0  # a new process group: Ctrl-C reaches the host only by its parent, which waits for steps under way


@asynccontextmanager
async def hosted(
    steps: StepModules, control: Control, environment: Mapping[str, str], say: Say
) -> AsyncIterator[StackChild]:
    """Run a host of the steps during the block. The block begins when the host asks for steps.

    Linux ends the host with this process, also if this process is killed.
    """
    settings = control.installation.settings
    part = steps_part(steps, settings.flows.drain_seconds, "--end-with-parent")
    log = settings.state / "logs" / f"flows-{os.getpid()}.log"
    host = StackChild(part, dict(environment), log, say, lambda: None)
    try:
        try:
            await host.start(OWN_GROUP)
        except OSError as error:
            raise NotReady(f"the host of steps cannot be started: {error}") from error
        for route in steps.routes:
            await host.wait_ready(partial(probe_host, control, route, host.started_at))
        host.keep_running(lambda: OWN_GROUP)
        yield host
    finally:
        await host.stop()
