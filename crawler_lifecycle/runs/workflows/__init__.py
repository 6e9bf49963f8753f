"""The workflow that supervises a run, with a module for each of its stages."""
