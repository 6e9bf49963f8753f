"""Channels for notices beside the file: Pusher Channels for browsers, signed webhooks for programs."""
