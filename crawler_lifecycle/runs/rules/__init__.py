"""Rules of a run: its plan, how looks change tasks, which failures are retried, and how tasks decide the end."""
