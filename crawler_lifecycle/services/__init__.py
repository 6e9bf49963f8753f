"""Which parts run for long beside the worker? One duty a module."""
