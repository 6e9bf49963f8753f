"""Calls of ports that the crash matrix breaks, found in the code of the parts that make them."""

from pathlib import Path
from unittest.mock import Mock

import crawler_lifecycle.clusters.processes as scheduler
from crawler_lifecycle.assembly.parts import Parts
from crawler_lifecycle.assembly.plugin import activities
from crawler_lifecycle.flows.ports.steps import StepLedger
from crawler_lifecycle.managers.authors.link import ManagerLink
from crawler_lifecycle.managers.ports import ManagerLedger
from crawler_lifecycle.runs.processes.dispatcher import Dispatcher
from crawler_lifecycle.runs.processes.watcher import Watcher
from crawler_lifecycle.settings import Settings
from tests.crash.channels import ANSWERED, CALLED, HOST, OBJECT
from tests.crash.hooks import AFTER, BEFORE, OF_STARTS, OF_THE_CLUSTER
from tests.crash.managing import AFTER_THE_EFFECTS, IN_THE_HOOK
from tests.crash.ports import asked_by, asked_in, methods_of


def _registered() -> list[object]:
    """Return the activities as the worker registers them; nothing is connected to."""
    parts = Parts(Settings(state=Path("nowhere")))
    vars(parts).update(database=Mock(), cluster=Mock(), deployer=Mock())
    return list(activities(parts, Mock(), search_attributes=False))


REGISTERED = _registered()
HOLDERS = {each.__temporal_activity_definition.name: type(each.__self__) for each in REGISTERED}  # type: ignore[attr-defined]
NAMES = list(HOLDERS)
CALLS = {
    "dispatcher": asked_by(Dispatcher),
    "watcher": asked_by(Watcher) | {"engine.nudge"},
    "scheduler": asked_in([scheduler], {"cluster": OF_THE_CLUSTER}),
}
CLOSED = f"{HOST}.close.{ANSWERED}"  # the host dies, and the object with the host
PUT_BACK = "claims.put_back"  # a claim from before a pause, see tests/limits/contracts/test_sql_admission.py
SAID_OF_FAILURES = {
    "DeploymentActivities: claims.failed",
    "NoticeActivities: runs.note",
    "ReconciliationActivities: cluster.check",
    "StoppingActivities: runs.mark_look",
}
# what no course comes to within minutes on a local cluster; what these calls are for is in tests/runs
ELSEWHERE = {
    "DeploymentActivities: cluster.stop",  # a main job is overtaken by a stop: as a child's, which the dispatcher ends
    "ReconciliationActivities: runs.mark_waiting",  # the cluster is full for five minutes
    "HistoryActivities: tasks.by_status",  # a job's own deadline ended it while nobody supervised
    "StoppingActivities: cluster.give_up",  # a child task waits for an image that never comes
    "StoppingActivities: tasks.sync",  # a Kubernetes pod that has ended, or was told to, before a stop deletes its Job
    "StoppingActivities: runs.note",  # nodes that do not answer, and jobs of another cluster
    "ReconciliationActivities: runs.note",  # jobs of Kubernetes that cannot be removed
    "StoppingActivities: cluster.check",  # a job that cannot be ended, again and again
    "JobAudit: records.run_id",  # a job whose run the database does not have
    "JobAudit: cluster.kill",  # an earlier audit has asked, minutes ago
    # jobs of a local cluster take no room when they are over
    "JobAudit: cluster.remove",
    "JobAudit: tasks.unexplained",
    "JobAudit: tasks.reconcile",
    "JobAudit: findings.overview",  # no job at all is listed
    "JobAudit: findings.keep_open",  # jobs cannot be seen
    "RunAudit: findings.keep_open",  # a workflow has ended a moment ago
    "RunAudit: supervisors.task_failure",  # a workflow that fails the same task again and again
    "HandoverAudit: findings.keep_open",  # a workflow is at it
    "FlowAudit: findings.keep_open",  # an owed announcement whose workflow is at it
    f"DeploymentActivities: {PUT_BACK}",
    # managers whose rows and runs do not agree: tests/audits/test_audit_managers.py
    "FlowAudit: managers.copy_run",
    "FlowAudit: managers.refuse",
    "FlowAudit: supervisors.failure",
    "FlowAudit: supervisors.start_crawl",
    "FlowCrawlActivities: supervisors.describe",  # a crawl without a run at a look
    "FlowCrawlActivities: supervisors.failure",  # and whose workflow has failed
    "FlowCrawlActivities: supervisors.go_on",  # a run whose workflow was terminated, and whose crawl is cancelled
    # a run's workflow has ended well and its row has not, as in a database that was restored
    *(
        f"RunAudit: {call}"
        for call in ("supervisors.requested_run_id", "cluster.look", "tasks.by_status", "tasks.rows")
    ),
}
OF_HOSTS = {*(f"claims.{method}" for method in methods_of(StepLedger)), "doors.graft"}


def of_activities() -> set[str]:
    """Return `class: port.method` for every call in the code of the activities."""
    return {f"{holder.__name__}: {each}" for holder in HOLDERS.values() for each in asked_by(holder)}


def points_of_managers() -> dict[str, set[str]]:
    """Return the points at which the host or the process of a manager's object dies, by call.

    A call is a message of the object, a transaction of the ledger, or both."""
    messages = {*methods_of(ManagerLink)} - {"now"}  # the object has a clock of its own
    points = {
        name: {f"{side}.{name}.{when}" for side in (HOST, OBJECT) for when in (CALLED, ANSWERED)} for name in messages
    }
    points["enter"] = {point for point in points["enter"] if point.endswith(CALLED)}  # has no answer
    points["delay"] = {point for point in points["delay"] if point.endswith(CALLED)}  # an item is delayed once
    # behind the close on record, the next host ends the manager without a call: the answer has a case of its own
    points["close"] -= {f"{OBJECT}.close.{ANSWERED}", CLOSED}
    points["begin"] = {point for point in points["begin"] if point.startswith(HOST)}  # there is no object before
    for method in methods_of(ManagerLedger):
        points.setdefault(method, set()).update(f"managers.{method}.{when}" for when in (BEFORE, AFTER))
    for call in OF_STARTS:
        points[call] = {f"supervisors.{call}.{when}" for when in (BEFORE, AFTER)}
    points["stop"].discard(f"supervisors.stop.{AFTER}")  # the supervisor asks, too: the next host may find no run open
    points["hook"] = {IN_THE_HOOK, AFTER_THE_EFFECTS}
    return points
