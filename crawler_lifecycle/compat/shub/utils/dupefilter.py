"""shub-workflow's filters for repeats."""

from crawler_lifecycle.managers.authors.generator_manager import DupeFilter

__all__ = ["DupesFilterProtocol", "SqliteDictDupesFilter"]

DupesFilterProtocol = object  # base for authors' filters
SqliteDictDupesFilter = DupeFilter  # in memory: the ledger in the database knows the repeats
