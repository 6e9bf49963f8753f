"""Hosts: processes that run the functions in authors' modules for flows, with claims in the database."""
