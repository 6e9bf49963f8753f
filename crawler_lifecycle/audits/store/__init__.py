"""The audit's rows in the database: its findings, and the runs and managers that it compares."""
