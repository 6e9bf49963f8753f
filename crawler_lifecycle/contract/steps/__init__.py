"""Input and result of every activity: one model in, one model out. A field that is added later has a default."""
