"""The toolkit of the HTTP API: tokens, callers, problems, documents, streams, health. It knows no endpoint."""
