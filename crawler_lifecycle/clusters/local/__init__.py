"""A cluster on one machine: jobs are process groups, and files hold their records.

`cluster` fulfils the port, with `creation`, `looking` and `stopping`. `records` names, reads and writes the files of
jobs, `processes` finds a job's processes, and `placing` starts waiting jobs. `runner` is the program that starts a job
and waits for its end; a runner outlives the process that deployed the job.
"""
