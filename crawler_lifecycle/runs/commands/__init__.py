"""Commands and questions about runs, for every door: the HTTP API, `crawlctl --direct`, schedules and triggers."""
