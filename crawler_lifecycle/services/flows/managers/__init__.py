"""Hosting of crawl managers: the author's object in its own process, and the host's ledger."""
