"""Retention: removes old runs, flows, logs and files, so an installation keeps its size for years.

`rules` decides why an old run stays, `store` removes rows, `files` removes files, and `passes` goes through all old
things. Every worker has the loop in `keeper`, and a claim lets a single worker make a pass. `crawlctl prune` makes a
pass at once, or reports the effect in advance.
"""
