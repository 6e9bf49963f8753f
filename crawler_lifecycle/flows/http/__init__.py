"""Endpoints of the HTTP API."""
