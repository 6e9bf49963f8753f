"""Workflows: the order of the steps."""
