"""Logs and evidence of jobs: read, followed, and kept among a run's files."""
