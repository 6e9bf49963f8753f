"""The authors' classes of crawl managers. `crawler_lifecycle.managers` has the public names."""
