"""Jobs of a real Kubernetes cluster.

`cluster` fulfils the port. Imports go one way: `cluster` > `act` > `logs` > `observe` > `http` > `naming` >
`objects`.
"""
