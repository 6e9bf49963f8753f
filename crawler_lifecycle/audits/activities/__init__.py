"""An audit's activities: its four parts compare the database, Temporal and the cluster, and repair what differs."""
