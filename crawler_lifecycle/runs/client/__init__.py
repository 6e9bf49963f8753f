"""The part of the HTTP client for this capability."""
