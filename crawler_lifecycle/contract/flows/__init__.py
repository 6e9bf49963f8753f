"""Models for flows: definitions by authors, requests at the doors, values between members, and records for people.

A flow has members (crawls, steps and approvals) and groups (sub-workflows). `states` and `limits` have words and
figures, `names` and `values` check texts and data, `work`, `needs`, `retrying` and `definition` describe a graph,
`requests` has commands by people and programs, and `records` has answers for people.
"""
