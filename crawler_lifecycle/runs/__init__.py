"""The lifecycle of a run: initiation, deployment, reconciliation, stop and completion."""
