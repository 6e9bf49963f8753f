"""The rules from objects to a status, each by its number (docs/decisions/0014 says which half of it lives where)."""

from datetime import UTC, datetime, timedelta
from email.utils import format_datetime
from typing import Any

import pytest

from crawler_lifecycle.clusters.kubernetes.http.answers import ApiFailed
from crawler_lifecycle.clusters.kubernetes.observe.looking import JobPatience, Observer
from crawler_lifecycle.model.looks import JobLook, JobPhase, Look, TaskRow
from crawler_lifecycle.model.states import Intent, TaskStatus
from crawler_lifecycle.runs.rules.verdict import leaving, lingering, overdue, verdict
from tests.kit.clusters.kube import (
    LATER,
    OURS,
    RUN,
    SCHEDULED,
    UID,
    WHEN,
    Json,
    Shelf,
    condition,
    container,
    deleted,
    ended,
    event,
    job,
    pod,
    running,
    waiting,
)
from tests.kit.data.rows import HALF_AN_HOUR, NOW, after, applied, row

KEY = (0, 1)
COMPLETE = condition("Complete", "CompletionsReached")
FAILED = condition("Failed", "BackoffLimitExceeded", message="Job has reached the specified backoff limit")
ACTIVE: Json = {"active": 1, "ready": 0, "terminating": 0}


def look(jobs: Any = (), pods: Any = (), events: Any = (), shelf: Shelf | None = None) -> Look:
    shelf = (shelf or Shelf()).put(jobs=jobs, pods=pods, events=events)
    return Observer(shelf, OURS).look(RUN, [KEY])


def seen(jobs: Any = (), pods: Any = (), events: Any = ()) -> JobLook:
    return look(jobs, pods, events).jobs[KEY]


def told(job_look: JobLook) -> tuple[JobPhase, str | None]:
    return job_look.phase, job_look.cause


def pending(*containers: Json, **status: Any) -> Json:
    return pod("Pending", *containers, **{"conditions": [SCHEDULED], **status})


def failing(what: str) -> Shelf:
    def fault(call: str) -> None:
        if call == what:
            raise ApiFailed(f"{what}: 503", 503)

    shelf = Shelf()
    shelf.fault = fault
    return shelf


def test_rule_0_a_row_that_is_over_stays_as_it_is() -> None:
    truth = look([job(0, 1, FAILED)])
    for status in (TaskStatus.SUCCEEDED, TaskStatus.FAILED, TaskStatus.STOPPED):
        assert verdict(row(status), truth, Intent.RUN, NOW) is None
    assert truth.jobs[KEY].gone
    assert not look([job(0, 1, FAILED, terminating=1)]).jobs[KEY].gone


@pytest.mark.parametrize("end", [FAILED, COMPLETE])
def test_rule_0_a_job_that_ended_and_was_deleted_is_leaving_until_it_is_gone(end: Json) -> None:
    assert leaving(look([job(0, 1, end)])) == 0
    assert leaving(look([deleted(job(0, 1, end))], [deleted(pod("Failed", ended(143)))])) == 1
    assert leaving(look([deleted(job(0, 1, **ACTIVE))], [deleted(pod("Running", running()))])) == 0, "it lives"
    assert leaving(look()) == 0


@pytest.mark.parametrize("what", ["jobs", "namespace", "job"])
def test_rule_1_an_error_says_nothing(what: str) -> None:
    """Whatever is asked, and whatever of it fails: of all that proves absence, nothing may be missing."""
    unknown = look(shelf=failing(what))
    assert not unknown.complete
    assert what in (unknown.problem or "")
    for intent in Intent:
        assert verdict(row(), unknown, intent, NOW) is None


def test_rule_1_pods_that_cannot_be_listed_leave_their_job_unclear() -> None:
    unknown = look([job(0, 1, **ACTIVE)], shelf=failing("pods"))
    assert (unknown.complete, unknown.jobs[KEY].phase) == (False, JobPhase.UNCLEAR)
    failed = look([job(0, 1, FAILED)], shelf=failing("pods"))
    assert verdict(row(), failed, Intent.RUN, NOW) is None


def test_rule_1_half_a_list_is_no_list() -> None:
    shelf, pages = Shelf(page=1), iter([None, ApiFailed("410", 410)])

    def fault(_call: str) -> None:
        if error := next(pages, None):
            raise error

    shelf.fault = fault
    partial = look([job(1, 1), job(0, 1)], shelf=shelf)
    assert (partial.complete, partial.jobs) == (False, {})


def test_rule_2_a_job_of_another_uid_is_not_ours() -> None:
    another = look([job(0, 1, COMPLETE, uid="another")])
    assert after(row(), another).status is TaskStatus.RUNNING
    assert after(row(), another, another).status is TaskStatus.LOST


def test_rule_3_complete_is_succeeded() -> None:
    truth = look([job(0, 1, COMPLETE, succeeded=1, completionTime=LATER)])
    assert after(row(), truth).status is TaskStatus.SUCCEEDED
    assert after(row(), truth, intent=Intent.FORCE).status is TaskStatus.SUCCEEDED
    assert (truth.jobs[KEY].exit_code, truth.jobs[KEY].gone, truth.jobs[KEY].removable) == (0, True, True)


@pytest.mark.parametrize("told_at", ["2026-11-20T08:59:57Z", LATER])
def test_rule_3_a_job_that_was_deleted_before_its_end_was_noticed_has_succeeded(told_at: str) -> None:
    """When it was complete is when the controller saw it; and of a Job that is being deleted it counts no later end."""
    told = look([deleted(job(0, 1, COMPLETE, succeeded=1, completionTime=LATER), told_at)])
    assert after(row(), told, intent=Intent.STOP).status is TaskStatus.SUCCEEDED


def test_rule_4_a_failure_after_the_stop_was_sent_is_a_stop() -> None:
    late = condition("Failed", "BackoffLimitExceeded", at=LATER)
    stopped = look([deleted(job(0, 1, late))], [told_pod("Failed", ended(143))])
    assert after(row(), stopped, intent=Intent.STOP).status is TaskStatus.STOPPED
    assert after(row(), stopped, intent=Intent.FORCE).reason == "stopped_forced"
    before = look([job(0, 1, late)], [pod("Failed", ended(3))])
    assert after(row(), before, intent=Intent.STOP).reason == "exit_3"


def test_rule_4_a_job_that_is_removed_long_after_its_failure_was_not_stopped() -> None:
    outlived = look([deleted(job(0, 1, FAILED), at=LATER)], [pod("Failed", ended(3))])
    assert after(row(), outlived, intent=Intent.STOP).status is TaskStatus.FAILED


def test_rule_5_failed_is_failed_with_its_reason() -> None:
    truth = look([job(0, 1, FAILED, failed=1)], [pod("Failed", ended(3, message="no such page"))])
    failed = after(row(), truth)
    assert (failed.status, failed.reason, failed.exit_code) == (TaskStatus.FAILED, "exit_3", 3)
    assert truth.jobs[KEY].message == "no such page"


def test_rule_6_a_job_that_is_being_deleted_is_stopping() -> None:
    leaving = look([deleted(job(0, 1, active=1), at=ago(0))])
    assert told(leaving.jobs[KEY]) == (JobPhase.ENDING, None)
    assert after(row(), leaving, intent=Intent.STOP).status is TaskStatus.STOPPING
    stopping = after(row(), leaving)
    assert (stopping.status, stopping.cause) == (TaskStatus.STOPPING, "deleted_externally")
    lost = after(stopping, look(), look())
    assert (lost.status, lost.reason) == (TaskStatus.LOST, "deleted_externally")


def test_rule_7_a_job_that_is_going_to_fail_runs() -> None:
    target = condition("FailureTarget", "BackoffLimitExceeded")
    assert told(seen([job(0, 1, target, failed=1)])) == (JobPhase.RUNNING, "failing")


def test_rule_8_a_job_that_is_going_to_be_complete_runs() -> None:
    assert told(seen([job(0, 1, condition("SuccessCriteriaMet"))])) == (JobPhase.RUNNING, "finishing")


def test_rule_9_a_suspended_job_waits_once_its_pods_are_gone() -> None:
    suspended = {**job(started=None), "spec": {"suspend": True}}
    assert told(seen([suspended])) == (JobPhase.WAITING, "suspended")
    assert told(seen([job(0, 1, condition("Suspended"), started=None)])) == (JobPhase.WAITING, "suspended")
    ending = job(0, 1, condition("Suspended"), terminating=1)
    assert told(seen([ending])) == (JobPhase.RUNNING, "suspending")
    shown = after(row(), look([ending]), look([suspended]))
    assert (shown.status, shown.cause) == (TaskStatus.RUNNING, "suspended")
    assert after(shown, look([job(active=1, ready=1)])).cause is None


def test_rule_10_a_job_that_the_controller_has_not_seen_waits() -> None:
    assert told(seen([job(started=None)])) == (JobPhase.WAITING, "not_synced")
    assert told(seen([{"metadata": job()["metadata"]}])) == (JobPhase.WAITING, "not_synced")


def test_rule_11_a_pod_that_is_being_ended() -> None:
    truth = look([job(terminating=1)])
    assert (after(row(), truth).status, after(row(), truth).cause) == (TaskStatus.RUNNING, "pod_terminating")
    assert after(row(), truth, intent=Intent.STOP).status is TaskStatus.STOPPING


def test_rule_12_a_pod_that_succeeded_is_not_yet_a_job_that_did() -> None:
    assert told(seen([job(succeeded=1)])) == (JobPhase.RUNNING, "finishing")
    assert told(seen([job()], [pod("Succeeded", ended(0))])) == (JobPhase.RUNNING, "finishing")


def test_rule_13_a_pod_that_failed_is_not_yet_a_job_that_did() -> None:
    assert told(seen([job(failed=1)])) == (JobPhase.RUNNING, "backoff")
    assert told(seen([job()], [pod("Failed", ended(3))])) == (JobPhase.RUNNING, "backoff")


QUOTA = 'Error creating: pods "x" is forbidden: exceeded quota: small, requested: pods=1, used: pods=5, limited: pods=5'
DENIED = 'Error creating: pods "x" is forbidden: violates PodSecurity "restricted:latest"'


@pytest.mark.parametrize(
    ("events", "cause"),
    [
        ([(UID, "FailedCreate", QUOTA)], "quota"),
        ([(UID, "FailedCreate", DENIED)], "pod_create_rejected"),
        ([(UID, "FailedCreate", DENIED, WHEN), (UID, "FailedCreate", QUOTA, LATER)], "quota"),
        ([("another", "FailedCreate", QUOTA)], "pod_not_created"),
        ([(UID, "Whatever", QUOTA)], "pod_not_created"),
        ([], "pod_not_created"),
    ],
)
def test_rule_14_why_there_is_no_pod_is_told_by_events(events: list[tuple[str, ...]], cause: str) -> None:
    seen_now = [event(*words) for words in events]  # a rejection that is older than ten minutes does not count
    assert told(seen([job()], events=seen_now)) == (JobPhase.WAITING, cause)


def test_rule_14_events_that_cannot_be_read_change_no_status() -> None:
    unread = look([job()], shelf=failing("events"))
    assert (unread.complete, told(unread.jobs[KEY])) == (True, (JobPhase.WAITING, "pod_not_created"))
    assert "503" in (unread.jobs[KEY].message or "")


MINUTE = timedelta(minutes=1)
NO_STORE = "Error creating: etcdserver: request timed out"


def at_minute(minute: int, *events: tuple[str, int]) -> Look:
    """Look at a Job without a pod at this minute of its wait. `events`: messages and the minutes they are of."""
    began_at = datetime.now(UTC)
    shelf = Shelf()
    shelf.clock.set(format_datetime(began_at + minute * MINUTE, usegmt=True))
    failures = [event(UID, "FailedCreate", said, (began_at + when * MINUTE).isoformat()) for said, when in events]
    named = [{**failure, "metadata": {"name": str(number)}} for number, failure in enumerate(failures)]
    return look([job(started=began_at.isoformat())], events=named, shelf=shelf)


def waited(*looks: tuple[int, Look]) -> TaskRow:
    """Return the row after looks at these minutes."""
    current = row(TaskStatus.PENDING)
    for minute, shown in looks:
        now = NOW + minute * MINUTE
        current = applied(current, verdict(current, shown, Intent.RUN, now), now)
    return current


@pytest.mark.parametrize("said", [DENIED, NO_STORE])
def test_rule_14_a_rejection_after_a_long_wait_ends_no_task(said: str) -> None:
    """A wait for a quota is usual; a webhook that restarts ended every task of it after half an hour, at two looks."""
    quota = at_minute(35, (QUOTA, 35))
    rejected = [(minute, at_minute(minute, (QUOTA, 35), (said, minute))) for minute in (36, 37)]
    assert waited((35, quota), *rejected).cause == "pod_create_rejected"
    still = [(minute, at_minute(minute, (QUOTA, 35), (said, minute))) for minute in (50, 64)]
    assert waited((35, quota), *rejected, *still).status is TaskStatus.PENDING
    given_up = waited((35, quota), *rejected, *still, (66, at_minute(66, (QUOTA, 35), (said, 66))))
    assert (given_up.status, given_up.reason) == (TaskStatus.FAILED, "pod_create_rejected")


def test_rule_14_a_look_without_a_rejection_begins_patience_anew() -> None:
    looks = [(minute, at_minute(minute, (DENIED, minute))) for minute in (0, 15, 29)]
    for between in (at_minute(30), at_minute(30, (QUOTA, 30)), at_minute(30, (DENIED, 15))):
        later = [(minute, at_minute(minute, (DENIED, minute))) for minute in (31, 46, 60)]
        assert waited(*looks, (30, between), *later).status is TaskStatus.PENDING
        assert waited(*looks, (30, between), *later, (61, later[-1][1])).status is TaskStatus.FAILED


def test_rule_14_a_quota_between_two_looks_is_no_rejection() -> None:
    looks = [(minute, at_minute(minute, (DENIED, minute), (QUOTA, minute - 5))) for minute in (10, 25, 40, 55, 70)]
    assert waited(*looks).status is TaskStatus.PENDING


def test_rule_14_a_rejection_that_is_over_is_none() -> None:
    """The controller manager is away, and the last event of a webhook stays the latest one for an hour."""
    for minute in (20, 35, 55):
        assert told(at_minute(minute, (DENIED, 5)).jobs[KEY]) == (JobPhase.WAITING, "pod_not_created")


def test_rule_16_an_image_that_cannot_be_pulled_after_a_long_pull_ends_no_task() -> None:
    """A pull took 35 minutes, and then the registry had no answer for a moment."""
    since = [condition("PodScheduled", at=(datetime.now(UTC) - 35 * MINUTE).isoformat())]
    pulls, fails = (
        look([job(0, 1, **ACTIVE)], [pending(waiting(reason), conditions=since)])
        for reason in ("ContainerCreating", "ErrImagePull")
    )
    assert waited((34, pulls), (35, fails), (36, fails), (64, fails)).status is TaskStatus.PENDING
    assert waited((34, pulls), (35, fails), (65, fails)).reason == "image_pull"


@pytest.mark.parametrize(
    ("conditions", "cause"),
    [
        ([condition("PodScheduled", "Unschedulable", "False", message="0/3 nodes")], "unschedulable"),
        ([condition("PodScheduled", "SchedulingGated", "False")], "scheduling_gated"),
        ([condition("PodScheduled", None, "False")], "not_considered"),
        ([], "not_considered"),
        (None, "not_considered"),
    ],
)
def test_rule_15_a_pod_without_a_node(conditions: list[Json] | None, cause: str) -> None:
    assert told(seen([job(0, 1, **ACTIVE)], [pod("Pending", conditions=conditions)])) == (JobPhase.WAITING, cause)


@pytest.mark.parametrize(
    ("pending_pod", "cause"),
    [
        (pending(), "scheduled"),
        (pending(waiting("ContainerCreating")), "container_creating"),
        (pending(waiting("SomethingNew42")), "something_new42"),
        (pending(waiting("PodInitializing"), initContainerStatuses=[waiting("ErrImagePull", "init")]), "image_pull"),
        (pending(waiting("ContainerCreating", "other"), waiting("ImagePullBackOff")), "image_pull"),
        (pending(waiting("CreateContainerConfigError")), "container_config"),
        (pending(waiting("")), "scheduled"),
    ],
)
def test_rule_16_a_pod_on_its_node_that_does_not_run_yet(pending_pod: Json, cause: str) -> None:
    lately = condition("Initialized", at=datetime.now(UTC).isoformat())
    pending_pod["status"]["conditions"].append(lately)
    assert told(seen([job(0, 1, **ACTIVE)], [pending_pod])) == (JobPhase.WAITING, cause)


@pytest.mark.parametrize(
    ("reason", "cause"),
    [
        ("FailedMount", "volume"),
        ("FailedMapVolume", "volume"),
        ("NetworkNotReady", "pod_sandbox"),
        ("FailedPrepareDynamicResources", "resource_claim"),
        ("FailedAttachVolume", "volume"),
        ("FailedCreatePodSandBox", "pod_sandbox"),
        ("FailedCreatePodSandbox", "pod_sandbox"),
    ],
)
def test_rule_16_what_hinders_the_creation_is_told_by_events(reason: str, cause: str) -> None:
    stuck = pending(waiting("ContainerCreating"))
    hindrance = event(stuck["metadata"]["uid"], reason, "secret not found")
    shown = seen([job(0, 1, **ACTIVE)], [stuck], [hindrance])
    assert (shown.cause, shown.message) == (cause, "secret not found")


@pytest.mark.parametrize("reason", ["ImagePullBackOff", "CreateContainerConfigError"])
def test_rule_16_what_the_cluster_tries_for_ever_ends_by_a_limit_of_ours(reason: str) -> None:
    since = datetime.now(UTC) - timedelta(minutes=20)
    stuck = pending(waiting(reason), conditions=[condition("PodScheduled", at=since.isoformat())])
    shelf = Shelf().put(jobs=[job(0, 1, **ACTIVE)], pods=[stuck])
    patient = Observer(shelf, OURS, JobPatience(timedelta(minutes=25))).look(RUN, [KEY])
    assert after(row(TaskStatus.PENDING), patient).status is TaskStatus.PENDING
    given_up = Observer(shelf, OURS, JobPatience(timedelta(minutes=15))).look(RUN, [KEY])
    assert after(row(TaskStatus.PENDING), patient, given_up).status is TaskStatus.PENDING
    assert after(row(TaskStatus.PENDING), given_up).status is TaskStatus.PENDING, "no first look ends a task for that"
    failed = after(row(TaskStatus.PENDING), given_up, given_up, apart=timedelta(minutes=15))
    assert (failed.status, failed.reason) == (TaskStatus.FAILED, patient.jobs[KEY].cause)
    assert not given_up.jobs[KEY].gone
    assert not given_up.jobs[KEY].removable


def test_rule_16_an_init_container_that_crashes_for_ever_ends_by_a_limit_of_ours() -> None:
    """N6: only the limit ends such a task, since the kubelet tries for ever."""
    crashes = waiting("CrashLoopBackOff", "fetch", "back-off 5m0s")
    since = [condition("PodScheduled", at=(datetime.now(UTC) - timedelta(days=1)).isoformat())]
    stuck = pending(waiting("PodInitializing"), initContainerStatuses=[crashes], conditions=since)
    waits = look([job(0, 1, **ACTIVE)], [stuck])
    assert after(row(TaskStatus.PENDING), waits).status is TaskStatus.PENDING, "no first look ends a task for that"
    failed = verdict(after(row(TaskStatus.PENDING), waits), waits, Intent.RUN, NOW + HALF_AN_HOUR)
    assert failed
    assert (failed.status, failed.reason, failed.message) == (TaskStatus.FAILED, "crash_loop", "back-off 5m0s")


def test_rule_17_a_main_container_that_is_started_again_in_place_is_not_given_up() -> None:
    """Each of two looks met the moment after an end (`restartPolicyRules`)."""
    now = datetime.now(UTC)
    for since, status in ((16 * MINUTE, TaskStatus.FAILED), (timedelta(seconds=1), TaskStatus.RUNNING)):
        main = ended(42)
        main["state"]["terminated"]["finishedAt"] = (now - since).isoformat()
        hangs = look([job(0, 1, **ACTIVE)], [pod("Running", main, running("proxy"))])
        assert after(row(), hangs, hangs, apart=16 * MINUTE).status is status


def run_with(*containers: Json, **status: Any) -> tuple[JobPhase, str | None]:
    return told(seen([job(0, 1, **ACTIVE)], [pod("Running", *containers, **status)]))


def test_rule_17_a_main_container_that_is_done_while_another_is_not() -> None:
    assert run_with(running("proxy"), ended(0)) == (JobPhase.RUNNING, "sidecar_hanging")


def test_rule_17_a_proxy_that_an_injector_put_first_is_not_the_main_container() -> None:
    """A pod of another scheduler service: its task was RUNNING for as long as the proxy ran."""
    there = pod("Running", running("istio-proxy"), ended(3, name="app"))
    there["spec"]["containers"] = [{"name": "istio-proxy"}, {"name": "app"}]
    assert told(seen([job(0, 1, **ACTIVE)], [there])) == (JobPhase.RUNNING, None)
    there["metadata"]["annotations"] = {"kubectl.kubernetes.io/default-container": "app"}
    assert told(seen([job(0, 1, **ACTIVE)], [there])) == (JobPhase.RUNNING, "sidecar_hanging")


def test_rule_18_a_main_container_that_crashes_again_and_again() -> None:
    assert run_with(waiting("CrashLoopBackOff")) == (JobPhase.RUNNING, "crash_loop")


def test_rule_19_a_node_that_does_not_answer() -> None:
    taken = [condition("Ready", None, "False"), condition("ContainersReady")]
    assert run_with(running(), conditions=taken) == (JobPhase.RUNNING, "node_unreachable")
    assert run_with(running(), reason="NodeLost") == (JobPhase.RUNNING, "node_unreachable")


def test_rule_20_a_pod_that_runs() -> None:
    assert run_with(running()) == (JobPhase.RUNNING, None)
    not_ready = [condition("Ready", "ContainersNotReady", "False"), condition("ContainersReady", None, "False")]
    assert run_with(running(), conditions=not_ready) == (JobPhase.RUNNING, None)
    assert told(seen([job(active=1, ready=1)])) == (JobPhase.RUNNING, None)


def ago(minutes: float) -> str:
    return (datetime.now(UTC) - timedelta(minutes=minutes)).isoformat()


def ending_since(minutes: float) -> list[tuple[Json | None, list[Json]]]:
    """What does not end although it was told to, as its node is dead: by each who may have told it."""
    stuck = deleted(pod("Running", running()), at=ago(minutes))  # the time when its grace ends
    graceful = {**deleted(job(0, 1, terminating=1), at=ago(minutes + 10)), "spec": GRACE_OF_TEN_MINUTES}
    failing = job(0, 1, condition("FailureTarget", "DeadlineExceeded"), terminating=1)
    return [(job(0, 1, terminating=1), [stuck]), (graceful, [stuck]), (failing, [stuck]), (None, [stuck])]


GRACE_OF_TEN_MINUTES = {"template": {"spec": {"terminationGracePeriodSeconds": 600}}}


@pytest.mark.parametrize("teller", range(4), ids=["a drain", "a person", "the deadline", "its Job is gone"])
def test_rule_19_a_pod_that_never_ends_is_overdue_and_lost_once_it_was_forced(teller: int) -> None:
    """Its node is dead, and the object of the node stays: such a run never ended by itself."""
    there, left = ending_since(29)[teller]
    patient = look([there] if there else [], left)
    assert not patient.jobs[KEY].overdue
    assert not overdue(patient, [])
    there, left = ending_since(31)[teller]
    late = look([there] if there else [], left)
    assert overdue(late, []) == [KEY]
    waiting_for = after(row(), patient, late)
    assert overdue(late, [row()]) == [], "the first look that sees it only puts it on record"
    assert overdue(late, [waiting_for]) == [KEY]
    assert (waiting_for.status, waiting_for.cause) == (TaskStatus.STOPPING, "pod_overdue")
    forced = after(waiting_for, look([deleted(job(0, 1, terminating=1), at=ago(0))]))
    assert forced.cause == "pod_overdue", "it was we who deleted it"
    lost = after(forced, look(), look())
    assert (lost.status, lost.reason) == (TaskStatus.LOST, "pod_overdue")
    failed = after(forced, look([job(0, 1, FAILED)], [pod("Failed", reason="NodeLost")]))
    assert (failed.status, failed.reason) == (TaskStatus.FAILED, "node_lost"), "its node came back and told"


def test_rule_19_a_pod_beside_one_that_was_told_to_end_may_end_by_itself() -> None:
    told, other = deleted(pod("Running", running()), at=ago(90)), pod("Running", running())
    assert not overdue(look([job(0, 1, terminating=1)], [told, other]), [])
    assert not overdue(look([job(0, 1, terminating=1)], [deleted(pod("Failed", ended(3)), at=ago(90))]), [])


def test_rule_19_a_job_that_no_row_knows_is_overdue_like_any_other() -> None:
    """It fails, so that it is not asked to end; and nobody waits for it."""
    failing_one = job(3, 2, condition("FailureTarget", "DeadlineExceeded"), terminating=1)
    left = deleted(pod("Running", running(), task=3, attempt=2), at=ago(31))
    assert overdue(look([job(0, 1, active=1, ready=1), failing_one], [left]), [row()]) == [(3, 2)]


def held(terminating: int = 0) -> Json:
    """Deleted long ago, and somebody's finalizer holds it."""
    return deleted(job(0, 1, terminating=terminating), at=ago(90))


@pytest.mark.parametrize("intent", [Intent.RUN, Intent.STOP])
def test_rule_6_a_job_that_is_held_and_has_nothing_left_is_gone(intent: Intent) -> None:
    found = look([held()])
    assert found.jobs[KEY].gone
    assert leaving(found) == 1, "its object is there"
    ended_as = TaskStatus.LOST if intent is Intent.RUN else TaskStatus.STOPPED
    assert after(row(), found, found, intent=intent).status is ended_as
    assert not look([deleted(job(0, 1), at=ago(1))]).jobs[KEY].gone, "it has its time"
    assert not look([held(terminating=1)]).jobs[KEY].gone, "there is a pod yet"


def test_rule_19_a_pod_that_nobody_told_is_asked_first_and_then_has_its_own_time() -> None:
    """Its Job was deleted long ago, and the garbage collector is away."""
    untold, known = look([held()], [pod("Running", running())]), [row()]
    assert lingering(untold, known, Intent.RUN) == [KEY]
    assert not overdue(untold, [])
    asked = look([held()], [deleted(pod("Running", running()), at=ago(29))])
    assert (lingering(asked, known, Intent.RUN), overdue(asked, [])) == ([], [])
    assert overdue(look([held()], [deleted(pod("Running", running()), at=ago(31))]), []) == [KEY]


def test_rule_6_a_job_that_is_held_ends_as_its_pod_tells() -> None:
    held_by_its_pod = look([held()], [pod("Succeeded", ended(0))])
    assert leaving(held_by_its_pod) == 1
    done = after(row(), held_by_its_pod)
    assert (done.status, done.exit_code) == (TaskStatus.SUCCEEDED, 0)


@pytest.mark.parametrize("fails", ["the list", "the pod"])
def test_rule_6_pods_that_cannot_be_read_make_no_job_gone(fails: str) -> None:
    shelf = failing("pods") if fails == "the list" else Shelf()
    broken = {**pod("Running"), "status": {"containerStatuses": 7}}
    found = look([held()], [broken], shelf=shelf)
    assert (found.jobs[KEY].phase, found.jobs[KEY].gone) == (JobPhase.ENDING, False)


@pytest.mark.parametrize("fails", ["the list", "the pod"])
def test_rule_11_pods_that_cannot_be_read_hide_no_job_that_tells_enough(fails: str) -> None:
    shelf = failing("pods") if fails == "the list" else Shelf()
    broken = {**pod("Running"), "status": {"containerStatuses": 7}}
    found = look([job(0, 1, terminating=1)], [broken], shelf=shelf)
    assert told(found.jobs[KEY]) == (JobPhase.RUNNING, "pod_terminating")
    assert after(row(), found, intent=Intent.STOP).status is TaskStatus.STOPPING
    assert not overdue(found, [])


def test_rule_19_what_was_suspended_and_is_to_go_on_is_never_overdue() -> None:
    suspended = job(0, 1, condition("Suspended"), started=None, terminating=1)
    found = look([suspended], [deleted(pod("Running", running()), at=ago(90))])
    assert told(found.jobs[KEY]) == (JobPhase.RUNNING, "suspending")
    assert not overdue(found, [])


@pytest.mark.parametrize("phase", ["Unknown", "Dreaming", None])
def test_rule_21_an_unknown_phase_changes_nothing(phase: str | None) -> None:
    assert verdict(row(), look([job(0, 1, **ACTIVE)], [pod(phase)]), Intent.RUN, NOW) is None


def test_rule_22_what_never_had_a_job_may_be_deployed_again() -> None:
    assert verdict(row(TaskStatus.DEPLOYING, None), look(), Intent.RUN, NOW) is None


def test_rule_22a_what_never_had_a_job_is_stopped_by_a_stop() -> None:
    never = row(TaskStatus.DEPLOYING, None)
    assert after(never, look(), intent=Intent.STOP).status is TaskStatus.STOPPED
    claimed = TaskRow(0, TaskStatus.DEPLOYING, 1, 5, claim_expires_at=NOW + timedelta(seconds=1))
    assert verdict(claimed, look(), Intent.STOP, NOW) is None


def test_rule_23_absence_has_to_be_confirmed() -> None:
    once = after(row(), look())
    assert (once.status, once.absent_count) == (TaskStatus.RUNNING, 1)
    shelf = Shelf()
    shelf.of_namespace = {"metadata": {"name": "crawls"}, "status": {"phase": "Terminating"}}
    assert after(once, look(shelf=shelf)) == once
    shelf.of_namespace = None
    assert after(once, look(shelf=shelf)) == once


def test_rule_23_a_job_that_only_the_list_does_not_show_is_there() -> None:
    shelf = Shelf()
    shelf.hidden = [job(active=1, ready=1)]
    assert look(shelf=shelf).jobs[KEY].phase is JobPhase.RUNNING
    shelf.hidden = [{**job(), "metadata": {"name": job()["metadata"]["name"], "uid": UID}}]
    assert look(shelf=shelf).jobs[KEY].phase is JobPhase.UNCLEAR


@pytest.mark.parametrize("phase", ["Pending", "Running", "Unknown", None])
def test_rule_24_pods_that_outlived_their_job(phase: str | None) -> None:
    orphaned = look(pods=[pod(phase, running())])
    for intent in Intent:
        stopping = after(row(), orphaned, orphaned, intent=intent)
        assert (stopping.status, stopping.cause) == (TaskStatus.STOPPING, "orphan_pods")
    assert not orphaned.jobs[KEY].gone


def test_rule_24_a_pod_that_was_orphaned_tells_its_job_by_a_label() -> None:
    orphan = pod("Running", running())
    del orphan["metadata"]["ownerReferences"]
    assert look(pods=[orphan]).jobs[KEY].uid == UID


def test_rule_25_absent_in_a_stop_is_stopped() -> None:
    assert after(row(), look(), intent=Intent.STOP).status is TaskStatus.STOPPED
    assert after(row(), look(), intent=Intent.FORCE).reason == "stopped_forced"


def test_rule_26_a_pod_that_succeeded_speaks_for_its_job() -> None:
    left = look(pods=[pod("Succeeded", ended(0))])
    assert after(row(), left).status is TaskStatus.SUCCEEDED
    assert left.jobs[KEY].gone


def test_rule_26_a_pod_that_succeeded_after_it_was_told_to_end_was_stopped() -> None:
    """The API server gives a grace only to a pod that has not ended; its time and that of a node are two clocks."""
    for grace in (0, 30):
        told = told_pod("Succeeded", ended(0), at="2026-11-20T09:00:50Z", grace=grace)
        assert after(row(), look(pods=[told]), intent=Intent.STOP).status is TaskStatus.STOPPED
        late = told_pod("Succeeded", ended(0), at="2026-11-20T09:01:01Z", grace=grace)
        assert after(row(), look(pods=[late]), intent=Intent.STOP).status is TaskStatus.SUCCEEDED


@pytest.mark.parametrize(
    "pods",
    [
        [pod("Succeeded", running())],
        [pod("Succeeded", containerStatuses=None)],
        [pod("Succeeded", ended(0)), pod("Failed", ended(3), uid="another")],
    ],
)
def test_rule_28_what_is_over_and_does_not_say_how_is_lost_like_what_left_no_trace(pods: list[Json]) -> None:
    """Such a run never ended: nobody could tell any more, and it waited."""
    doubtful = look(pods=pods)
    assert after(row(), doubtful).status is TaskStatus.RUNNING
    lost = after(row(), doubtful, doubtful)
    assert (lost.status, lost.reason) == (TaskStatus.LOST, "result_unknown")
    assert after(row(), doubtful, intent=Intent.STOP).status is TaskStatus.STOPPED
    assert after(lost, look([job(0, 1, COMPLETE)])).status is TaskStatus.SUCCEEDED
    never_known = row(TaskStatus.DEPLOYING, None)
    assert after(never_known, doubtful, doubtful) == never_known


def test_rule_27_a_pod_that_failed_speaks_for_its_job() -> None:
    failed = after(row(), look(pods=[pod("Failed", ended(137, "OOMKilled"))]))
    assert (failed.status, failed.reason, failed.exit_code) == (TaskStatus.FAILED, "oom_killed", 137)
    stopped = look(pods=[deleted(pod("Failed", ended(143)))])
    assert after(row(), stopped, intent=Intent.STOP).status is TaskStatus.STOPPED


def test_rule_28_gone_without_a_trace_is_lost() -> None:
    lost = after(row(), look(), look())
    assert (lost.status, lost.reason) == (TaskStatus.LOST, "job_disappeared")
    assert after(lost, look([job(0, 1, COMPLETE)])).status is TaskStatus.SUCCEEDED


def test_the_pod_that_counts_is_the_newest_that_is_not_being_ended() -> None:
    old = pod("Failed", ended(3))
    old["metadata"] |= {"name": "z", "creationTimestamp": "2026-11-20T07:00:00Z"}
    leaving = deleted(pod("Running", running()))
    leaving["metadata"] |= {"creationTimestamp": "2026-11-20T09:00:00Z"}
    new = pending(waiting("PodInitializing"))
    new["metadata"] |= {"name": "a"}
    for several in ([old, leaving, new], [new, leaving, old]):
        assert told(seen([job(0, 1, **ACTIVE)], several)) == (JobPhase.WAITING, "pod_initializing")


R = [
    (pod("Failed", ended(137, "OOMKilled"), reason="Evicted"), "oom_killed"),
    (pod("Failed", ended(3), ended(137, "OOMKilled", "proxy")), "exit_3"),
    (pod("Failed", reason="Evicted", containerStatuses=None), "evicted"),
    (pod("Failed", reason="Preempting"), "preempted"),
    (pod("Failed", reason="DeadlineExceeded"), "pod_deadline"),
    (pod("Failed", reason="Terminated"), "node_shutdown"),
    (pod("Failed", reason="NodeShutdown"), "node_shutdown"),
    (pod("Failed", reason="OutOfcpu"), "node_rejected"),
    (pod("Failed", reason="UnexpectedAdmissionError"), "node_rejected"),
    (pod("Failed", reason="NodeLost"), "node_lost"),
    (pod("Failed", ended(137), conditions=[condition("DisruptionTarget", "PreemptionByScheduler")]), "preempted"),
    (pod("Failed", conditions=[condition("DisruptionTarget", "DeletionByTaintManager")]), "node_tainted"),
    (pod("Failed", conditions=[condition("DisruptionTarget", "EvictionByEvictionAPI")]), "drained"),
    (pod("Failed", conditions=[condition("DisruptionTarget", "DeletionByPodGC")]), "node_deleted"),
    (pod("Failed", conditions=[condition("DisruptionTarget", "TerminationByKubelet")]), "evicted"),
    (pod("Failed", ended(3), conditions=[condition("DisruptionTarget", "X", "False")]), "exit_3"),
    (pod("Failed", ended(143), conditions=[condition("DisruptionTarget", "BySomethingNew")]), "disrupted"),
    (pod("Failed", reason="SomethingNew", conditions=[condition("DisruptionTarget")]), "disrupted"),
    (pod("Failed", ended(137, "ContainerStatusUnknown")), "node_lost"),
    (pod("Failed", ended(255, "Unknown")), "node_lost"),  # its node has rebooted
    (pod("Failed", ended(255)), "exit_255"),
    (pod("Failed", ended(3), conditions=[condition("DisruptionTarget", "EvictionByEvictionAPI")]), "exit_3"),
    (pod("Failed", ended(3), reason="Evicted"), "evicted"),
    (pod("Failed", reason="PodResourcesNotReady", containerStatuses=None), "node_rejected"),
    (pod("Failed", ended(3), reason="PodResourcesNotReady"), "exit_3"),
    (deleted(pod("Failed", ended(143))), "disrupted"),
    (deleted(pod("Failed", ended(137))), "disrupted"),
    (deleted(pod("Failed", ended(137, "OOMKilled"))), "oom_killed"),
    (deleted(pod("Failed", ended(1))), "exit_1"),
    (pod("Failed", ended(128, "StartError")), "cannot_start"),
    (pod("Failed", ended(127, "ContainerCannotRun")), "cannot_start"),
    (pod("Failed", waiting("PodInitializing"), initContainerStatuses=[ended(2, name="init")]), "init_exit_2"),
    (pod("Failed", ended(0)), "job_failed_main_ok"),
    (pod("Failed", ended(126)), "not_executable"),
    (pod("Failed", ended(127)), "command_not_found"),
    (pod("Failed", ended(134)), "sigabrt"),
    (pod("Failed", ended(137)), "sigkill_unknown"),
    (pod("Failed", ended(139)), "sigsegv"),
    (pod("Failed", ended(143)), "sigterm"),
    (pod("Failed", ended(129)), "sig1"),
    (pod("Failed", ended(159)), "sig31"),
    (pod("Failed", ended(160)), "exit_160"),
    (pod("Failed", ended(1)), "exit_1"),
    (pod("Failed", ended(0, "Completed", "proxy"), ended(3)), "exit_3"),
    (pod("Failed", container()), "backoff_limit_exceeded"),
    (pod("Failed", containerStatuses=None), "backoff_limit_exceeded"),
    (None, "backoff_limit_exceeded"),
]


@pytest.mark.parametrize(("failed_pod", "reason"), R)
def test_rule_r_why_a_job_failed(failed_pod: Json | None, reason: str) -> None:
    assert seen([job(0, 1, FAILED)], [failed_pod] if failed_pod else []).reason == reason


@pytest.mark.parametrize(
    ("said", "reason"),
    [
        ("DeadlineExceeded", "deadline_exceeded"),
        ("FailedIndexes", "failed_indexes"),
        ("MaxFailedIndexesExceeded", "max_failed_indexes_exceeded"),
    ],
)
def test_rule_r_what_the_job_says_goes_before_its_pod(said: str, reason: str) -> None:
    failed = condition("Failed", said, message=BY_EXIT_CODE.format(143))
    assert seen([job(0, 1, failed)], [pod("Failed", ended(137, "OOMKilled"))]).reason == reason


BY_DISRUPTION = "Pod crawls/crawl-1-x has condition DisruptionTarget matching FailJob rule at index 0"
BY_EXIT_CODE = "Container crawl for pod crawls/crawl-1-x failed with exit code {} matching FailJob rule at index 1"


def by_policy(message: str | None) -> Json:
    return job(0, 1, condition("Failed", "PodFailurePolicy") | {"message": message})


@pytest.mark.parametrize(
    ("message", "reason", "code"),
    [
        (BY_DISRUPTION, "disrupted", None),
        (BY_EXIT_CODE.format(143), "sigterm", 143),
        (BY_EXIT_CODE.format(137), "sigkill_unknown", 137),
        (BY_EXIT_CODE.format(3), "exit_3", 3),
        (BY_EXIT_CODE.format(127), "command_not_found", 127),
        (BY_EXIT_CODE.format(-1073741819), "exit_-1073741819", -1073741819),  # of Windows
        (BY_EXIT_CODE.format(-(2**31)), "exit_-2147483648", -(2**31)),
        (BY_EXIT_CODE.format(2**31), "pod_failure_policy", None),
        (BY_EXIT_CODE.format(10**30), "pod_failure_policy", None),
        (BY_EXIT_CODE.format(3).replace("crawl for", "proxy for"), "pod_failure_policy", None),
        (BY_DISRUPTION.replace("DisruptionTarget", "Banana"), "pod_failure_policy", None),
        ("Something new", "pod_failure_policy", None),
        ("", "pod_failure_policy", None),
        (None, "pod_failure_policy", None),
    ],
)
def test_rule_r_a_pod_that_is_gone_is_remembered_by_its_job(message: str | None, reason: str, code: int | None) -> None:
    truth = seen([by_policy(message)])
    assert (truth.phase, truth.reason, truth.exit_code) == (JobPhase.FAILED, reason, code)
    assert truth.message == message


@pytest.mark.parametrize(
    ("failed_pod", "reason"), [each for each in R if each[0] and each[1] != "backoff_limit_exceeded"]
)
def test_rule_r_a_pod_that_is_there_knows_more_than_what_its_job_remembers(failed_pod: Json, reason: str) -> None:
    for message in (BY_DISRUPTION, BY_EXIT_CODE.format(42)):
        assert seen([by_policy(message)], [failed_pod]).reason == reason


def test_rule_r_a_pod_that_says_nothing_leaves_the_word_to_its_job() -> None:
    silent = pod("Failed", containerStatuses=None)
    assert seen([by_policy(BY_DISRUPTION)], [silent]).reason == "disrupted"


def test_rule_4_a_stop_is_a_stop_whatever_the_job_remembers() -> None:
    for message in (BY_DISRUPTION, BY_EXIT_CODE.format(143)):
        for left in ([], [deleted(pod("Failed", ended(143)))]):
            stopped = look([deleted(by_policy(message), at=WHEN)], left)
            assert after(row(), stopped, intent=Intent.STOP).status is TaskStatus.STOPPED
            assert after(row(), stopped).status is TaskStatus.FAILED


@pytest.mark.parametrize(
    ("failed", "left"),
    [
        (by_policy(BY_EXIT_CODE.format(137)), []),  # a pod that is deleted is gone once its Job has counted it
        (by_policy(BY_EXIT_CODE.format(143)), []),
        ({**job(0, 1, FAILED), "spec": {"podFailurePolicy": {"rules": []}}}, []),  # deleted before it ran
        (job(0, 1, FAILED), [deleted(pod("Failed", ended(1)))]),
        (by_policy(BY_EXIT_CODE.format(1)), [deleted(pod("Failed", ended(1)))]),
    ],
)
def test_rule_4_a_job_of_which_only_the_pods_could_be_ended_was_stopped(failed: Json, left: list[Json]) -> None:
    """In a stop by force the API server refused to delete the Job, and not its pods."""
    ended_at = datetime.fromisoformat(failed["status"]["conditions"][0]["lastTransitionTime"])
    stopped = look([failed], left)

    def since(stopped_at: datetime) -> TaskStatus:
        return after(row(), stopped, intent=Intent.FORCE, stopped_at=stopped_at).status

    assert since(ended_at + timedelta(seconds=30)) is TaskStatus.STOPPED, "by another clock"
    assert since(ended_at + timedelta(minutes=5)) is TaskStatus.FAILED, "it failed long before the stop"
    assert after(row(), stopped).status is TaskStatus.FAILED


@pytest.mark.parametrize(
    ("failed", "left", "reason"),
    [
        (by_policy(BY_EXIT_CODE.format(143)), [pod("Failed", ended(143))], "sigterm"),
        (by_policy(BY_EXIT_CODE.format(3)), [], "exit_3"),
        (job(0, 1, FAILED), [], "backoff_limit_exceeded"),  # it never told us more
        (by_policy(BY_DISRUPTION), [], "disrupted"),
        (
            by_policy(BY_DISRUPTION),
            [deleted(pod("Failed", ended(143), conditions=[condition("DisruptionTarget", "EvictionByEvictionAPI")]))],
            "drained",
        ),
        (job(0, 1, condition("Failed", "DeadlineExceeded")), [], "deadline_exceeded"),
        (job(0, 1, condition("Failed", "DeadlineExceeded")), [deleted(pod("Failed", ended(143)))], "deadline_exceeded"),
    ],
)
def test_rule_4_a_job_that_ended_by_itself_or_by_others_was_not_stopped(
    failed: Json, left: list[Json], reason: str
) -> None:
    long_ago = datetime(2026, 1, 1, tzinfo=UTC)
    truth = after(row(), look([failed], left), intent=Intent.FORCE, stopped_at=long_ago)
    assert (truth.status, truth.reason) == (TaskStatus.FAILED, reason)


def test_rule_11_what_was_seen_ending_in_a_stop_was_stopped_however_it_ended() -> None:
    ending = look([job(terminating=1)])
    truth = look([by_policy(BY_EXIT_CODE.format(1))])
    assert after(row(), ending, truth, intent=Intent.STOP).status is TaskStatus.STOPPED
    assert after(row(), ending, truth).status is TaskStatus.FAILED
    assert after(row(), ending, look([job(0, 1, COMPLETE)]), intent=Intent.STOP).status is TaskStatus.STOPPED


DRAINED = condition("DisruptionTarget", "EvictionByEvictionAPI")
ENDS_IN_ORDER = [
    job(terminating=1),
    job(succeeded=1),
    job(0, 1, condition("SuccessCriteriaMet"), succeeded=1),
]


def told_pod(phase: str, *containers: Json, at: str = LATER, grace: int = 30, conditions: Any = ()) -> Json:
    """By somebody who deleted it at that time."""
    due = (datetime.fromisoformat(at) + timedelta(seconds=grace)).isoformat()
    found = deleted(pod(phase, *containers, conditions=list(conditions)), due)
    found["metadata"]["deletionGracePeriodSeconds"] = grace
    return found


def test_rule_3_a_task_that_was_told_to_end_and_ended_in_order_has_not_succeeded() -> None:
    """Drained, preempted, off its node, or deleted by hand: it was SUCCEEDED, and its run COMPLETED."""
    complete = look([job(0, 1, COMPLETE)])
    for before in (ENDS_IN_ORDER[:1], ENDS_IN_ORDER[:2], ENDS_IN_ORDER):
        failed = after(row(), *(look([there]) for there in before), complete)
        assert (failed.status, failed.reason, failed.exit_code) == (TaskStatus.FAILED, "disrupted", 0)
    seen_running = look([job(terminating=1)], [told_pod("Running", running(), at=ago(0), conditions=[DRAINED])])
    drained = after(row(), seen_running, look([job(terminating=1)]), look([job(succeeded=1)]), complete)
    assert (drained.status, drained.reason) == (TaskStatus.FAILED, "drained"), "who it was, only its pod knew"


def test_rule_3_what_is_left_of_its_pod_tells_whether_it_was_told() -> None:
    def left(found: Json) -> TaskRow:
        return after(row(), look([job(0, 1, COMPLETE)], [found]))

    drained = left(told_pod("Succeeded", ended(0), conditions=[{**DRAINED, "lastTransitionTime": LATER}]))
    assert (drained.status, drained.reason) == (TaskStatus.FAILED, "drained")
    by_hand = left(told_pod("Succeeded", ended(0), at=WHEN))
    assert (by_hand.status, by_hand.reason) == (TaskStatus.FAILED, "disrupted")
    assert left(pod("Succeeded", ended(0))).status is TaskStatus.SUCCEEDED
    afterwards = "2026-11-20T09:01:01Z"
    assert left(told_pod("Succeeded", ended(0), at=afterwards, grace=0)).status is TaskStatus.SUCCEEDED
    evicted_later = [{**DRAINED, "lastTransitionTime": afterwards}]
    cleaned_up = told_pod("Succeeded", ended(0), at=afterwards, grace=0, conditions=evicted_later)
    assert left(cleaned_up).status is TaskStatus.SUCCEEDED


@pytest.mark.parametrize("seconds", [-60, -10, 0, 10, 60])
@pytest.mark.parametrize("grace", [0, 30])
def test_rule_3_an_end_within_a_minute_of_the_deletion_is_no_success_unless_it_was_seen_first(
    seconds: int, grace: int
) -> None:
    """The end is dated by the node and the deletion by the API server. A node that is done with a pod deletes the pod
    again without a grace, and the date of the first request stays."""
    at = (datetime.fromisoformat(LATER) + timedelta(seconds=seconds)).isoformat()
    crossed = told_pod("Succeeded", ended(0), at=at, grace=grace)
    complete, gone = look([job(0, 1, COMPLETE)], [crossed]), look([job(0, 1, COMPLETE)])
    for later in ([complete], [look([job(active=1)], [crossed]), gone]):
        failed = after(row(), *later)
        assert (failed.status, failed.reason, failed.exit_code) == (TaskStatus.FAILED, "disrupted", 0)
        assert after(row(), *later, intent=Intent.STOP).status is TaskStatus.STOPPED
    seen = look([job(active=1)], [pod("Succeeded", ended(0))])
    for intent in (Intent.RUN, Intent.STOP):
        assert after(row(), seen, complete, intent=intent).status is TaskStatus.SUCCEEDED


def test_rule_3_the_sentence_says_that_the_order_is_not_known() -> None:
    crossed = told_pod("Succeeded", ended(0), at="2026-11-20T09:00:01Z", grace=0)
    change = verdict(row(), look([job(0, 1, COMPLETE)], [crossed]), Intent.RUN, NOW)
    assert change
    assert change.message == (
        "it ended with exit code 0 within a minute of its deletion (disrupted), "
        "and nothing shows that it was done before"
    )


def test_rule_3_clocks_that_are_further_apart_than_that_tell_the_order() -> None:
    """Else a pod that ended and was held for an hour would be told to end by whoever cleans up."""
    late = told_pod("Succeeded", ended(0), at="2026-11-20T09:01:01Z")
    assert after(row(), look([job(0, 1, COMPLETE)], [late])).status is TaskStatus.SUCCEEDED


def test_rule_3_what_a_look_saw_first_decides_about_the_order() -> None:
    done, told_since = pod("Succeeded", ended(0)), told_pod("Succeeded", ended(0), at=WHEN)
    seen_before = after(row(), look([job(active=1)], [done]), look([job(0, 1, COMPLETE)], [told_since]))
    assert seen_before.status is TaskStatus.SUCCEEDED
    alive = look([job(terminating=1)], [told_pod("Running", running(), at=ago(0), conditions=[DRAINED])])
    late = look([job(0, 1, COMPLETE)], [told_pod("Succeeded", ended(0), at="2026-11-20T09:30:00Z", grace=0)])
    drained = after(row(), alive, late)
    assert (drained.status, drained.reason) == (TaskStatus.FAILED, "drained")


@pytest.mark.parametrize("by", ["EvictionByEvictionAPI", "PreemptionByScheduler", "DeletionByTaintManager", "New"])
def test_rule_3_a_disruption_that_was_only_announced_told_nobody(by: str) -> None:
    """The condition is written first, then the pod is deleted. If that fails, the condition of a pod that ends within
    two minutes stays for ever."""
    announced = condition("DisruptionTarget", by, at=WHEN)
    left = [pod("Succeeded", ended(0), conditions=[announced])]
    assert after(row(), look([job(0, 1, COMPLETE)], left)).status is TaskStatus.SUCCEEDED
    assert after(row(), look([], left)).status is TaskStatus.SUCCEEDED
    carried_out = [told_pod("Succeeded", ended(0), at=LATER, grace=0, conditions=[announced])]
    assert after(row(), look([job(0, 1, COMPLETE)], carried_out)).status is TaskStatus.FAILED


def test_rule_3_a_kubelet_tells_its_pods_without_deleting_them() -> None:
    shut_down = pod("Succeeded", ended(0), conditions=[condition("DisruptionTarget", "TerminationByKubelet")])
    truth = after(row(), look([job(0, 1, COMPLETE)], [shut_down]))
    assert (truth.status, truth.reason) == (TaskStatus.FAILED, "evicted")


def test_rule_3_the_sentence_says_that_it_was_told() -> None:
    told = verdict(row(), look([job(0, 1, COMPLETE)], [told_pod("Succeeded", ended(0))]), Intent.RUN, NOW)
    assert told
    assert told.message == "it was asked to end (disrupted) before it was done, and ended in order, with exit code 0"


def test_rule_3_a_job_that_went_on_after_it_was_suspended_was_not_told_to_end() -> None:
    """Its first pod was; it succeeded with another."""
    first = told_pod("Running", running(), at=ago(0))
    first["metadata"]["uid"] = "the-first"
    resumed = look([job(terminating=1)], [first])
    truth = look([job(0, 1, COMPLETE)], [pod("Succeeded", ended(0))])
    assert after(row(), resumed, truth).status is TaskStatus.SUCCEEDED
    again = look([job(active=1, ready=1)])
    assert after(row(), resumed, again, look([job(0, 1, COMPLETE)])).status is TaskStatus.SUCCEEDED


def test_rule_3_nothing_but_its_own_pods_says_that_it_was_told() -> None:
    others = [
        told_pod("Succeeded", ended(0), conditions=[DRAINED]) | {"metadata": told_pod_of("another-uid", attempt=1)},
        told_pod("Running", running(), conditions=[DRAINED]) | {"metadata": told_pod_of("earlier", attempt=2)},
    ]
    for pods in (others, [*others, pod("Succeeded", ended(0))]):
        assert after(row(), look([job(0, 1, COMPLETE)], pods)).status is TaskStatus.SUCCEEDED


def told_pod_of(uid: str, attempt: int) -> Json:
    metadata: Json = deleted(pod("Running", uid=uid, attempt=attempt), WHEN)["metadata"]
    return metadata


def test_rule_3_a_success_of_which_the_pods_cannot_be_listed_or_read_waits_for_them() -> None:
    unlisted = look([job(0, 1, COMPLETE)], shelf=failing("pods"))
    unread = look([job(0, 1, COMPLETE)], [{**pod("Succeeded"), "status": {"containerStatuses": 7}}])
    for unknown in (unlisted, unread):
        assert verdict(row(), unknown, Intent.RUN, NOW) is None


BEFORE, AFTERWARDS = "2026-11-20T08:59:57Z", "2026-11-20T09:00:01Z"  # its program ended in between, with 0


def complete_although_deleted(at: str) -> Json:
    return deleted(job(0, 1, COMPLETE, succeeded=1, completionTime=AFTERWARDS), at)


@pytest.mark.parametrize("intent", Intent)
def test_rule_3_a_job_that_was_deleted_ended_before_or_because_of_that_as_its_pod_tells(intent: Intent) -> None:
    """The Job controller of a large cluster is behind: it counts what was told to end, and calls that complete."""
    because = TaskStatus.FAILED if intent is Intent.RUN else TaskStatus.STOPPED
    for at in (BEFORE, LATER, AFTERWARDS):
        told = look([complete_although_deleted(at)], [told_pod("Succeeded", ended(0), at=at)])
        assert after(row(), told, intent=intent).status is because
        untold = look([complete_although_deleted(at)], [pod("Succeeded", ended(0))])
        assert after(row(), untold, intent=intent).status is TaskStatus.SUCCEEDED, "only its Job was deleted"


@pytest.mark.parametrize("intent", Intent)
@pytest.mark.parametrize(
    ("counted", "there"),
    [
        ({"active": 1}, [pod("Running", running())]),
        ({"active": 1}, [deleted(pod("Running", running()))]),
        ({"active": 1}, [told_pod("Succeeded", ended(0), at=BEFORE)]),
        ({"terminating": 1}, []),
    ],
    ids=["lives", "was told", "has ended since", "is counted"],
)
def test_rule_6_what_lived_when_its_job_was_deleted_did_not_succeed(
    counted: Json, there: list[Json], intent: Intent
) -> None:
    """Its pod may be gone when its Job is complete."""
    since = ago(0) if "Succeeded" not in [each["status"]["phase"] for each in there] else BEFORE
    patient = JobPatience(overdue=timedelta(days=1000))
    leaving = Observer(Shelf().put(jobs=[deleted(job(0, 1, **counted), since)], pods=there), OURS, patient)
    complete = look([complete_although_deleted(since)])
    counted_away = look([deleted(job(succeeded=1), ago(0))])
    ended_as = after(row(), leaving.look(RUN, [KEY]), counted_away, complete, intent=intent)
    told = (TaskStatus.FAILED, "deleted_externally") if intent is Intent.RUN else (TaskStatus.STOPPED,)
    assert (ended_as.status, ended_as.reason)[: len(told)] == told


@pytest.mark.parametrize(
    ("pod_at", "cause", "author"),
    [(WHEN, "pod_terminating", "deleted_externally"), (LATER, None, None), ("2026-11-20T09:01:01Z", "finishing", None)],
    ids=["before its end", "about at its end", "after its end"],
)
def test_rule_6_an_ended_pod_shows_whether_the_deletion_of_its_job_met_a_living_program(
    pod_at: str, cause: str | None, author: str | None
) -> None:
    """The deletion counts as the author of a request to end only if the program was alive."""
    leaving = look([deleted(job(active=1), ago(0))], [told_pod("Succeeded", ended(0), at=pod_at, grace=0)])
    assert (leaving.jobs[KEY].phase, leaving.jobs[KEY].cause) == (JobPhase.ENDING, cause)
    assert after(row(), leaving).reason == author


@pytest.mark.parametrize("intent", Intent)
@pytest.mark.parametrize("there", [[pod("Succeeded", ended(0))], []], ids=["its pod is there", "and gone"])
def test_rule_6_what_was_done_when_its_job_was_deleted_succeeded(there: list[Json], intent: Intent) -> None:
    """Only its controller was late."""
    patient = JobPatience(overdue=timedelta(days=1000))
    jobs = [deleted(job(active=1), AFTERWARDS)]
    leaving = Observer(Shelf().put(jobs=jobs, pods=there), OURS, patient).look(RUN, [KEY])
    complete = look([complete_although_deleted(AFTERWARDS)])
    assert after(row(), leaving, complete, intent=intent).status is TaskStatus.SUCCEEDED


def test_rule_26_an_orphan_that_we_told_to_end_has_not_succeeded() -> None:
    """Its Job was deleted, and not its pod: so we told it."""
    orphaned = look(pods=[pod("Running", running())])
    left = look(pods=[told_pod("Succeeded", ended(0))])
    failed = after(row(), orphaned, left)
    assert (failed.status, failed.reason, failed.exit_code) == (TaskStatus.FAILED, "disrupted", 0)
    assert after(row(), orphaned, look(pods=[pod("Succeeded", ended(0))])).status is TaskStatus.SUCCEEDED


def test_rule_r_a_reason_that_nobody_has_heard_of_is_written_as_ours() -> None:
    assert seen([job(0, 1, condition("Failed", "ByTheMoon7"))]).reason == "by_the_moon7"
    assert seen([job(0, 1, condition("Failed"))]).reason == "failed"


def test_rule_r_a_sidecar_that_was_ended_with_its_pod_is_no_failed_init_container() -> None:
    failed = pod("Failed", ended(3), initContainerStatuses=[ended(143, name="proxy")])
    failed["spec"]["initContainers"] = [{"name": "proxy", "restartPolicy": "Always"}]
    assert seen([job(0, 1, FAILED)], [failed]).reason == "exit_3"


def test_rule_r_the_message_is_that_of_the_init_container_which_failed() -> None:
    init = ended(2, name="init", message="no credentials")
    failed = seen([job(0, 1, FAILED)], [pod("Failed", waiting("PodInitializing"), initContainerStatuses=[init])])
    assert (failed.reason, failed.message) == ("init_exit_2", "no credentials")


def test_rule_r_an_exit_code_that_nobody_saw_is_none() -> None:
    assert seen([job(0, 1, FAILED)], [pod("Failed", ended(137, "ContainerStatusUnknown"))]).exit_code is None


def test_rule_2_pods_of_another_uid_say_nothing_about_a_job() -> None:
    """Neither of one that is there, nor, where nobody knows which is meant, of one that is gone."""
    theirs = pod("Running", running(), uid="another")
    theirs["metadata"]["creationTimestamp"] = LATER
    assert told(seen([job(0, 1, **ACTIVE)], [theirs, pending()])) == (JobPhase.WAITING, "scheduled")
    both = look(pods=[theirs, pod("Succeeded", ended(0))])
    assert (both.jobs[KEY].phase, both.jobs[KEY].gone) == (JobPhase.UNCLEAR, False)


def test_rule_22_what_a_job_left_behind_is_not_adopted() -> None:
    left = look(pods=[pod("Succeeded", ended(0))])
    assert verdict(row(TaskStatus.DEPLOYING, None), left, Intent.RUN, NOW) is None


def test_rule_26_a_pod_does_not_speak_for_a_job_that_may_be_there() -> None:
    nameless = look([None], [pod("Succeeded", ended(0))])
    assert verdict(row(), nameless, Intent.RUN, NOW) is None


def with_sidecar(phase: str, main: Json, sidecar: Json, **status: Any) -> Json:
    there = pod(phase, main, sidecar, **status)
    return {**there, "spec": {**there["spec"], "containers": [{"name": "crawl"}, {"name": "proxy"}]}}


HANGS = [0, 3]
OUTLIVED = {  # what ends a pod whose main container has ended: reasons, and whether the pod is deleted
    "drained": ({"conditions": [condition("DisruptionTarget", "EvictionByEvictionAPI", at=LATER)]}, True),
    "preempted": ({"conditions": [condition("DisruptionTarget", "PreemptionByScheduler", at=LATER)]}, True),
    "node_tainted": ({"conditions": [condition("DisruptionTarget", "DeletionByTaintManager", at=LATER)]}, True),
    "node_deleted": ({"conditions": [condition("DisruptionTarget", "DeletionByPodGC", at=LATER)]}, True),
    "deleted": ({}, True),
    "evicted": ({"reason": "Evicted"}, False),
    "node_shutdown": ({"reason": "Terminated"}, False),
    "sidecar": ({}, False),
}


@pytest.mark.parametrize("code", HANGS)
@pytest.mark.parametrize(("status", "is_deleted"), OUTLIVED.values(), ids=OUTLIVED)
def test_rule_5_the_programs_own_end_decides_over_what_ends_its_pod_later(
    status: Json, code: int, *, is_deleted: bool
) -> None:
    """A complete crawl was crawled again, since its sidecar was drained or evicted after it."""
    main = ended(code)
    hangs = look([job(0, 1, **ACTIVE)], [with_sidecar("Running", main, running("proxy"))])
    over = with_sidecar("Failed", main, ended(137, "OOMKilled", "proxy"), **status)
    failed = [job(0, 1, FAILED)]
    for pods in ([deleted(over) if is_deleted else over], []):
        end = after(row(), hangs, look(failed, pods))
        assert end.exit_code == code
        assert (end.status, end.reason) == ((TaskStatus.FAILED, "exit_3") if code else (TaskStatus.SUCCEEDED, None))


def test_rule_5_a_pod_alone_shows_that_its_program_ended_minutes_before_its_disruption() -> None:
    drained = condition("DisruptionTarget", "EvictionByEvictionAPI", at=LATER)
    over = with_sidecar("Failed", ended(0), ended(143, name="proxy"), conditions=[drained])
    minutes_later, seconds_later = (deleted(over, f"2026-11-20T09:{at}Z") for at in ("05:00", "00:59"))
    assert after(row(), look([job(0, 1, FAILED)], [minutes_later])).status is TaskStatus.SUCCEEDED
    doubtful = after(row(), look([job(0, 1, FAILED)], [seconds_later]))
    assert (doubtful.status, doubtful.reason, doubtful.exit_code) == (TaskStatus.FAILED, "drained", 0)


def test_rule_5_a_deadline_keeps_the_exit_code_that_a_look_saw() -> None:
    told_by_the_job = look(
        [job(0, 1, condition("FailureTarget", "DeadlineExceeded"), terminating=1)],
        [told_pod("Succeeded", ended(0), at="2026-11-20T09:00:10Z", grace=30)],
    )
    over = look([job(0, 1, condition("Failed", "DeadlineExceeded"))])
    end = after(row(), told_by_the_job, over)
    assert (end.status, end.reason, end.exit_code) == (TaskStatus.FAILED, "deadline_exceeded", 0)


@pytest.mark.parametrize("code", [137, 143])
def test_rule_5_a_pod_that_somebody_deletes_is_disrupted_whoever_looks_when(code: int) -> None:
    """The failure was the program's while the pod was listed, and the infrastructure's once it was gone."""
    now = datetime.now(UTC).isoformat()
    told_to_end = look([job(terminating=1)], [told_pod("Running", running(), at=now)])
    main = ended(code)
    main["state"]["terminated"]["finishedAt"] = now
    over = told_pod("Failed", main, at=now)
    counted = look([job(terminating=1)], [over])
    listed, gone = look([our_job(FAILED)], [over]), look([our_job(FAILED)])
    for looks in ([listed], [gone], [told_to_end, gone], [counted, gone], [told_to_end, counted, listed]):
        end = after(row(), *looks)
        assert (end.status, end.reason) == (TaskStatus.FAILED, "disrupted")


def our_job(*conditions: Json) -> Json:
    ours = job(0, 1, *conditions)
    return {**ours, "spec": {**ours["spec"], "podFailurePolicy": {"rules": []}}}
