"""Commands over the HTTP API, with the same methods as the commands in `control`: see `cli.access`."""
