"""Workflows: the order of a run's steps, whatever crashes in between."""
