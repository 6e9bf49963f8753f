"""Hosts: processes that run the functions in authors' modules for flows, with begins and ends in the database."""
