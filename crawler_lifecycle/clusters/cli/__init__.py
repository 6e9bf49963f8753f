"""Verbs of `crawlctl`."""
