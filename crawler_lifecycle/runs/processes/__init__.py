"""Two loops beside the workflows, the dispatcher for queued tasks and the watcher for changes, and metrics of runs."""
