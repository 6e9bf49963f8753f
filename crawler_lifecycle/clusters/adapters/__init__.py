"""Logs, files and the catalogue on disk, and the client of the scheduler service."""
