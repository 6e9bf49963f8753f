"""Hosting of crawl managers: the author's object in a process of its own, and its ledger behind the host."""
