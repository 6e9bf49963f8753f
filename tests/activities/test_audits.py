"""An audit over a real database and real jobs: what disagrees is found and mended, and nothing else is touched."""

import asyncio
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any, cast
from uuid import uuid4

import pytest

from crawler_lifecycle.assembly.store import SqlStore
from crawler_lifecycle.audits.activities.handovers import IN_VAIN, HandoverAudit
from crawler_lifecycle.audits.activities.jobs import NOT_ALLOWED
from crawler_lifecycle.audits.rules.runs import OLD_COPY
from crawler_lifecycle.clusters.ports import Cluster
from crawler_lifecycle.database.schema import metadata
from crawler_lifecycle.errors import Conflict, LifecycleError, PermanentError, TemporaryError
from crawler_lifecycle.model.audits import (
    AuditPart,
    AuditRef,
    AuditReport,
    AuditRequest,
    AuditStep,
    FindingKind,
    PartReport,
)
from crawler_lifecycle.model.looks import JobLook, JobPhase, Look, Pods
from crawler_lifecycle.model.naming import export_workflow_id
from crawler_lifecycle.model.requests import RunRequest
from crawler_lifecycle.model.run_plan import CloseRun, ExportedEnd, Notify, RunPlan
from crawler_lifecycle.model.states import ExportState
from crawler_lifecycle.model.supervision import AuditPatience, ListedJob, WorkflowInfo
from crawler_lifecycle.model.task_changes import EvidenceWrite, StatusWrite
from tests.activities.auditing import audit, ended, findings
from tests.activities.removals import Removing, both_over
from tests.clusters import LocalBench
from tests.house import House
from tests.waiting import until

AN_HOUR = timedelta(hours=1)
TERMINATED = WorkflowInfo(is_open=False, end="terminated", ended_at=datetime.now(UTC) - AN_HOUR)


# Runs


def test_a_run_whose_workflow_is_gone_is_resumed(house: House) -> None:
    watched, terminated, deleted = house.begin(), house.begin(), house.begin()
    ids = {plan.run.run_id: house.details(plan).run.workflow_id for plan in (watched, terminated, deleted)}
    house.supervisors.listed = {ids[watched.run.run_id]}
    house.supervisors.described = {ids[terminated.run.run_id]: TERMINATED}
    page = audit(house, AuditPart.RUNS)
    assert (page.examined, page.found, page.acted, page.rest) == (3, {FindingKind.UNSUPERVISED: 2}, 2, None)
    started = [(workflow_id, request.run_id) for workflow_id, request in house.supervisors.started]
    assert sorted(started) == sorted((ids[plan.run.run_id], plan.run.run_id) for plan in (terminated, deleted))
    (finding,) = house.details(terminated).findings
    assert (finding.kind, finding.acts, finding.problem) == (FindingKind.UNSUPERVISED, 1, None)
    assert "terminated" in finding.message
    assert house.details(watched).findings == []


def test_after_a_restore_no_run_that_ended_well_is_resumed(house: House) -> None:
    restored, reused = house.begin(), house.begin()
    ended_well = WorkflowInfo(is_open=False, end="completed", ended_at=datetime.now(UTC) - AN_HOUR)
    runs = [house.details(plan).run for plan in (restored, reused)]
    house.supervisors.described = {
        runs[0].workflow_id: replace(ended_well, first_execution=runs[0].first_execution_run_id),
        runs[1].workflow_id: replace(ended_well, first_execution="of another run", requested_run_id=runs[0].run_id),
    }
    page = audit(house, AuditPart.RUNS)
    assert (page.found, page.acted) == ({FindingKind.UNSUPERVISED: 2}, 1)
    assert [workflow_id for workflow_id, _ in house.supervisors.started] == [runs[1].workflow_id]
    (told,) = house.details(restored).findings
    assert (told.acts, told.problem) == (0, OLD_COPY)


def test_after_a_restore_a_run_that_ended_well_is_resumed_where_the_cluster_still_tells_how(house: House) -> None:
    """Under its own supervisor or a later one. Not one with a task that was deployed since, for all that is known: it
    would be crawled again. And not one with a task that has got another attempt since."""
    own, later, unknown, again = (house.started() for _ in range(4))
    for plan in (own, later, unknown, again):
        run = house.details(plan).run
        closed = WorkflowInfo(is_open=False, end="completed", ended_at=datetime.now(UTC), requested_run_id=run.run_id)
        by_its_own = replace(closed, first_execution=run.first_execution_run_id, requested_run_id=0)
        house.supervisors.described[run.workflow_id] = by_its_own if plan is own else closed
        if plan is not unknown:
            house.deploy_children(plan)
    house.bench.cluster.deploy(house.bench.request("true", run_uid=again.run.run_uid, task=0, attempt=2))
    page = audit(house, AuditPart.RUNS)
    assert (page.found, page.acted) == ({FindingKind.UNSUPERVISED: 4}, 2)
    assert {request.run_id for _, request in house.supervisors.started} == {own.run.run_id, later.run.run_id}
    for plan in (unknown, again):
        (told,) = house.details(plan).findings
        assert (told.acts, told.problem) == (0, OLD_COPY)


def test_one_that_is_only_not_listed_yet_is_left_alone(house: House) -> None:
    workflow_id = house.details(house.begin()).run.workflow_id
    house.supervisors.described = {workflow_id: WorkflowInfo(is_open=True)}
    page = audit(house, AuditPart.RUNS)
    assert (page.examined, page.found, house.supervisors.started) == (1, {}, [])


def test_what_began_or_ended_a_moment_ago_is_left_alone(house: House) -> None:
    house.run_audit = replace(house.run_audit, patience=AuditPatience())
    just_begun, just_ended = house.begin(), house.begin()
    house.supervisors.described = {
        house.details(just_ended).run.workflow_id: replace(TERMINATED, ended_at=datetime.now(UTC))
    }
    assert audit(house, AuditPart.RUNS).found == {}
    assert house.details(just_begun).findings == []


def test_a_dry_run_changes_nothing(house: House) -> None:
    plan = ended(house, house.started("sleepy"))
    house.begin()
    unknown = house.bench.request("exec sleep 60")
    house.bench.cluster.deploy(unknown)
    house.bench.until_phase(unknown, JobPhase.RUNNING)
    before = dump(house)
    finding = {part: audit(house, part, repair=False).found for part in AuditPart}
    assert finding == {
        AuditPart.RUNS: {FindingKind.UNSUPERVISED: 1},
        AuditPart.JOBS: {FindingKind.LEFTOVER_JOB: 1, FindingKind.UNKNOWN_JOB: 1},
        AuditPart.HANDOVERS: {FindingKind.EXPORT_PENDING: 1},
        AuditPart.FLOWS: {},
    }
    ref = house.do(house.audits.begin_audit, AuditRequest())
    house.do(house.audits.finish_audit, AuditReport(audit=ref, parts={part: PartReport() for part in AuditPart}))
    assert dump(house) == before
    assert house.supervisors.started == []
    look = house.bench.cluster.look(plan.run.run_uid)
    assert not any(job.stop_asked for job in look.jobs.values())


def dump(house: House) -> dict[str, list[object]]:
    with house.database.read() as connection:
        return {name: list(connection.execute(table.select()).all()) for name, table in metadata.tables.items()}


def test_an_outage_of_temporal_says_nothing_about_runs(house: House, monkeypatch: pytest.MonkeyPatch) -> None:
    house.begin()

    async def away(*_: object) -> set[str]:
        raise TemporaryError("Temporal does not answer")

    monkeypatch.setattr(house.supervisors, "open_among", away)
    with pytest.raises(TemporaryError):
        audit(house, AuditPart.RUNS)
    assert (findings(house), house.supervisors.started) == ([], [])


def test_one_that_cannot_be_described_fails_the_page_as_what_it_is(
    house: House, monkeypatch: pytest.MonkeyPatch
) -> None:
    for _ in range(3):
        house.begin()

    async def away(*_: object) -> WorkflowInfo:
        raise TemporaryError("Temporal does not answer")

    monkeypatch.setattr(house.supervisors, "describe", away)
    with pytest.raises(TemporaryError, match="does not answer"):
        audit(house, AuditPart.RUNS)
    assert findings(house) == []


@pytest.mark.parametrize("error", [PermanentError, TemporaryError])
def test_one_that_can_never_be_described_keeps_no_other_from_being_audited(
    house: House, monkeypatch: pytest.MonkeyPatch, error: type[LifecycleError]
) -> None:
    bad, good = house.begin(), house.begin()
    done = ended(house, house.begin())
    broken = {house.details(plan).run.workflow_id for plan in (bad, done)}
    describe = house.supervisors.describe

    async def describing(workflow_id: str) -> WorkflowInfo:
        if workflow_id in broken:
            raise error("its state is damaged")
        return await describe(workflow_id)

    monkeypatch.setattr(house.supervisors, "describe", describing)
    house.environment.info = replace(house.environment.info, attempt=3)
    page = audit(house, AuditPart.RUNS)
    assert (page.found, page.acted) == ({FindingKind.UNSUPERVISED: 2}, 1)
    (told,) = house.details(bad).findings
    assert (told.problem, told.acts) == ("its state is damaged", 0)
    assert [request.run_id for _, request in house.supervisors.started] == [good.run.run_id]
    assert audit(house, AuditPart.HANDOVERS).found == {}


@pytest.mark.parametrize("error", [PermanentError, TemporaryError])
def test_one_whose_start_cannot_be_read_keeps_no_other_from_being_audited(
    house: House, monkeypatch: pytest.MonkeyPatch, error: type[LifecycleError]
) -> None:
    """It may have been the later end of the run: nothing is done before somebody has seen to it."""
    bad, good = house.begin(), house.begin()
    workflow_id = house.details(bad).run.workflow_id
    house.supervisors.described = {workflow_id: replace(TERMINATED, end="canceled", first_execution="later")}

    async def requested_run_id(_: str) -> int:
        raise error("it cannot be read")

    monkeypatch.setattr(house.supervisors, "requested_run_id", requested_run_id)
    if error is TemporaryError:
        with pytest.raises(TemporaryError):
            audit(house, AuditPart.RUNS)
        house.environment.info = replace(house.environment.info, attempt=3)
    page = audit(house, AuditPart.RUNS)
    assert (page.found, page.acted) == ({FindingKind.UNSUPERVISED: 2}, 1)
    (told,) = house.details(bad).findings
    assert (told.problem, told.acts) == ("it cannot be read", 0)
    assert [request.run_id for _, request in house.supervisors.started] == [good.run.run_id]


def test_what_cannot_be_resumed_is_told_and_keeps_no_other_from_it(
    house: House, monkeypatch: pytest.MonkeyPatch
) -> None:
    bad, good = house.begin(), house.begin()
    go_on = house.supervisors.go_on

    async def refusing(workflow_id: str, request: object) -> None:
        if workflow_id == house.details(bad).run.workflow_id:
            raise Conflict("not this one")
        await go_on(workflow_id, request)  # type: ignore[arg-type]

    monkeypatch.setattr(house.supervisors, "go_on", refusing)
    assert audit(house, AuditPart.RUNS).acted == 1
    (told,) = house.details(bad).findings
    assert (told.problem, told.acts) == ("not this one", 0)
    assert house.details(good).findings[0].acts == 1


def test_what_was_done_is_kept_if_the_rest_of_the_page_cannot_be(house: House, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("crawler_lifecycle.audits.activities.auditing.REQUESTS_AT_ONCE", 2)
    plans = [house.begin() for _ in range(5)]
    go_on = house.supervisors.go_on

    async def breaking_off(workflow_id: str, request: RunRequest) -> None:
        if request.run_id == plans[3].run.run_id:
            raise TemporaryError("Temporal does not answer")
        await go_on(workflow_id, request)

    monkeypatch.setattr(house.supervisors, "go_on", breaking_off)
    with pytest.raises(TemporaryError):
        audit(house, AuditPart.RUNS)
    assert [house.details(plan).findings[0].acts for plan in plans] == [1, 1, 0, 0, 0]


def test_claims_and_looks_that_nobody_keeps_are_reported(house: House) -> None:
    plan = house.begin()
    house.supervisors.listed = {house.details(plan).run.workflow_id}
    house.claims.claim_main(plan.run, "gone", timedelta(minutes=-5))
    late = house.started("sleepy")
    house.supervisors.listed.add(house.details(late).run.workflow_id)
    SqlStore(house.database).runs.mark_look(late.run, 0, True, None, datetime.now(UTC) - AN_HOUR)
    page = audit(house, AuditPart.RUNS)
    assert (page.found, page.acted) == ({FindingKind.LOOK_OVERDUE: 1, FindingKind.CLAIM_EXPIRED: 1}, 0)
    assert house.supervisors.started == []


def test_one_that_is_listed_as_open_and_does_not_look_is_described(house: House) -> None:
    late = house.started("sleepy")
    workflow_id = house.details(late).run.workflow_id
    house.supervisors.listed, house.supervisors.described = {workflow_id}, {workflow_id: TERMINATED}
    assert audit(house, AuditPart.RUNS).found == {}
    SqlStore(house.database).runs.mark_look(late.run, 0, True, None, datetime.now(UTC) - AN_HOUR)
    page = audit(house, AuditPart.RUNS)
    assert (page.found, page.acted) == ({FindingKind.UNSUPERVISED: 1}, 1)


def test_pages_follow_each_other(house: House, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("crawler_lifecycle.audits.activities.runs.RUNS_IN_A_PAGE", 2)
    plans = [house.begin() for _ in range(5)]
    after, examined = None, []
    for _ in range(3):
        page = audit(house, AuditPart.RUNS, after=after)
        examined.append(page.examined)
        after = page.rest
    assert (examined, after) == ([2, 2, 1], None)
    assert len({workflow_id for workflow_id, _ in house.supervisors.started}) == len(plans)


# Jobs


def test_a_job_whose_run_is_over_is_asked_to_end_and_then_made_to(house: House) -> None:
    plan = house.started("sleepy")
    other = house.started("sleepy")
    until(lambda: is_running(house, plan) and is_running(house, other), "their jobs to run")
    ended(house, plan)
    page = audit(house, AuditPart.JOBS)
    assert (page.found, page.acted) == ({FindingKind.LEFTOVER_JOB: 1}, 1)
    (finding,) = house.details(plan).findings
    assert finding.action == "1 job asked to end"
    until(lambda: all(job.gone for job in house.bench.cluster.look(plan.run.run_uid).jobs.values()), "it to end")
    assert audit(house, AuditPart.JOBS).found == {}
    assert is_running(house, other)
    assert house.details(other).findings == []


def is_running(house: House, plan: RunPlan) -> bool:
    return house.bench.cluster.look(plan.run.run_uid).jobs[0, 1].phase is JobPhase.RUNNING


def deaf(house: House) -> RunPlan:
    """A run whose job does not end when it is asked to."""
    house.deployer.scripts["deaf"] = 'trap "" TERM; echo up; while true; do sleep 1; done'
    plan = house.started("deaf")
    until(lambda: "up" in house.bench.cluster.log(plan.run.run_uid, 0, 1, 0).text, "it to listen to nobody")
    return plan


def test_one_that_does_not_end_is_made_to(house: House) -> None:
    plan = ended(house, deaf(house))
    assert audit(house, AuditPart.JOBS).acted == 1
    page = audit(house, AuditPart.JOBS)
    assert page.findings[0].action == "1 job killed"
    until(lambda: all(job.gone for job in house.bench.cluster.look(plan.run.run_uid).jobs.values()), "it to end")
    (finding,) = house.details(plan).findings
    assert finding.acts == 2
    assert "up" in (finding.evidence or "")


def test_jobs_are_named_by_their_uid_on_record(house: House, monkeypatch: pytest.MonkeyPatch) -> None:
    """A job whose labels were edited is known only by its uid: the audit neither saw nor ended such a job."""
    plan = ended(house, deaf(house))
    (row,) = house.tasks.rows(plan.run.run_id, [0])
    cluster, received = house.bench.cluster, list[tuple[str, object]]()

    def recording(name: str) -> Callable[..., Any]:
        method = getattr(cluster, name)

        def call(*args: Any, uids: object = None, **options: Any) -> Any:
            received.append((name, uids))
            return method(*args, uids=uids, **options)

        return call

    with monkeypatch.context() as patched:
        for name in ("look", "stop", "kill"):
            patched.setattr(cluster, name, recording(name))
        for _ in range(2):
            audit(house, AuditPart.JOBS)
    on_record = {(0, 1): row.job_uid}
    assert received == [(name, on_record) for name in ("look", "stop", "look", "kill")]
    until(lambda: all(job.gone for job in cluster.look(plan.run.run_uid).jobs.values()), "it to end")


def test_one_that_cannot_be_removed_keeps_no_other_alive(house: House, monkeypatch: pytest.MonkeyPatch) -> None:
    plan = ended(house, deaf(house))
    cluster, full = house.bench.cluster, TemporaryError("no space for its log")
    over = JobLook(1, 1, "uid", "job-1", JobPhase.SUCCEEDED, pods=Pods.ENDED)
    inventory, look = cluster.inventory, cluster.look

    def listing() -> Iterator[Sequence[ListedJob]]:
        yield from inventory()
        yield [ListedJob("job-1", plan.run.run_uid, (1, 1))]

    def looking(run_uid: str, *more: Any, **options: Any) -> Look:
        seen = look(run_uid, *more, **options)
        return replace(seen, jobs={**seen.jobs, (1, 1): over}, keeps_ended_jobs=True)

    def refusing(*_: object, **__: object) -> int:
        raise full

    with monkeypatch.context() as patched:
        patched.setattr(cluster, "inventory", listing)
        patched.setattr(cluster, "look", looking)
        patched.setattr(cluster, "remove", refusing)
        for _ in range(2):
            audit(house, AuditPart.JOBS)
    (finding,) = house.details(plan).findings
    assert (finding.action, finding.acts, finding.problem) == ("1 job killed", 2, full.message)
    until(lambda: all(job.gone for job in cluster.look(plan.run.run_uid).jobs.values()), "it to end")


def test_jobs_leave_once_what_became_of_them_is_on_record(house: House) -> None:
    """The run's supervisor ended before its cluster told it."""
    plan, finding = both_over(house)
    house.do(house.reconciliation.sync_statuses, StatusWrite(run=plan.run, changes=finding.changes))
    house.do(house.histories.update_run_status, CloseRun(run=plan.run))
    cluster = Removing(house)
    cluster.listed = [ListedJob(f"job-{task}", plan.run.run_uid, (task, 1)) for task in (0, 1)]
    house.job_audit = replace(house.job_audit, cluster=cast(Cluster, cluster))
    cluster.busy = TemporaryError("no answer")
    audit(house, AuditPart.JOBS)
    (told,) = house.details(plan).findings
    assert (cluster.removed, told.problem, told.action) == ([], "no answer", None)
    known = cluster.inner.evidence(plan.run.run_uid, [(0, 1)])
    house.do(house.reconciliation.reconcile_tasks, EvidenceWrite(run=plan.run, items=known))
    audit(house, AuditPart.JOBS)
    (told,) = house.details(plan).findings
    assert cluster.removed == [(0, 1)]
    assert "1 stay until the cluster reports what became of them: no answer" in (told.action or "")
    cluster.busy = None
    for _ in range(2):
        audit(house, AuditPart.JOBS)
    assert cluster.removed == [(0, 1)] + [(0, 1), (1, 1)] * 2
    assert cluster.explained == [(1, 1)], "what is on record is not asked for again"
    first, second = house.details(plan).tasks
    assert first.node
    assert second.node
    assert "task one fails" in (second.log_tail or "")


def test_a_run_that_was_over_a_moment_ago_is_left_alone(house: House) -> None:
    house.job_audit = replace(house.job_audit, patience=AuditPatience())
    plan = ended(house, house.started("sleepy"))
    assert audit(house, AuditPart.JOBS).found == {}
    assert house.details(plan).findings == []


def test_a_job_of_nobody_is_reported_and_removed_only_if_told_to(house: House) -> None:
    request = house.bench.request("exec sleep 60")
    house.bench.cluster.deploy(request)
    house.bench.until_phase(request, JobPhase.RUNNING)
    assert audit(house, AuditPart.JOBS).acted == 0
    (finding,) = findings(house)
    assert (finding.kind, finding.subject, finding.problem) == (FindingKind.UNKNOWN_JOB, request.run_uid, NOT_ALLOWED)
    assert house.bench.job(request)
    assert not getattr(house.bench.job(request), "stop_asked", True)
    house.job_audit = replace(house.job_audit, may_remove_unknown_jobs=True)
    assert audit(house, AuditPart.JOBS).acted == 0, "the setting permits the removal and does not request it"
    assert audit(house, AuditPart.JOBS, unknown=True).acted == 1
    house.bench.until_stopped(request)


def test_a_request_alone_removes_no_unknown_jobs(house: House) -> None:
    """Whoever may start workflows in the namespace can write any permission into the input of an audit."""
    request = house.bench.request("exec sleep 60")
    house.bench.cluster.deploy(request)
    house.bench.until_phase(request, JobPhase.RUNNING)
    begun = house.do(house.audits.begin_audit, AuditRequest(repair=True, remove_unknown_jobs=True))
    assert not begun.remove_unknown_jobs
    assert audit(house, AuditPart.JOBS, unknown=True).acted == 0
    (finding,) = findings(house)
    assert finding.problem == NOT_ALLOWED
    assert house.bench.cluster.look(request.run_uid).jobs[0, 1].phase is JobPhase.RUNNING


def test_after_a_restore_the_living_jobs_of_a_reopened_run_are_left_alone(house: House) -> None:
    plan = ended(house, house.begin())
    reopened_since = house.bench.request("exec sleep 60", run_uid=plan.run.run_uid, task=0, attempt=2)
    house.bench.cluster.deploy(reopened_since)
    house.bench.until_phase(reopened_since, JobPhase.RUNNING)
    for _ in range(2):
        page = audit(house, AuditPart.JOBS)
        assert (page.found, page.acted) == ({FindingKind.UNKNOWN_JOB: 1}, 0)
    (finding,) = house.details(plan).findings
    assert (finding.kind, finding.problem) == (FindingKind.UNKNOWN_JOB, NOT_ALLOWED)
    assert "old copy" in finding.message
    assert house.bench.cluster.look(plan.run.run_uid).jobs[0, 2].phase is JobPhase.RUNNING


def test_a_slow_cluster_gets_more_pages(house: House, monkeypatch: pytest.MonkeyPatch) -> None:
    plans = [ended(house, house.started("sleepy")) for _ in range(3)]
    monkeypatch.setattr("crawler_lifecycle.audits.activities.jobs.LONGEST_LOOKING", -1.0)
    rests, after = [], None
    for _ in plans:
        page = audit(house, AuditPart.JOBS, after=after)
        assert page.found == {FindingKind.LEFTOVER_JOB: 1}
        rests.append(after := page.rest)
    assert rests == [*sorted(plan.run.run_uid for plan in plans)[:2], None]


def test_a_job_of_another_installation_is_not_seen(house: House) -> None:
    other = str(uuid4())
    request = house.bench.request("exec sleep 60", installation=other)
    house.bench.other_client(other).deploy(request)
    house.job_audit = replace(house.job_audit, may_remove_unknown_jobs=True)
    page = audit(house, AuditPart.JOBS, unknown=True)
    assert (page.examined, page.found) == (0, {})


class Blind:
    """A cluster that lists its jobs but breaks off, or does not let them be looked at."""

    def __init__(self, bench: LocalBench, *, breaks_off: bool = False) -> None:
        self._cluster, self._breaks_off = bench.cluster, breaks_off

    def inventory(self) -> Iterator[Sequence[ListedJob]]:
        yield from self._cluster.inventory()
        if self._breaks_off:
            raise TemporaryError("the list broke off")

    def look(self, *_: object, **__: object) -> Look:
        return Look(complete=False, problem="no answer")


def test_the_unknown_is_judged_by_nobody(house: House) -> None:
    plan = ended(house, deaf(house))
    sighted = house.job_audit
    house.job_audit = replace(sighted, cluster=cast(Cluster, Blind(house.bench, breaks_off=True)))
    with pytest.raises(TemporaryError, match="broke off"):
        audit(house, AuditPart.JOBS)
    house.job_audit = replace(sighted, cluster=cast(Cluster, Blind(house.bench)))
    page = audit(house, AuditPart.JOBS)
    assert (page.found, page.unknown) == ({}, 1)
    assert house.details(plan).findings == []
    house.job_audit = sighted
    audit(house, AuditPart.JOBS)
    house.job_audit = replace(sighted, cluster=cast(Cluster, Blind(house.bench)))
    whole(house)
    kept = {each.kind: each.closed_at for each in house.details(plan).findings}
    assert kept[FindingKind.LEFTOVER_JOB] is None, "not seen is not mended"


def test_a_cluster_where_all_that_was_known_is_gone_is_not_believed_at_once(house: House) -> None:
    request = house.bench.request("exec sleep 60")
    house.bench.cluster.deploy(request)
    house.bench.until_phase(request, JobPhase.RUNNING)
    whole(house)
    sighted, elsewhere = house.job_audit, house.bench.client(str(uuid4()))
    house.job_audit = replace(sighted, cluster=elsewhere)
    report = whole(house)
    assert not report.is_complete
    assert [each.closed_at for each in findings(house)] == [None]
    house.job_audit = replace(house.job_audit, patience=replace(sighted.patience, empty=timedelta()))
    assert whole(house).is_complete
    assert [each.closed_at is None for each in findings(house)] == [False]


def test_a_cluster_that_is_empty_by_what_we_did_is_believed(house: House) -> None:
    ended(house, house.started("sleepy"))
    whole(house)
    house.job_audit = replace(house.job_audit, cluster=house.bench.client(str(uuid4())))
    assert whole(house).is_complete
    assert {each.kind: each.closed_at is None for each in findings(house)}[FindingKind.LEFTOVER_JOB] is False


# What was to be handed over


def test_an_export_that_nobody_makes_is_replayed_by_the_runs_own_workflow(house: House) -> None:
    pending, done, failed, busy = (ended(house, house.begin()) for _ in range(4))
    house.do(house.exports.initiate_export_signal, ExportedEnd(run=done.run))
    house.do(house.exports.export_supporting_files, ExportedEnd(run=done.run))
    event = house.do(house.exports.initiate_export_signal, ExportedEnd(run=failed.run))
    exports = metadata.tables["exports"]
    with house.database.transaction() as connection:
        connection.execute(exports.update().where(exports.c.event_id == event.event_id).values(state="failed"))
    SqlStore(house.database).runs.settle_export(failed.run, event.event_id, ExportState.FAILED, None, "no space")
    house.supervisors.listed = {house.details(busy).run.workflow_id}
    page = audit(house, AuditPart.HANDOVERS)
    assert page.found == {FindingKind.EXPORT_PENDING: 1, FindingKind.EXPORT_FAILED: 1}
    started = {request.run_id for _, request in house.supervisors.started}
    assert started == {pending.run.run_id, failed.run.run_id}
    assert house.details(done).findings == house.details(busy).findings == []


def test_an_export_that_a_person_asked_for_is_left_alone(house: House) -> None:
    plan = ended(house, house.begin())
    house.supervisors.listed = {export_workflow_id(plan.run.run_uid)}
    assert audit(house, AuditPart.HANDOVERS).found == {}
    house.supervisors.listed = set()
    assert audit(house, AuditPart.HANDOVERS).found == {FindingKind.EXPORT_PENDING: 1}


def test_an_end_whose_workflow_id_is_taken_is_told_and_not_handed_over(
    house: House, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whoever starts a workflow under the id of one that is open joins it, of whatever type it is."""
    pending, untold = ended(house, house.begin()), undelivered(house, monkeypatch)
    ids = [house.details(plan).run.workflow_id for plan in (pending, untold)]
    house.supervisors.described = dict.fromkeys(ids, WorkflowInfo(is_open=True, is_ours=False))
    page = audit(house, AuditPart.HANDOVERS)
    assert (page.found, page.acted) == ({FindingKind.EXPORT_PENDING: 1, FindingKind.UNDELIVERED: 1}, 0)
    for plan, workflow_id in zip((pending, untold), ids, strict=True):
        (finding,) = house.details(plan).findings
        assert finding.acts == 0
        assert f"another type: end {workflow_id} first" in (finding.problem or "")


def test_an_export_whose_workflow_is_ended_again_and_again_does_not_wait_like_one_that_failed(house: House) -> None:
    house.handover_audit = replace(
        house.handover_audit, patience=replace(house.handover_audit.patience, failed_export=AN_HOUR)
    )
    plan = ended(house, house.begin())
    for _ in range(3):
        audit(house, AuditPart.HANDOVERS)
    (finding,) = house.details(plan).findings
    assert (finding.kind, finding.acts, finding.problem) == (FindingKind.EXPORT_PENDING, 3, None)


def undelivered(house: House, monkeypatch: pytest.MonkeyPatch) -> RunPlan:
    """A run that is over and exported, and whose end nobody was told."""
    plan = ended(house, house.begin())
    house.do(house.exports.initiate_export_signal, ExportedEnd(run=plan.run))
    house.do(house.exports.export_supporting_files, ExportedEnd(run=plan.run))

    def away(*_: object) -> None:
        raise TemporaryError("nobody there")

    with monkeypatch.context() as patched:
        patched.setattr(type(house.notices.pusher), "send", away)
        with pytest.raises(TemporaryError):
            house.do(house.notices.signal_pusher_stopped, Notify(run=plan.run))
    return plan


def test_a_closing_notice_that_was_not_delivered_is_sent_again(house: House, monkeypatch: pytest.MonkeyPatch) -> None:
    plan = undelivered(house, monkeypatch)
    page = audit(house, AuditPart.HANDOVERS)
    assert (page.found, page.acted) == ({FindingKind.UNDELIVERED: 1}, 1)
    house.do(house.notices.signal_pusher_stopped, Notify(run=plan.run))
    assert audit(house, AuditPart.HANDOVERS).found == {}
    assert [line.event for line in house.details(plan).log][-2:] == ["undelivered", "delivered"]


def test_a_closing_notice_that_was_never_tried_is_sent(house: House) -> None:
    """Its workflow was terminated right after the end was written down, and a person had it exported."""
    plan, other = house.begin(), house.begin()
    for each in (plan, other):
        house.do(house.notices.signal_pusher_started, Notify(run=each.run))
        ended(house, each)
        house.do(house.exports.initiate_export_signal, ExportedEnd(run=each.run))
        house.do(house.exports.export_supporting_files, ExportedEnd(run=each.run))
    house.do(house.notices.signal_pusher_stopped, Notify(run=other.run))
    page = audit(house, AuditPart.HANDOVERS)
    assert (page.found, page.acted) == ({FindingKind.UNDELIVERED: 1}, 1)
    assert [request.run_id for _, request in house.supervisors.started] == [plan.run.run_id]
    house.do(house.notices.signal_pusher_stopped, Notify(run=plan.run))
    assert audit(house, AuditPart.HANDOVERS).found == {}


def test_one_that_nobody_takes_is_sent_a_few_times_only(house: House, monkeypatch: pytest.MonkeyPatch) -> None:
    plan = undelivered(house, monkeypatch)
    for _ in range(5):
        audit(house, AuditPart.HANDOVERS)
    (finding,) = house.details(plan).findings
    assert (finding.acts, finding.problem, len(house.supervisors.started)) == (3, IN_VAIN, 3)


def test_how_often_it_was_sent_is_not_forgotten_while_its_workflow_is_at_it(
    house: House, monkeypatch: pytest.MonkeyPatch
) -> None:
    plan = undelivered(house, monkeypatch)
    workflow_id = house.details(plan).run.workflow_id
    just_ended = replace(TERMINATED, end="completed", ended_at=datetime.now(UTC) + AN_HOUR)
    for _ in range(4):
        house.supervisors.listed, house.supervisors.described = set(), {}
        whole(house)
        house.supervisors.listed = {workflow_id}
        assert whole(house).findings_count == 0, "it is at it"
        house.supervisors.listed, house.supervisors.described = set(), {workflow_id: just_ended}
        assert whole(house).findings_count == 0, "it was at it a moment ago"
    (finding,) = house.details(plan).findings
    assert (finding.acts, finding.problem, finding.closed_at) == (3, IN_VAIN, None)
    house.supervisors.listed = {workflow_id}
    house.do(house.notices.signal_pusher_stopped, Notify(run=plan.run))
    whole(house)
    (finding,) = house.details(plan).findings
    assert finding.closed_at is not None


def test_a_run_that_is_lost_again_and_again_is_one_finding(house: House) -> None:
    plan = house.begin()
    workflow_id = house.details(plan).run.workflow_id
    for ended_at in (-AN_HOUR, AN_HOUR, -AN_HOUR):
        failed = WorkflowInfo(is_open=False, end="failed", ended_at=datetime.now(UTC) + ended_at)
        house.supervisors.described = {workflow_id: failed}
        whole(house)
    (finding,) = house.details(plan).findings
    assert (finding.acts, finding.closed_at) == (2, None)


def test_an_old_end_is_reported_and_not_replayed(house: House, monkeypatch: pytest.MonkeyPatch) -> None:
    audits = house.handover_audit
    ancient = replace(audits.patience, replay=timedelta(seconds=-1))
    house.handover_audit = HandoverAudit(audits.records, audits.findings, audits.supervisors, ancient)
    ended(house, house.begin())

    async def asked(_: str) -> WorkflowInfo:
        raise AssertionError("nobody needs to know")

    monkeypatch.setattr(house.supervisors, "describe", asked)
    page = audit(house, AuditPart.HANDOVERS)
    assert (page.found, page.acted, house.supervisors.started) == ({FindingKind.EXPORT_PENDING: 1}, 0, [])


def test_an_old_closing_notice_is_left_to_whoever_resumes_its_run(
    house: House, monkeypatch: pytest.MonkeyPatch
) -> None:
    plan = undelivered(house, monkeypatch)
    monkeypatch.setattr("crawler_lifecycle.audits.rules.handovers.is_too_old", lambda *_: True)
    assert audit(house, AuditPart.HANDOVERS).acted == 0
    (finding,) = house.details(plan).findings
    assert (finding.kind, "`crawlctl resume` does it" in (finding.problem or "")) == (FindingKind.UNDELIVERED, True)


# All of it


def whole(house: House) -> AuditReport:
    """As the workflow does it."""
    house.environment.info = replace(house.environment.info, workflow_run_id=str(uuid4()))
    ref = house.do(house.audits.begin_audit, AuditRequest(repair=True))
    report = AuditReport(audit=ref)
    activities = (
        house.run_audit.audit_runs,
        house.job_audit.audit_jobs,
        house.handover_audit.audit_handovers,
        house.flow_audit.audit_flows,
    )
    for part, activity in zip(AuditPart, activities, strict=True):
        page = asyncio.run(house.environment.run(activity, AuditStep(audit=ref, part=part)))
        report = report.model_copy(update={"parts": {**report.parts, part: PartReport().with_page(page)}})
    house.do(house.audits.finish_audit, report)
    return report


def test_what_is_mended_is_closed_by_the_next_audit(house: House) -> None:
    plan = house.begin()
    whole(house)
    (finding,) = house.details(plan).findings
    assert finding.closed_at is None
    house.supervisors.listed = {house.details(plan).run.workflow_id}
    report = whole(house)
    (finding,) = house.details(plan).findings
    assert finding.closed_at is not None
    overview = house.findings.overview(audits=10, findings=10)
    assert (overview.open, len(overview.audits)) == ({}, 2)
    assert overview.audits[0].parts == report.parts
    assert overview.last_complete_at is not None


def test_a_part_that_was_not_finished_closes_nothing(house: House) -> None:
    plan = house.begin()
    whole(house)
    house.supervisors.listed = {house.details(plan).run.workflow_id}
    ref = house.do(house.audits.begin_audit, AuditRequest(repair=True))
    parts = {part: PartReport(problem="no answer" if part is AuditPart.RUNS else None) for part in AuditPart}
    house.do(house.audits.finish_audit, AuditReport(audit=ref, parts=parts))
    assert [each.closed_at for each in house.details(plan).findings] == [None]


def test_two_audits_at_once_do_no_harm(house: House, monkeypatch: pytest.MonkeyPatch) -> None:
    plan, asked = house.begin(), list[str]()

    async def go_on(workflow_id: str, request: RunRequest) -> None:
        """As Temporal does it: a workflow that is open is joined."""
        asked.append(workflow_id)
        if workflow_id not in house.supervisors.listed:
            house.supervisors.listed.add(workflow_id)
            house.supervisors.started.append((workflow_id, request))

    monkeypatch.setattr(house.supervisors, "go_on", go_on)

    async def twice() -> None:
        refs = [AuditRef(audit_uid=str(uuid4()), began_at=datetime.now(UTC), repair=True) for _ in range(4)]
        steps = [AuditStep(audit=ref, part=AuditPart.RUNS) for ref in refs]
        await asyncio.gather(*(house.environment.run(house.run_audit.audit_runs, step) for step in steps))

    asyncio.run(twice())
    (finding,) = house.details(plan).findings
    assert [workflow_id for workflow_id, _ in house.supervisors.started] == [house.details(plan).run.workflow_id]
    assert finding.acts == len(asked), "each tells what it did"
    assert audit(house, AuditPart.RUNS).found == {}
