"""shub-workflow's package, over our own managers. `flow check` names members without a counterpart."""
