"""The processes by the names in manifests, such as `python -m workers.lifecycle`. Not in the wheel."""
