"""The verbs under `crawlctl flow` to list, show, watch and change flows and their managers' items."""
