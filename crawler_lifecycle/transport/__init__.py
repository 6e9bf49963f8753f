"""The connection of the HTTP client.

The package does not import Temporal's client: a program starts as quickly as with any HTTP client.
"""
