"""shub-workflow's context for tests: a script's command line."""

from crawler_lifecycle.managers.authors.arguments import command_line as script_args

__all__ = ["script_args"]
