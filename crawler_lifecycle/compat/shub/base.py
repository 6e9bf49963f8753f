"""shub-workflow's base for managers."""

from crawler_lifecycle.managers import CachedFinishedJobsMixin, WorkFlowManager

__all__ = ["CachedFinishedJobsMixin", "WorkFlowManager", "WorkFlowManagerProtocol"]

WorkFlowManagerProtocol = object  # base for authors' mixins
