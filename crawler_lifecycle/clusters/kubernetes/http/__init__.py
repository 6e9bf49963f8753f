"""Requests to the API server: connection, time limits, answers, decoding, rights."""
