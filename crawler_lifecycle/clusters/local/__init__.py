"""A cluster on one machine: jobs are process groups, and files hold their records.

`cluster` fulfils the port. `layout` names folders and files, `records` reads and writes a job's files, `processes`
finds a job's processes, `placing` starts waiting jobs. `runner` is the program that starts a job and waits for its end;
a runner outlives the process that deployed the job. `looking` and `changes` read.
"""
