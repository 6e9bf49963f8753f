"""Rules for crawl managers."""
