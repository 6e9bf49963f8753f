"""The client for the HTTP API, for programs without access to database and Temporal.

The package does not import Temporal's client: a program starts as quickly as with any HTTP client.
"""

from crawler_lifecycle.client.http.api import Api
from crawler_lifecycle.client.http.changes import Change
from crawler_lifecycle.client.http.pages import Page

__all__ = ["Api", "Change", "Page"]
