"""How long may a step take, and what happens when it fails?

A step that the run cannot do without is tried for ever, visibly: no outage of any length ends a run. One that
may fail without harm has a bound, and whoever calls it goes on without it.
"""

from datetime import timedelta

from temporalio.common import RetryPolicy
from temporalio.workflow import ActivityConfig

PATIENT = RetryPolicy(
    initial_interval=timedelta(seconds=1), backoff_coefficient=2.0, maximum_interval=timedelta(seconds=15)
)

READ = ActivityConfig(start_to_close_timeout=timedelta(seconds=60), retry_policy=PATIENT)
WRITE = ActivityConfig(start_to_close_timeout=timedelta(seconds=60), retry_policy=PATIENT)
DEPLOY = ActivityConfig(start_to_close_timeout=timedelta(seconds=90), retry_policy=PATIENT)
STOP = ActivityConfig(start_to_close_timeout=timedelta(seconds=120), retry_policy=PATIENT)

OPTIONAL = ActivityConfig(
    start_to_close_timeout=timedelta(seconds=30), schedule_to_close_timeout=timedelta(minutes=2), retry_policy=PATIENT
)
ANNOUNCE = ActivityConfig(
    start_to_close_timeout=timedelta(seconds=60), schedule_to_close_timeout=timedelta(hours=1), retry_policy=PATIENT
)
LONG = ActivityConfig(
    start_to_close_timeout=timedelta(hours=12),
    schedule_to_close_timeout=timedelta(hours=24),
    heartbeat_timeout=timedelta(seconds=30),
    retry_policy=PATIENT,
)
