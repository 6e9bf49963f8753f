"""A cancel of an archive ended the thread that the archive was about to start, and the worker hung.

The SDK raises a cancel in an activity's thread by the thread's number. A thread that is being started has the number of
its starter for a moment.
"""

import pytest
from temporalio import activity
from temporalio.exceptions import CancelledError
from temporalio.testing import ActivityEnvironment

from crawler_lifecycle.delivery.activities.exports import Heartbeats
from tests.crash.calls import HOLDERS

pytestmark = pytest.mark.regression(
    "A cancel of an archive ended the thread that the archive was about to start, and the worker hung"
)


@activity.defn(no_thread_cancel_exception=True)
def report_progress(environment: ActivityEnvironment) -> None:
    environment.cancel()
    Heartbeats()(files=1, bytes_done=1)


def test_a_cancelled_archive_ends_at_a_heartbeat() -> None:
    environment = ActivityEnvironment()
    with pytest.raises(CancelledError, match="archive"):
        environment.run(report_progress, environment)
    assert not hasattr(environment, "heartbeats")


def test_no_thread_takes_a_cancel() -> None:
    definitions = [getattr(holder, name).__temporal_activity_definition for name, holder in HOLDERS.items()]
    in_threads = [definition for definition in definitions if not definition.is_async]
    assert "export_supporting_files" in {definition.name for definition in in_threads}
    assert [thread.name for thread in in_threads if not thread.no_thread_cancel_exception] == []
