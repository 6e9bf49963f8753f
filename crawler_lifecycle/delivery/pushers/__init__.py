"""Receivers of notices: Pusher Channels for browsers, signed webhooks for programs; `fan_out` serves several."""
