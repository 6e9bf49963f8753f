"""Inputs and results for activities: a model in, a model out. A field added later needs a default."""
