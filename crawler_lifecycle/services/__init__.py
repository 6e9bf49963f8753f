"""Long-running parts beside the worker, one duty a module."""
