"""Databases for tests, and rows in them."""
