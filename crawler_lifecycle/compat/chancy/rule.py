"""Chancy's rules, for ended workflows and their age."""

from crawler_lifecycle.domain.flows.pruning import Rule

__all__ = ["Rule"]
