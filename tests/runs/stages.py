"""Activities of each stage of a run, in their order."""

LOOK = ["get_active_running_tasks", "get_history_statuses_to_sync", "count_alive_tasks"]

END = [
    "update_run_status",
    "signal_pusher_finished",
    "remove_jobs",
    "initiate_export_signal",
    "export_supporting_files",
]
