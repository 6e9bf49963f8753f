"""The ports to a run's rows.

A failure raises TemporaryError (try again; no change is known) or PermanentError. Every method may be called twice. A
write to a run compares the epoch in its RunRef and raises Fenced when another supervisor has taken over.
"""
