"""The trigger process with a death: `python -m tests.triggers.doomed CALL MOMENT NUMBER`.

CALL is an operation of SQS, or POST for a request to the API. The process kills itself with SIGKILL before or after the
call with this number. Everything else is the process of `python -m workers.triggers`.
"""

import os
import signal
import sys
import threading
from typing import Any
from unittest.mock import patch

from botocore.client import BaseClient

from crawler_lifecycle.processes import triggers
from crawler_lifecycle.transport.http_client import HttpClient

POST = "POST"
CALLS = ("ReceiveMessage", POST, "DeleteMessage", "SendMessage", "ChangeMessageVisibility")
MOMENTS = ("before", "after")


class Death:
    def __init__(self, call: str, moment: str, number: int) -> None:
        self._call, self._moment, self._number = call, moment, number
        self._count = 0
        self._lock = threading.Lock()

    def around(self, original: Any) -> Any:
        """Return the method with the death at its call. The first argument is the call's name."""

        def method(client: Any, name: str, *args: Any, **options: Any) -> Any:
            with self._lock:
                self._count += name == self._call
                is_due = name == self._call and self._count == self._number
            if is_due and self._moment == "before":
                os.kill(os.getpid(), signal.SIGKILL)
            answer = original(client, name, *args, **options)
            if is_due:
                os.kill(os.getpid(), signal.SIGKILL)
            return answer

        return method


def main() -> None:
    call, moment, number = sys.argv[1:]
    death = Death(call, moment, int(number))
    with (
        patch.object(BaseClient, "_make_api_call", death.around(BaseClient._make_api_call)),
        patch.object(HttpClient, "request", death.around(HttpClient.request)),
    ):
        triggers.main()


if __name__ == "__main__":
    main()
