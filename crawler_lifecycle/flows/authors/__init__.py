"""The authors' definitions of flows. `crawler_lifecycle.flows` has the public names."""
