"""Runs and their tasks in the database: creation, looks, claims, stops, exports, and lists for people."""
