"""The verbs of `crawlctl schedule`: create, list, show, pause, resume, trigger, backfill, delete, export, apply."""
