"""Rules for flows: which members start next, how they end, and what requests by people change.

`rows` has the ledger's rows, `compiling` and `merging` turn definitions into rows, `network` counts dependencies,
`planner` plans what comes next, and `cancelling`, `renewing` and `deciding` are the effects of requests. No clock, no
input or output: the time comes as an argument.
"""
