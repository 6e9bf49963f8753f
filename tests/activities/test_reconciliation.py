"""A look, activity by activity, against real jobs."""

from crawler_lifecycle.contract.states import TaskStatus
from crawler_lifecycle.contract.steps import (
    ActiveTasks,
    CloseLook,
    Differences,
    EvidencePage,
    EvidenceRequest,
    EvidenceWrite,
    LookAt,
    RunPlan,
    StatusWrite,
    ToRun,
)
from tests.clusters import until
from tests.house import House


def opened(house: House, plan: RunPlan) -> ActiveTasks:
    return house.do(house.reconciliation.get_active_running_tasks, ToRun(run=plan.run))


def differences(house: House, plan: RunPlan) -> Differences:
    step = LookAt(run=plan.run, active=opened(house, plan))
    return house.do(house.reconciliation.get_history_statuses_to_sync, step)


def all_over(house: House, plan: RunPlan) -> Differences:
    def over() -> Differences | None:
        found = differences(house, plan)
        ended = sum(change.status.is_over for change in found.changes)
        return found if ended == plan.tasks else None

    return until(over, "all jobs to end")


def both_over(house: House) -> tuple[RunPlan, Differences]:
    plan = house.started()
    house.deploy_children(plan)
    return plan, all_over(house, plan)


def test_what_the_database_believes_alive_is_listed_by_status(house: House) -> None:
    plan = house.started("sleepy", tasks=4)
    assert opened(house, plan).by_status == {TaskStatus.QUEUED: "1-3", TaskStatus.PENDING: "0"}


def test_only_what_differs_comes_back_and_nothing_twice(house: House) -> None:
    plan, found = both_over(house)
    assert [(change.task, change.status, change.reason, change.exit_code) for change in found.changes] == [
        (0, TaskStatus.SUCCEEDED, None, 0),
        (1, TaskStatus.FAILED, "exit_3", 3),
    ]
    assert found.evidence == "0-1"
    written = house.do(house.reconciliation.sync_statuses, StatusWrite(run=plan.run, changes=found.changes))
    assert (written.written, written.stale) == (2, 0)
    assert differences(house, plan).changes == []
    again = house.do(house.reconciliation.sync_statuses, StatusWrite(run=plan.run, changes=found.changes))
    assert (again.written, again.stale) == (0, 2)


def test_evidence_is_kept_with_its_task(house: House) -> None:
    plan, found = both_over(house)
    request = EvidenceRequest(run=plan.run, tasks=found.evidence)
    page: EvidencePage = house.do(house.reconciliation.get_bulk_task_history_data, request)
    assert page.rest == ""
    for _ in range(2):
        house.do(house.reconciliation.reconcile_tasks, EvidenceWrite(run=plan.run, items=page.items))
    failed = house.details(plan).tasks[1]
    assert failed.log_tail is not None
    assert "task one fails" in failed.log_tail
    assert failed.node


def test_a_cluster_that_cannot_be_seen_is_unknown(house: House) -> None:
    plan, _ = both_over(house)
    root = house.bench.layout.root
    root.rename(root.with_name("elsewhere"))
    found = differences(house, plan)
    root.with_name("elsewhere").rename(root)
    assert (found.known, found.changes) == (False, [])
    assert found.problem


def test_counting_closes_the_look(house: House) -> None:
    plan = house.started("sleepy", tasks=3)
    step = CloseLook(run=plan.run, nudge=4, known=True)
    alive = house.do(house.reconciliation.count_alive_tasks, step)
    assert (alive.queued, alive.pending, alive.active) == (2, 1, 0)
    run = house.details(plan).run
    assert run.nudge_acknowledged == 4
    good = run.last_look_at
    assert good is not None
    unknown = CloseLook(run=plan.run, nudge=3, known=False, problem="no answer")
    house.do(house.reconciliation.count_alive_tasks, unknown)
    run = house.details(plan).run
    assert (run.nudge_acknowledged, run.last_look_at, run.look_problem) == (4, good, "no answer")
