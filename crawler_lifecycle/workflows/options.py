"""Options of activities: how long a try may take, and how often an activity is tried.

An activity that a run cannot do without is tried for ever, visibly: no outage of any length ends a run. An activity
that may fail without harm has a bound, and its caller goes on without the result.

The heartbeat time-out (see `activities.boundary`) detects a dead worker long before the try's own time-out.
"""

from dataclasses import replace
from datetime import timedelta

from temporalio.common import RetryPolicy
from temporalio.workflow import ActivityConfig

PATIENT = RetryPolicy(
    initial_interval=timedelta(seconds=1), backoff_coefficient=2.0, maximum_interval=timedelta(seconds=15)
)


def _tries(most: int) -> RetryPolicy:
    """Return a policy with a maximum number of tries. An outage of the workers uses up none, unlike a time limit."""
    return replace(PATIENT, maximum_attempts=most)


WORKER_LOST = timedelta(seconds=10)


def _step(seconds: int, policy: RetryPolicy = PATIENT) -> ActivityConfig:
    return ActivityConfig(
        start_to_close_timeout=timedelta(seconds=seconds), heartbeat_timeout=WORKER_LOST, retry_policy=policy
    )


READ = _step(60)
LOOK = _step(300)  # ten thousand jobs are 100 MB, which an API server short of CPU sends in minutes
WRITE = _step(60)
DEPLOY = _step(90)
STOP = ActivityConfig(**_step(120), schedule_to_close_timeout=timedelta(minutes=3))  # then a look reports the problem
REMOVE = _step(120, _tries(20))  # an outage may take some four minutes
REMOVE_IN_A_LOOK = ActivityConfig(**_step(40, _tries(4)), schedule_to_close_timeout=timedelta(minutes=3))
OPTIONAL = _step(30, _tries(10))  # two minutes
EVIDENCE = _step(70, _tries(1))  # the audit collects evidence that a single try did not get
BRIEF = ActivityConfig(**_step(10), schedule_to_close_timeout=timedelta(seconds=10))  # the run waits for the notice
ONCE = ActivityConfig(**_step(10, _tries(1)), schedule_to_close_timeout=timedelta(seconds=10))
ANNOUNCE = _step(60, _tries(240))  # an hour
# bounded by an outage (some four minutes) or slow tries (half an hour): the next audit looks again
AUDIT = ActivityConfig(**_step(900, _tries(20)), schedule_to_close_timeout=timedelta(minutes=30))
LONG = ActivityConfig(
    start_to_close_timeout=timedelta(hours=12),  # for a large archive
    heartbeat_timeout=timedelta(seconds=30),
    retry_policy=_tries(5760),  # a day
)
