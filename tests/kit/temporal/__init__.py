"""Temporal servers for tests, and workers on them."""
