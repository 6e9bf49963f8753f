"""Activities that deliver a run's change or end: notices, nudges to flows, events and archives."""
