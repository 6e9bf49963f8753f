"""Workflows: what happens to a run, in which order, whatever crashes in between."""
