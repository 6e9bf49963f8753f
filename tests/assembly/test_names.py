"""The names of the activities are a contract on the wire."""

from crawler_lifecycle.assembly.plugin import activities_of, by_queue
from tests.kit.service.rig import Rig

ON_THE_WIRE = [
    "create_history_id",
    "run_scheduled_crawler",
    "run_onetime_crawler",
    "add_workflow_id",
    "get_main_job_status",
    "update_run_started",
    "signal_pusher_started",
    "get_active_running_tasks",
    "get_history_statuses_to_sync",
    "get_bulk_task_history_data",
    "reconcile_tasks",
    "sync_statuses",
    "count_alive_tasks",
    "update_run_status",
    "cancel_queued_tasks",
    "k8_stop_task",
    "add_cancellation_log_to_db",
    "signal_pusher_stopped",
    "k8_stop_pod",
    "initiate_export_signal",
    "export_supporting_files",
]


def test_all_21_are_there_by_name(rig: Rig) -> None:
    holders = (rig.histories, rig.deployment, rig.reconciliation, rig.stopping, rig.notices, rig.exports)
    names = [activity.__temporal_activity_definition.name for activity in activities_of(*holders)]  # type: ignore[attr-defined]
    assert len(ON_THE_WIRE) == 21
    assert set(ON_THE_WIRE) <= set(names)


def test_only_archives_wait_in_a_queue_of_their_own(rig: Rig) -> None:
    general, archiving = by_queue(activities_of(rig.exports, rig.stopping, rig.notices))
    assert [activity.__name__ for activity in archiving] == ["export_supporting_files"]
    assert {"initiate_export_signal", "k8_stop_task", "signal_pusher_finished"} <= {step.__name__ for step in general}
