"""Options of activities: how long a try may take, and how often an activity is tried.

An activity necessary for a run is retried forever, visibly in Temporal's pages: no outage of any length ends a run. An
activity with a harmless failure has a bound, and its caller continues without the result.

`temporal.boundary` sends heartbeats for every activity. So the heartbeat time-out detects a dead worker long before the
time-out of the try.

`at_once` runs an activity inside of the workflow task, for short writes to and reads from the database. Temporal calls
such an activity local: no task of its own is needed, and no further workflow task for the result, since name and result
are a marker in the history. A task that dies is done again with its activities.
"""

from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta
from typing import Any, TypeVar

from temporalio import workflow
from temporalio.common import RetryPolicy
from temporalio.exceptions import FailureError, is_cancelled_exception
from temporalio.workflow import ActivityCancellationType, ActivityConfig, LocalActivityConfig

HEARTBEAT_TIMEOUT = timedelta(seconds=10)
FOR_EVER = RetryPolicy(
    initial_interval=timedelta(seconds=1), backoff_coefficient=2.0, maximum_interval=timedelta(seconds=15)
)
Result = TypeVar("Result")
Step = TypeVar("Step")


def _up_to(tries: int) -> RetryPolicy:
    """Return a policy with a maximum number of tries.

    Unlike a time limit, this bound is not reached while no worker is there to try.
    """
    return replace(FOR_EVER, maximum_attempts=tries)


def _options(seconds: int, policy: RetryPolicy = FOR_EVER) -> ActivityConfig:
    """Return options for an activity; `seconds` limits each try."""
    return ActivityConfig(
        start_to_close_timeout=timedelta(seconds=seconds), heartbeat_timeout=HEARTBEAT_TIMEOUT, retry_policy=policy
    )


# retried forever
READ = _options(60)
WRITE = _options(60)
LOOK = _options(300)  # ten thousand jobs are 100 MB: an API server short of CPU sends for minutes
DEPLOY = _options(90)

# bounded; where a comment gives a time, all tries fail in about this time while a service is absent
# a round of a stop waits no longer, also without a worker: the next look shows the problem, and the next round repeats
STOP = ActivityConfig(**_options(120), schedule_to_close_timeout=timedelta(minutes=3))
REMOVE = _options(120, _up_to(20))  # four minutes
# short, because the run's next look waits; a later look removes the further jobs
REMOVE_IN_A_LOOK = ActivityConfig(**_options(40, _up_to(4)), schedule_to_close_timeout=timedelta(minutes=3))
EVIDENCE = _options(70, _up_to(1))  # the audit collects the evidence if the try fails
OPTIONAL = _options(30, _up_to(10))  # two minutes
# for notices that a run's next step waits for: several tries, or a single try, in ten seconds
BRIEF = ActivityConfig(**_options(10), schedule_to_close_timeout=timedelta(seconds=10))
ONCE = ActivityConfig(**_options(10, _up_to(1)), schedule_to_close_timeout=timedelta(seconds=10))
ANNOUNCE = _options(60, _up_to(240))  # an hour
# four minutes in an outage, half an hour with slow tries; then the next audit goes through the part again
AUDIT = ActivityConfig(**_options(900, _up_to(20)), schedule_to_close_timeout=timedelta(minutes=30))
# An archive may wait for a slot as long as other archives take: there is no limit until a try begins.
LONG = ActivityConfig(
    start_to_close_timeout=timedelta(hours=12),  # for a large archive
    heartbeat_timeout=timedelta(seconds=30),  # the archiving activity sends its own heartbeats
    retry_policy=_up_to(5760),  # a day
)
# inside of a workflow task, before the task's other commands; after a failure a worker runs the activity
IN_THE_TASK = LocalActivityConfig(start_to_close_timeout=timedelta(seconds=4), retry_policy=_up_to(1))
# A step waits for its host, which keeps the step's own time limit. A step continues when its execution ends, and the
# next execution takes the step's end.
STEPS = ActivityConfig(
    start_to_close_timeout=timedelta(days=366),
    heartbeat_timeout=HEARTBEAT_TIMEOUT,
    retry_policy=FOR_EVER,
    cancellation_type=ActivityCancellationType.ABANDON,
)


async def at_once(activity: Callable[[Any, Step], Result], step: Step, options: workflow.ActivityConfig) -> Result:
    """Run the activity inside of the present workflow task, which saves another task; after a failure, run the activity
    in a worker.

    The task's commands wait for the activity's end, so an activity that may take long does not belong here. In an
    outage the usual activity is tried again and again, and Temporal's pages show its error. A final error comes from
    the usual activity, too: its callers expect an ActivityError.
    """
    try:
        return await workflow.execute_local_activity_method(activity, step, **IN_THE_TASK)
    except FailureError as error:
        if is_cancelled_exception(error):
            raise
    return await workflow.execute_activity_method(activity, step, **options)
