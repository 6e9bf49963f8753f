"""shub-workflow's tasks for graph managers."""

from crawler_lifecycle.managers import BaseTask, Resource, ResourcesDict, SpiderTask, Task

__all__ = [
    "BaseTask",
    "GraphManagerProtocol",
    "Resource",
    "ResourcesDict",
    "SpiderTask",
    "Task",
    "TaskId",
]

GraphManagerProtocol = object  # base for authors' mixins
TaskId = str
