"""Activities inside of workflow tasks: short writes to and reads from the database, while the workflow waits for
nothing more.

Temporal calls them local activities. Such an activity costs no task of its own, and no further workflow task for its
result: its name and its result are a marker in the history. A task that dies is done again with its activities, as an
activity is tried again.
"""

from collections.abc import Callable
from typing import Any, TypeVar

from temporalio import workflow
from temporalio.exceptions import FailureError, is_cancelled_exception

from crawler_lifecycle.temporal.options import IN_THE_TASK

Result = TypeVar("Result")
Step = TypeVar("Step")


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
