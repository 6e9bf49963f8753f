"""Ports: the protocols that this capability needs of the outside."""
