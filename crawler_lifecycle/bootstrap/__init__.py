"""Composition root: it builds the parts of a process from the settings."""
