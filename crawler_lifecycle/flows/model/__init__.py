"""Models for flows: definitions by authors, requests at the doors, values between members, and records for people.

A flow has members (crawls, steps and approvals) and groups (sub-workflows). `values` checks data, `definition`
describes a graph, `requests` has commands by people and programs, and `records` has answers for people.
"""
