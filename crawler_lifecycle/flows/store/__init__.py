"""The flows' ledger in the database, for supervisors, doors, the steps' hosts and readers."""
