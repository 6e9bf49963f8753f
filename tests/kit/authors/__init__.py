"""Flows as authors write them."""
