"""Crawl managers in the database: their life, items, attempts and people's requests."""
