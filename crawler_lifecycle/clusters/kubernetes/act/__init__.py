"""Changes to jobs: creation, stop and removal."""
