"""Clusters: what they show and what is asked of them, the scheduler service, and the catalogue.

`kubernetes` and `local` fulfil the port in `ports`, and the same tests run against both.
"""
