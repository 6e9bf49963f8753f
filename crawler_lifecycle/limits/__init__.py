"""Limits and pauses: which runs may begin, and which tasks may be deployed."""
