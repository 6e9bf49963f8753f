"""Limits, permits and the use of open runs in the database."""
