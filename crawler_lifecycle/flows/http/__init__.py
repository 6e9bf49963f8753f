"""Endpoints for flows: lists, pictures and results, and the requests to change flows."""
