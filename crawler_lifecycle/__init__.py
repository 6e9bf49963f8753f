"""Runs web crawls on Kubernetes and never loses track of one."""

__version__ = "0.1.0"
