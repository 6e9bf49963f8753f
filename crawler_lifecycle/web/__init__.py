"""The HTTP API put together from the endpoints of the capabilities, and the live page in `page/`."""
