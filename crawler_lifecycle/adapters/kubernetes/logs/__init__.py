"""Logs and debug evidence of jobs: read, followed, and kept in the files of a run."""
