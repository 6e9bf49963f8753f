"""Retention: removes what is old and finished, so that an installation keeps its size for years.

`rules` says what keeps an old run, `store` removes rows, `files` removes files, and `passes` goes through everything
that is old. Every worker has the loop in `keeper`; one worker at a time makes a pass. `crawlctl prune` makes a pass at
once, or reports what a pass would remove.
"""
