"""What can one do with runs from outside? One class, `Control`, with the verbs of every door.

Nothing is imported, opened or connected before the verb that needs it: reading the list of runs costs a
database connection and no more.
"""
