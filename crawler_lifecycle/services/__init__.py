"""Long-running processes and their parts, one duty a module."""
