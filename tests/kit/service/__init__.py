"""The service in the process of the test: its API, `crawlctl`, and all activities."""
