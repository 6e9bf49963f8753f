"""Activities for flows: the ledger's reads and writes, starts and stops for crawls, and the steps' attempts."""
