"""The verbs of `crawlctl flow` that take an author's file: check, graph, push, add, start."""
