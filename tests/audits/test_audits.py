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
from crawler_lifecycle.model.run_plan import CloseRun, ExportedEnd, Notify, RunPlan
from crawler_lifecycle.model.states import ExportState
from crawler_lifecycle.model.supervision import AuditedRun, AuditPatience, ListedJob, WorkflowInfo
from crawler_lifecycle.model.task_changes import EvidenceWrite, StatusWrite
from tests.audits.auditing import audit, ended, findings
from tests.kit.clusters.clusters import LocalBench
from tests.kit.service.rig import Rig
from tests.kit.waiting import until
from tests.runs.removals import Removing, both_over

AN_HOUR = timedelta(hours=1)
TERMINATED = WorkflowInfo(is_open=False, end="terminated", ended_at=datetime.now(UTC) - AN_HOUR)


# Runs


def test_a_run_whose_workflow_is_gone_is_resumed(rig: Rig) -> None:
    watched, terminated, deleted = rig.begin(), rig.begin(), rig.begin()
    ids = {plan.run.run_id: rig.details(plan).run.workflow_id for plan in (watched, terminated, deleted)}
    rig.supervisors.listed = {ids[watched.run.run_id]}
    rig.supervisors.described = {ids[terminated.run.run_id]: TERMINATED}
    page = audit(rig, AuditPart.RUNS)
    assert (page.examined, page.found, page.acted, page.rest) == (3, {FindingKind.UNSUPERVISED: 2}, 2, None)
    started = [(workflow_id, request.run_id) for workflow_id, request in rig.supervisors.started]
    assert sorted(started) == sorted((ids[plan.run.run_id], plan.run.run_id) for plan in (terminated, deleted))
    (finding,) = rig.details(terminated).findings
    assert (finding.kind, finding.acts, finding.problem) == (FindingKind.UNSUPERVISED, 1, None)
    assert "terminated" in finding.message
    assert rig.details(watched).findings == []


def test_after_a_restore_no_run_that_ended_well_is_resumed(rig: Rig) -> None:
    restored, reused = rig.begin(), rig.begin()
    ended_well = WorkflowInfo(is_open=False, end="completed", ended_at=datetime.now(UTC) - AN_HOUR)
    runs = [rig.details(plan).run for plan in (restored, reused)]
    rig.supervisors.described = {
        runs[0].workflow_id: replace(ended_well, first_execution=runs[0].first_execution_run_id),
        runs[1].workflow_id: replace(ended_well, first_execution="of another run", requested_run_id=runs[0].run_id),
    }
    page = audit(rig, AuditPart.RUNS)
    assert (page.found, page.acted) == ({FindingKind.UNSUPERVISED: 2}, 1)
    assert [workflow_id for workflow_id, _ in rig.supervisors.started] == [runs[1].workflow_id]
    (told,) = rig.details(restored).findings
    assert (told.acts, told.problem) == (0, OLD_COPY)


def test_after_a_restore_a_run_that_ended_well_is_resumed_where_the_cluster_still_tells_how(rig: Rig) -> None:
    """Under its own supervisor or a later one. Not one with a task that was deployed since, for all that is known: it
    would be crawled again. And not one with a task that has got another attempt since."""
    own, later, unknown, again = (rig.started() for _ in range(4))
    for plan in (own, later, unknown, again):
        run = rig.details(plan).run
        closed = WorkflowInfo(is_open=False, end="completed", ended_at=datetime.now(UTC), requested_run_id=run.run_id)
        by_its_own = replace(closed, first_execution=run.first_execution_run_id, requested_run_id=0)
        rig.supervisors.described[run.workflow_id] = by_its_own if plan is own else closed
        if plan is not unknown:
            rig.deploy_children(plan)
    rig.bench.cluster.deploy(rig.bench.request("true", run_uid=again.run.run_uid, task=0, attempt=2))
    page = audit(rig, AuditPart.RUNS)
    assert (page.found, page.acted) == ({FindingKind.UNSUPERVISED: 4}, 2)
    assert {request.run_id for _, request in rig.supervisors.started} == {own.run.run_id, later.run.run_id}
    for plan in (unknown, again):
        (told,) = rig.details(plan).findings
        assert (told.acts, told.problem) == (0, OLD_COPY)


def test_one_that_is_only_not_listed_yet_is_left_alone(rig: Rig) -> None:
    workflow_id = rig.details(rig.begin()).run.workflow_id
    rig.supervisors.described = {workflow_id: WorkflowInfo(is_open=True)}
    page = audit(rig, AuditPart.RUNS)
    assert (page.examined, page.found, rig.supervisors.started) == (1, {}, [])


def test_what_began_or_ended_a_moment_ago_is_left_alone(rig: Rig) -> None:
    rig.run_audit = replace(rig.run_audit, patience=AuditPatience())
    just_begun, just_ended = rig.begin(), rig.begin()
    rig.supervisors.described = {
        rig.details(just_ended).run.workflow_id: replace(TERMINATED, ended_at=datetime.now(UTC))
    }
    assert audit(rig, AuditPart.RUNS).found == {}
    assert rig.details(just_begun).findings == []


def test_a_dry_run_changes_nothing(rig: Rig) -> None:
    plan = ended(rig, rig.started("sleepy"))
    rig.begin()
    unknown = rig.bench.request("exec sleep 60")
    rig.bench.cluster.deploy(unknown)
    rig.bench.until_phase(unknown, JobPhase.RUNNING)
    before = dump(rig)
    finding = {part: audit(rig, part, repair=False).found for part in AuditPart}
    assert finding == {
        AuditPart.RUNS: {FindingKind.UNSUPERVISED: 1},
        AuditPart.JOBS: {FindingKind.LEFTOVER_JOB: 1, FindingKind.UNKNOWN_JOB: 1},
        AuditPart.HANDOVERS: {FindingKind.EXPORT_PENDING: 1},
        AuditPart.FLOWS: {},
    }
    ref = rig.do(rig.audits.begin_audit, AuditRequest())
    rig.do(rig.audits.finish_audit, AuditReport(audit=ref, parts={part: PartReport() for part in AuditPart}))
    assert dump(rig) == before
    assert rig.supervisors.started == []
    look = rig.bench.cluster.look(plan.run.run_uid)
    assert not any(job.stop_asked for job in look.jobs.values())


def dump(rig: Rig) -> dict[str, list[object]]:
    with rig.database.read() as connection:
        return {name: list(connection.execute(table.select()).all()) for name, table in metadata.tables.items()}


def test_an_outage_of_temporal_says_nothing_about_runs(rig: Rig, monkeypatch: pytest.MonkeyPatch) -> None:
    rig.begin()

    async def away(*_: object) -> set[str]:
        raise TemporaryError("Temporal does not answer")

    monkeypatch.setattr(rig.supervisors, "open_among", away)
    with pytest.raises(TemporaryError):
        audit(rig, AuditPart.RUNS)
    assert (findings(rig), rig.supervisors.started) == ([], [])


def test_one_that_cannot_be_described_fails_the_page_as_what_it_is(rig: Rig, monkeypatch: pytest.MonkeyPatch) -> None:
    for _ in range(3):
        rig.begin()

    async def away(*_: object) -> WorkflowInfo:
        raise TemporaryError("Temporal does not answer")

    monkeypatch.setattr(rig.supervisors, "describe", away)
    with pytest.raises(TemporaryError, match="does not answer"):
        audit(rig, AuditPart.RUNS)
    assert findings(rig) == []


@pytest.mark.parametrize("error", [PermanentError, TemporaryError])
def test_one_that_can_never_be_described_keeps_no_other_from_being_audited(
    rig: Rig, monkeypatch: pytest.MonkeyPatch, error: type[LifecycleError]
) -> None:
    bad, good = rig.begin(), rig.begin()
    done = ended(rig, rig.begin())
    broken = {rig.details(plan).run.workflow_id for plan in (bad, done)}
    describe = rig.supervisors.describe

    async def describing(workflow_id: str) -> WorkflowInfo:
        if workflow_id in broken:
            raise error("its state is damaged")
        return await describe(workflow_id)

    monkeypatch.setattr(rig.supervisors, "describe", describing)
    rig.environment.info = replace(rig.environment.info, attempt=3)
    page = audit(rig, AuditPart.RUNS)
    assert (page.found, page.acted) == ({FindingKind.UNSUPERVISED: 2}, 1)
    (told,) = rig.details(bad).findings
    assert (told.problem, told.acts) == ("its state is damaged", 0)
    assert [request.run_id for _, request in rig.supervisors.started] == [good.run.run_id]
    assert audit(rig, AuditPart.HANDOVERS).found == {}


@pytest.mark.parametrize("error", [PermanentError, TemporaryError])
def test_one_whose_start_cannot_be_read_keeps_no_other_from_being_audited(
    rig: Rig, monkeypatch: pytest.MonkeyPatch, error: type[LifecycleError]
) -> None:
    """It may have been the later end of the run: nothing is done before somebody has seen to it."""
    bad, good = rig.begin(), rig.begin()
    workflow_id = rig.details(bad).run.workflow_id
    rig.supervisors.described = {workflow_id: replace(TERMINATED, end="canceled", first_execution="later")}

    async def requested_run_id(_: str) -> int:
        raise error("it cannot be read")

    monkeypatch.setattr(rig.supervisors, "requested_run_id", requested_run_id)
    if error is TemporaryError:
        with pytest.raises(TemporaryError):
            audit(rig, AuditPart.RUNS)
        rig.environment.info = replace(rig.environment.info, attempt=3)
    page = audit(rig, AuditPart.RUNS)
    assert (page.found, page.acted) == ({FindingKind.UNSUPERVISED: 2}, 1)
    (told,) = rig.details(bad).findings
    assert (told.problem, told.acts) == ("it cannot be read", 0)
    assert [request.run_id for _, request in rig.supervisors.started] == [good.run.run_id]


def test_what_cannot_be_resumed_is_told_and_keeps_no_other_from_it(rig: Rig, monkeypatch: pytest.MonkeyPatch) -> None:
    bad, good = rig.begin(), rig.begin()
    go_on = rig.supervisors.go_on

    async def refusing(run: AuditedRun) -> None:
        if run.workflow_id == rig.details(bad).run.workflow_id:
            raise Conflict("not this one")
        await go_on(run)

    monkeypatch.setattr(rig.supervisors, "go_on", refusing)
    assert audit(rig, AuditPart.RUNS).acted == 1
    (told,) = rig.details(bad).findings
    assert (told.problem, told.acts) == ("not this one", 0)
    assert rig.details(good).findings[0].acts == 1


def test_what_was_done_is_kept_if_the_rest_of_the_page_cannot_be(rig: Rig, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("crawler_lifecycle.audits.activities.auditing.REQUESTS_AT_ONCE", 2)
    plans = [rig.begin() for _ in range(5)]
    go_on = rig.supervisors.go_on

    async def breaking_off(run: AuditedRun) -> None:
        if run.run_id == plans[3].run.run_id:
            raise TemporaryError("Temporal does not answer")
        await go_on(run)

    monkeypatch.setattr(rig.supervisors, "go_on", breaking_off)
    with pytest.raises(TemporaryError):
        audit(rig, AuditPart.RUNS)
    assert [rig.details(plan).findings[0].acts for plan in plans] == [1, 1, 0, 0, 0]


def test_claims_and_looks_that_nobody_keeps_are_reported(rig: Rig) -> None:
    plan = rig.begin()
    rig.supervisors.listed = {rig.details(plan).run.workflow_id}
    rig.claims.claim_main(plan.run, "gone", timedelta(minutes=-5))
    late = rig.started("sleepy")
    rig.supervisors.listed.add(rig.details(late).run.workflow_id)
    SqlStore(rig.database).runs.mark_look(late.run, 0, True, None, datetime.now(UTC) - AN_HOUR)
    page = audit(rig, AuditPart.RUNS)
    assert (page.found, page.acted) == ({FindingKind.LOOK_OVERDUE: 1, FindingKind.CLAIM_EXPIRED: 1}, 0)
    assert rig.supervisors.started == []


def test_one_that_is_listed_as_open_and_does_not_look_is_described(rig: Rig) -> None:
    late = rig.started("sleepy")
    workflow_id = rig.details(late).run.workflow_id
    rig.supervisors.listed, rig.supervisors.described = {workflow_id}, {workflow_id: TERMINATED}
    assert audit(rig, AuditPart.RUNS).found == {}
    SqlStore(rig.database).runs.mark_look(late.run, 0, True, None, datetime.now(UTC) - AN_HOUR)
    page = audit(rig, AuditPart.RUNS)
    assert (page.found, page.acted) == ({FindingKind.UNSUPERVISED: 1}, 1)


def test_pages_follow_each_other(rig: Rig, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("crawler_lifecycle.audits.activities.runs.RUNS_IN_A_PAGE", 2)
    plans = [rig.begin() for _ in range(5)]
    after, examined = None, []
    for _ in range(3):
        page = audit(rig, AuditPart.RUNS, after=after)
        examined.append(page.examined)
        after = page.rest
    assert (examined, after) == ([2, 2, 1], None)
    assert len({workflow_id for workflow_id, _ in rig.supervisors.started}) == len(plans)


# Jobs


def test_a_job_whose_run_is_over_is_asked_to_end_and_then_made_to(rig: Rig) -> None:
    plan = rig.started("sleepy")
    other = rig.started("sleepy")
    until(lambda: is_running(rig, plan) and is_running(rig, other), "their jobs to run")
    ended(rig, plan)
    page = audit(rig, AuditPart.JOBS)
    assert (page.found, page.acted) == ({FindingKind.LEFTOVER_JOB: 1}, 1)
    (finding,) = rig.details(plan).findings
    assert finding.action == "1 job asked to end"
    until(lambda: all(job.gone for job in rig.bench.cluster.look(plan.run.run_uid).jobs.values()), "it to end")
    assert audit(rig, AuditPart.JOBS).found == {}
    assert is_running(rig, other)
    assert rig.details(other).findings == []


def is_running(rig: Rig, plan: RunPlan) -> bool:
    return rig.bench.cluster.look(plan.run.run_uid).jobs[0, 1].phase is JobPhase.RUNNING


def deaf(rig: Rig) -> RunPlan:
    """A run whose job does not end when it is asked to."""
    rig.deployer.scripts["deaf"] = 'trap "" TERM; echo up; while true; do sleep 1; done'
    plan = rig.started("deaf")
    until(lambda: "up" in rig.bench.cluster.log(plan.run.run_uid, 0, 1, 0).text, "it to listen to nobody")
    return plan


def test_one_that_does_not_end_is_made_to(rig: Rig) -> None:
    plan = ended(rig, deaf(rig))
    assert audit(rig, AuditPart.JOBS).acted == 1
    page = audit(rig, AuditPart.JOBS)
    assert page.findings[0].action == "1 job killed"
    until(lambda: all(job.gone for job in rig.bench.cluster.look(plan.run.run_uid).jobs.values()), "it to end")
    (finding,) = rig.details(plan).findings
    assert finding.acts == 2
    assert "up" in (finding.evidence or "")


def test_jobs_are_named_by_their_uid_on_record(rig: Rig, monkeypatch: pytest.MonkeyPatch) -> None:
    """A job whose labels were edited is known only by its uid: the audit neither saw nor ended such a job."""
    plan = ended(rig, deaf(rig))
    (row,) = rig.tasks.rows(plan.run.run_id, [0])
    cluster, received = rig.bench.cluster, list[tuple[str, object]]()

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
            audit(rig, AuditPart.JOBS)
    on_record = {(0, 1): row.job_uid}
    assert received == [(name, on_record) for name in ("look", "stop", "look", "kill")]
    until(lambda: all(job.gone for job in cluster.look(plan.run.run_uid).jobs.values()), "it to end")


def test_one_that_cannot_be_removed_keeps_no_other_alive(rig: Rig, monkeypatch: pytest.MonkeyPatch) -> None:
    plan = ended(rig, deaf(rig))
    cluster, full = rig.bench.cluster, TemporaryError("no space for its log")
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
            audit(rig, AuditPart.JOBS)
    (finding,) = rig.details(plan).findings
    assert (finding.action, finding.acts, finding.problem) == ("1 job killed", 2, full.message)
    until(lambda: all(job.gone for job in cluster.look(plan.run.run_uid).jobs.values()), "it to end")


def test_jobs_leave_once_what_became_of_them_is_on_record(rig: Rig) -> None:
    """The run's supervisor ended before its cluster told it."""
    plan, finding = both_over(rig)
    rig.do(rig.reconciliation.sync_statuses, StatusWrite(run=plan.run, changes=finding.changes))
    rig.do(rig.histories.update_run_status, CloseRun(run=plan.run))
    cluster = Removing(rig)
    cluster.listed = [ListedJob(f"job-{task}", plan.run.run_uid, (task, 1)) for task in (0, 1)]
    rig.job_audit = replace(rig.job_audit, cluster=cast(Cluster, cluster))
    cluster.busy = TemporaryError("no answer")
    audit(rig, AuditPart.JOBS)
    (told,) = rig.details(plan).findings
    assert (cluster.removed, told.problem, told.action) == ([], "no answer", None)
    known = cluster.inner.evidence(plan.run.run_uid, [(0, 1)])
    rig.do(rig.reconciliation.reconcile_tasks, EvidenceWrite(run=plan.run, items=known))
    audit(rig, AuditPart.JOBS)
    (told,) = rig.details(plan).findings
    assert cluster.removed == [(0, 1)]
    assert "1 stay until the cluster reports what became of them: no answer" in (told.action or "")
    cluster.busy = None
    for _ in range(2):
        audit(rig, AuditPart.JOBS)
    assert cluster.removed == [(0, 1)] + [(0, 1), (1, 1)] * 2
    assert cluster.explained == [(1, 1)], "what is on record is not asked for again"
    first, second = rig.details(plan).tasks
    assert first.node
    assert second.node
    assert "task one fails" in (second.log_tail or "")


def test_a_run_that_was_over_a_moment_ago_is_left_alone(rig: Rig) -> None:
    rig.job_audit = replace(rig.job_audit, patience=AuditPatience())
    plan = ended(rig, rig.started("sleepy"))
    assert audit(rig, AuditPart.JOBS).found == {}
    assert rig.details(plan).findings == []


def test_a_job_of_nobody_is_reported_and_removed_only_if_told_to(rig: Rig) -> None:
    request = rig.bench.request("exec sleep 60")
    rig.bench.cluster.deploy(request)
    rig.bench.until_phase(request, JobPhase.RUNNING)
    assert audit(rig, AuditPart.JOBS).acted == 0
    (finding,) = findings(rig)
    assert (finding.kind, finding.subject, finding.problem) == (FindingKind.UNKNOWN_JOB, request.run_uid, NOT_ALLOWED)
    assert rig.bench.job(request)
    assert not getattr(rig.bench.job(request), "stop_asked", True)
    rig.job_audit = replace(rig.job_audit, may_remove_unknown_jobs=True)
    assert audit(rig, AuditPart.JOBS).acted == 0, "the setting permits the removal and does not request it"
    assert audit(rig, AuditPart.JOBS, unknown=True).acted == 1
    rig.bench.until_stopped(request)


def test_a_request_alone_removes_no_unknown_jobs(rig: Rig) -> None:
    """Whoever may start workflows in the namespace can write any permission into the input of an audit."""
    request = rig.bench.request("exec sleep 60")
    rig.bench.cluster.deploy(request)
    rig.bench.until_phase(request, JobPhase.RUNNING)
    begun = rig.do(rig.audits.begin_audit, AuditRequest(repair=True, remove_unknown_jobs=True))
    assert not begun.remove_unknown_jobs
    assert audit(rig, AuditPart.JOBS, unknown=True).acted == 0
    (finding,) = findings(rig)
    assert finding.problem == NOT_ALLOWED
    assert rig.bench.cluster.look(request.run_uid).jobs[0, 1].phase is JobPhase.RUNNING


def test_after_a_restore_the_living_jobs_of_a_reopened_run_are_left_alone(rig: Rig) -> None:
    plan = ended(rig, rig.begin())
    reopened_since = rig.bench.request("exec sleep 60", run_uid=plan.run.run_uid, task=0, attempt=2)
    rig.bench.cluster.deploy(reopened_since)
    rig.bench.until_phase(reopened_since, JobPhase.RUNNING)
    for _ in range(2):
        page = audit(rig, AuditPart.JOBS)
        assert (page.found, page.acted) == ({FindingKind.UNKNOWN_JOB: 1}, 0)
    (finding,) = rig.details(plan).findings
    assert (finding.kind, finding.problem) == (FindingKind.UNKNOWN_JOB, NOT_ALLOWED)
    assert "old copy" in finding.message
    assert rig.bench.cluster.look(plan.run.run_uid).jobs[0, 2].phase is JobPhase.RUNNING


def test_a_slow_cluster_gets_more_pages(rig: Rig, monkeypatch: pytest.MonkeyPatch) -> None:
    plans = [ended(rig, rig.started("sleepy")) for _ in range(3)]
    monkeypatch.setattr("crawler_lifecycle.audits.activities.jobs.LONGEST_LOOKING", -1.0)
    rests, after = [], None
    for _ in plans:
        page = audit(rig, AuditPart.JOBS, after=after)
        assert page.found == {FindingKind.LEFTOVER_JOB: 1}
        rests.append(after := page.rest)
    assert rests == [*sorted(plan.run.run_uid for plan in plans)[:2], None]


def test_a_job_of_another_installation_is_not_seen(rig: Rig) -> None:
    other = str(uuid4())
    request = rig.bench.request("exec sleep 60", installation=other)
    rig.bench.other_client(other).deploy(request)
    rig.job_audit = replace(rig.job_audit, may_remove_unknown_jobs=True)
    page = audit(rig, AuditPart.JOBS, unknown=True)
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


def test_the_unknown_is_judged_by_nobody(rig: Rig) -> None:
    plan = ended(rig, deaf(rig))
    sighted = rig.job_audit
    rig.job_audit = replace(sighted, cluster=cast(Cluster, Blind(rig.bench, breaks_off=True)))
    with pytest.raises(TemporaryError, match="broke off"):
        audit(rig, AuditPart.JOBS)
    rig.job_audit = replace(sighted, cluster=cast(Cluster, Blind(rig.bench)))
    page = audit(rig, AuditPart.JOBS)
    assert (page.found, page.unknown) == ({}, 1)
    assert rig.details(plan).findings == []
    rig.job_audit = sighted
    audit(rig, AuditPart.JOBS)
    rig.job_audit = replace(sighted, cluster=cast(Cluster, Blind(rig.bench)))
    whole(rig)
    kept = {each.kind: each.closed_at for each in rig.details(plan).findings}
    assert kept[FindingKind.LEFTOVER_JOB] is None, "not seen is not mended"


def test_a_cluster_where_all_that_was_known_is_gone_is_not_believed_at_once(rig: Rig) -> None:
    request = rig.bench.request("exec sleep 60")
    rig.bench.cluster.deploy(request)
    rig.bench.until_phase(request, JobPhase.RUNNING)
    whole(rig)
    sighted, elsewhere = rig.job_audit, rig.bench.client(str(uuid4()))
    rig.job_audit = replace(sighted, cluster=elsewhere)
    report = whole(rig)
    assert not report.is_complete
    assert [each.closed_at for each in findings(rig)] == [None]
    rig.job_audit = replace(rig.job_audit, patience=replace(sighted.patience, empty=timedelta()))
    assert whole(rig).is_complete
    assert [each.closed_at is None for each in findings(rig)] == [False]


def test_a_cluster_that_is_empty_by_what_we_did_is_believed(rig: Rig) -> None:
    ended(rig, rig.started("sleepy"))
    whole(rig)
    rig.job_audit = replace(rig.job_audit, cluster=rig.bench.client(str(uuid4())))
    assert whole(rig).is_complete
    assert {each.kind: each.closed_at is None for each in findings(rig)}[FindingKind.LEFTOVER_JOB] is False


# What was to be handed over


def test_an_export_that_nobody_makes_is_replayed_by_the_runs_own_workflow(rig: Rig) -> None:
    pending, done, failed, busy = (ended(rig, rig.begin()) for _ in range(4))
    rig.do(rig.exports.initiate_export_signal, ExportedEnd(run=done.run))
    rig.do(rig.exports.export_supporting_files, ExportedEnd(run=done.run))
    event = rig.do(rig.exports.initiate_export_signal, ExportedEnd(run=failed.run))
    exports = metadata.tables["exports"]
    with rig.database.transaction() as connection:
        connection.execute(exports.update().where(exports.c.event_id == event.event_id).values(state="failed"))
    SqlStore(rig.database).runs.settle_export(failed.run, event.event_id, ExportState.FAILED, None, "no space")
    rig.supervisors.listed = {rig.details(busy).run.workflow_id}
    page = audit(rig, AuditPart.HANDOVERS)
    assert page.found == {FindingKind.EXPORT_PENDING: 1, FindingKind.EXPORT_FAILED: 1}
    started = {request.run_id for _, request in rig.supervisors.started}
    assert started == {pending.run.run_id, failed.run.run_id}
    assert rig.details(done).findings == rig.details(busy).findings == []


def test_an_export_that_a_person_asked_for_is_left_alone(rig: Rig) -> None:
    plan = ended(rig, rig.begin())
    rig.supervisors.listed = {export_workflow_id(plan.run.run_uid)}
    assert audit(rig, AuditPart.HANDOVERS).found == {}
    rig.supervisors.listed = set()
    assert audit(rig, AuditPart.HANDOVERS).found == {FindingKind.EXPORT_PENDING: 1}


def test_an_end_whose_workflow_id_is_taken_is_told_and_not_handed_over(
    rig: Rig, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whoever starts a workflow under the id of one that is open joins it, of whatever type it is."""
    pending, untold = ended(rig, rig.begin()), undelivered(rig, monkeypatch)
    ids = [rig.details(plan).run.workflow_id for plan in (pending, untold)]
    rig.supervisors.described = dict.fromkeys(ids, WorkflowInfo(is_open=True, is_ours=False))
    page = audit(rig, AuditPart.HANDOVERS)
    assert (page.found, page.acted) == ({FindingKind.EXPORT_PENDING: 1, FindingKind.UNDELIVERED: 1}, 0)
    for plan, workflow_id in zip((pending, untold), ids, strict=True):
        (finding,) = rig.details(plan).findings
        assert finding.acts == 0
        assert f"another type: end {workflow_id} first" in (finding.problem or "")


def test_an_export_whose_workflow_is_ended_again_and_again_does_not_wait_like_one_that_failed(rig: Rig) -> None:
    rig.handover_audit = replace(
        rig.handover_audit, patience=replace(rig.handover_audit.patience, failed_export=AN_HOUR)
    )
    plan = ended(rig, rig.begin())
    for _ in range(3):
        audit(rig, AuditPart.HANDOVERS)
    (finding,) = rig.details(plan).findings
    assert (finding.kind, finding.acts, finding.problem) == (FindingKind.EXPORT_PENDING, 3, None)


def undelivered(rig: Rig, monkeypatch: pytest.MonkeyPatch) -> RunPlan:
    """A run that is over and exported, and whose end nobody was told."""
    plan = ended(rig, rig.begin())
    rig.do(rig.exports.initiate_export_signal, ExportedEnd(run=plan.run))
    rig.do(rig.exports.export_supporting_files, ExportedEnd(run=plan.run))

    def away(*_: object) -> None:
        raise TemporaryError("nobody there")

    with monkeypatch.context() as patched:
        patched.setattr(type(rig.notices.pusher), "send", away)
        with pytest.raises(TemporaryError):
            rig.do(rig.notices.signal_pusher_stopped, Notify(run=plan.run))
    return plan


def test_a_closing_notice_that_was_not_delivered_is_sent_again(rig: Rig, monkeypatch: pytest.MonkeyPatch) -> None:
    plan = undelivered(rig, monkeypatch)
    page = audit(rig, AuditPart.HANDOVERS)
    assert (page.found, page.acted) == ({FindingKind.UNDELIVERED: 1}, 1)
    rig.do(rig.notices.signal_pusher_stopped, Notify(run=plan.run))
    assert audit(rig, AuditPart.HANDOVERS).found == {}
    assert [line.event for line in rig.details(plan).log][-2:] == ["undelivered", "delivered"]


def test_a_closing_notice_that_was_never_tried_is_sent(rig: Rig) -> None:
    """Its workflow was terminated right after the end was written down, and a person had it exported."""
    plan, other = rig.begin(), rig.begin()
    for each in (plan, other):
        rig.do(rig.notices.signal_pusher_started, Notify(run=each.run))
        ended(rig, each)
        rig.do(rig.exports.initiate_export_signal, ExportedEnd(run=each.run))
        rig.do(rig.exports.export_supporting_files, ExportedEnd(run=each.run))
    rig.do(rig.notices.signal_pusher_stopped, Notify(run=other.run))
    page = audit(rig, AuditPart.HANDOVERS)
    assert (page.found, page.acted) == ({FindingKind.UNDELIVERED: 1}, 1)
    assert [request.run_id for _, request in rig.supervisors.started] == [plan.run.run_id]
    rig.do(rig.notices.signal_pusher_stopped, Notify(run=plan.run))
    assert audit(rig, AuditPart.HANDOVERS).found == {}


def test_one_that_nobody_takes_is_sent_a_few_times_only(rig: Rig, monkeypatch: pytest.MonkeyPatch) -> None:
    plan = undelivered(rig, monkeypatch)
    for _ in range(5):
        audit(rig, AuditPart.HANDOVERS)
    (finding,) = rig.details(plan).findings
    assert (finding.acts, finding.problem, len(rig.supervisors.started)) == (3, IN_VAIN, 3)


def test_how_often_it_was_sent_is_not_forgotten_while_its_workflow_is_at_it(
    rig: Rig, monkeypatch: pytest.MonkeyPatch
) -> None:
    plan = undelivered(rig, monkeypatch)
    workflow_id = rig.details(plan).run.workflow_id
    just_ended = replace(TERMINATED, end="completed", ended_at=datetime.now(UTC) + AN_HOUR)
    for _ in range(4):
        rig.supervisors.listed, rig.supervisors.described = set(), {}
        whole(rig)
        rig.supervisors.listed = {workflow_id}
        assert whole(rig).findings_count == 0, "it is at it"
        rig.supervisors.listed, rig.supervisors.described = set(), {workflow_id: just_ended}
        assert whole(rig).findings_count == 0, "it was at it a moment ago"
    (finding,) = rig.details(plan).findings
    assert (finding.acts, finding.problem, finding.closed_at) == (3, IN_VAIN, None)
    rig.supervisors.listed = {workflow_id}
    rig.do(rig.notices.signal_pusher_stopped, Notify(run=plan.run))
    whole(rig)
    (finding,) = rig.details(plan).findings
    assert finding.closed_at is not None


def test_a_run_that_is_lost_again_and_again_is_one_finding(rig: Rig) -> None:
    plan = rig.begin()
    workflow_id = rig.details(plan).run.workflow_id
    for ended_at in (-AN_HOUR, AN_HOUR, -AN_HOUR):
        failed = WorkflowInfo(is_open=False, end="failed", ended_at=datetime.now(UTC) + ended_at)
        rig.supervisors.described = {workflow_id: failed}
        whole(rig)
    (finding,) = rig.details(plan).findings
    assert (finding.acts, finding.closed_at) == (2, None)


def test_an_old_end_is_reported_and_not_replayed(rig: Rig, monkeypatch: pytest.MonkeyPatch) -> None:
    audits = rig.handover_audit
    ancient = replace(audits.patience, replay=timedelta(seconds=-1))
    rig.handover_audit = HandoverAudit(audits.records, audits.findings, audits.supervisors, ancient)
    ended(rig, rig.begin())

    async def asked(_: str) -> WorkflowInfo:
        raise AssertionError("nobody needs to know")

    monkeypatch.setattr(rig.supervisors, "describe", asked)
    page = audit(rig, AuditPart.HANDOVERS)
    assert (page.found, page.acted, rig.supervisors.started) == ({FindingKind.EXPORT_PENDING: 1}, 0, [])


def test_an_old_closing_notice_is_left_to_whoever_resumes_its_run(rig: Rig, monkeypatch: pytest.MonkeyPatch) -> None:
    plan = undelivered(rig, monkeypatch)
    monkeypatch.setattr("crawler_lifecycle.audits.rules.handovers.is_too_old", lambda *_: True)
    assert audit(rig, AuditPart.HANDOVERS).acted == 0
    (finding,) = rig.details(plan).findings
    assert (finding.kind, "`crawlctl resume` does it" in (finding.problem or "")) == (FindingKind.UNDELIVERED, True)


# All of it


def whole(rig: Rig) -> AuditReport:
    """As the workflow does it."""
    rig.environment.info = replace(rig.environment.info, workflow_run_id=str(uuid4()))
    ref = rig.do(rig.audits.begin_audit, AuditRequest(repair=True))
    report = AuditReport(audit=ref)
    activities = (
        rig.run_audit.audit_runs,
        rig.job_audit.audit_jobs,
        rig.handover_audit.audit_handovers,
        rig.flow_audit.audit_flows,
    )
    for part, activity in zip(AuditPart, activities, strict=True):
        page = asyncio.run(rig.environment.run(activity, AuditStep(audit=ref, part=part)))
        report = report.model_copy(update={"parts": {**report.parts, part: PartReport().with_page(page)}})
    rig.do(rig.audits.finish_audit, report)
    return report


def test_what_is_mended_is_closed_by_the_next_audit(rig: Rig) -> None:
    plan = rig.begin()
    whole(rig)
    (finding,) = rig.details(plan).findings
    assert finding.closed_at is None
    rig.supervisors.listed = {rig.details(plan).run.workflow_id}
    report = whole(rig)
    (finding,) = rig.details(plan).findings
    assert finding.closed_at is not None
    overview = rig.findings.overview(audits=10, findings=10)
    assert (overview.open, len(overview.audits)) == ({}, 2)
    assert overview.audits[0].parts == report.parts
    assert overview.last_complete_at is not None


def test_a_part_that_was_not_finished_closes_nothing(rig: Rig) -> None:
    plan = rig.begin()
    whole(rig)
    rig.supervisors.listed = {rig.details(plan).run.workflow_id}
    ref = rig.do(rig.audits.begin_audit, AuditRequest(repair=True))
    parts = {part: PartReport(problem="no answer" if part is AuditPart.RUNS else None) for part in AuditPart}
    rig.do(rig.audits.finish_audit, AuditReport(audit=ref, parts=parts))
    assert [each.closed_at for each in rig.details(plan).findings] == [None]


def test_two_audits_at_once_do_no_harm(rig: Rig, monkeypatch: pytest.MonkeyPatch) -> None:
    plan, asked, start = rig.begin(), list[str](), rig.supervisors.go_on

    async def go_on(run: AuditedRun) -> None:
        """As Temporal does it: a workflow that is open is joined."""
        asked.append(run.workflow_id)
        if run.workflow_id not in rig.supervisors.listed:
            rig.supervisors.listed.add(run.workflow_id)
            await start(run)

    monkeypatch.setattr(rig.supervisors, "go_on", go_on)

    async def twice() -> None:
        refs = [AuditRef(audit_uid=str(uuid4()), began_at=datetime.now(UTC), repair=True) for _ in range(4)]
        steps = [AuditStep(audit=ref, part=AuditPart.RUNS) for ref in refs]
        await asyncio.gather(*(rig.environment.run(rig.run_audit.audit_runs, step) for step in steps))

    asyncio.run(twice())
    (finding,) = rig.details(plan).findings
    assert [workflow_id for workflow_id, _ in rig.supervisors.started] == [rig.details(plan).run.workflow_id]
    assert finding.acts == len(asked), "each tells what it did"
    assert audit(rig, AuditPart.RUNS).found == {}
