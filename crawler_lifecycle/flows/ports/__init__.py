"""Ports for flows: the ledger for supervisors, doors and readers, and the hosts of steps.

A flow's row has the number of its last *door*: every request by people, programs and grafts locks the row, raises the
number, and marks the changed rows with it. So a supervisor reads the news since a door, and its starts and writes are
refused as *stale* if a door was first.

Locks are taken in one order: the flow, then members by number, then attempts. A step's end locks its attempt alone. No
transaction locks a run and a flow, a member or an attempt.
"""
