"""Rules for admission, under the limits of a run's scopes.

A run's permit is its row: a run that was admitted and is not over. So no permit can be lost or counted twice.
"""
