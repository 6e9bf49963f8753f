"""Composition root: builds a process's parts from the settings."""
