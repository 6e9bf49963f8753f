"""Rules for flows: which members start next, how they end, and what requests by people change.

`rows` has the ledger's rows, `compiling` and `merging` turn definitions into rows, `network` counts dependencies,
`planner` plans the next acts, and `interventions` has the effects of requests by people. No clock, no input or output:
the time comes as an argument.
"""
