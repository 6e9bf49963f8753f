"""Who is told of a run beside the file: browsers by Pusher Channels, programs by signed webhooks; `several` at once."""
