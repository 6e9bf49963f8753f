"""Chancy's rules, for ended workflows and their age."""

from crawler_lifecycle.flows.rules.pruning import Rule

__all__ = ["Rule"]
