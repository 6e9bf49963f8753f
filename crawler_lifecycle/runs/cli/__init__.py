"""The verbs of `crawlctl` for runs, such as `run`, `list`, `show` and `stop`, and their output."""
