"""Endpoints of runs: lists, single runs, logs, live changes, and the requests that start, stop and resume runs."""
