"""A cluster on one machine: jobs are process groups, what is known of them lies in files.

`cluster` is the port's adapter. `layout` says where things lie, `records` what a job's files say, `processes` which
processes belong to a job, `placing` which waiting job starts next. `runner` is the program that starts a job and
waits for it; it outlives whoever deployed the job. `looking`, `logs` and `changes` read.
"""
