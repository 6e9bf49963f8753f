"""Schedules, which start runs and flows by the clock. Temporal keeps the schedules."""
