"""Activities of a run: deployment, looks, the stop, and the writes of its row."""
