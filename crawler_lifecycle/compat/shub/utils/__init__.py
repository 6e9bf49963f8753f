"""shub-workflow's utilities."""

from crawler_lifecycle.managers import get_kumo_loglevel

__all__ = ["get_kumo_loglevel"]
