"""The connection to Temporal, and what all workflows and activities share."""
