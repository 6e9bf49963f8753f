"""Chancy's plugins."""
