"""A door's process that dies between the commit of its request and the nudge to the flow's supervisor.

python -m tests.crash.dying_door VERB [FLOW] REQUEST
"""

import asyncio
import os
import signal
import sys
from unittest.mock import patch

from crawler_lifecycle.assembly.control import Control
from crawler_lifecycle.flows.model.requests import AppendMembers, CancelMembers, FlowRequest, PushFlow, RetryMembers
from crawler_lifecycle.temporal.engine import Engine

REQUESTS: dict[str, type[FlowRequest]] = {
    "push": PushFlow,
    "append": AppendMembers,
    "retry": RetryMembers,
    "cancel": CancelMembers,
}


async def _die(*_: object) -> None:
    os.kill(os.getpid(), signal.SIGKILL)


async def _ask(verb: str, *given: str) -> None:
    *flow, request = given
    method = "change" if verb in ("retry", "cancel") else verb
    await getattr(Control.open().flows, method)(*flow, REQUESTS[verb].model_validate_json(request))


if __name__ == "__main__":
    with patch.object(Engine, "nudge_flow", _die):
        asyncio.run(_ask(*sys.argv[1:]))
