"""What others learn of a run's end: notices, events, archives, and nudges to flows."""
