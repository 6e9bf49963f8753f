"""Host for steps: runs the functions in authors' modules for flows, with claims in the database."""
