"""shub-workflow's bases for scripts, and its words for types: plain texts at run time."""

from collections.abc import Mapping
from typing import Any, NoReturn, TypedDict

from crawler_lifecycle.compat.shub.absent import refuse
from crawler_lifecycle.managers import BaseLoopScript, BaseLoopScriptAsyncMixin, BaseScript, JobDict, JobKey

__all__ = [
    "ArgumentParserScriptProtocol",
    "BaseLoopScript",
    "BaseLoopScriptAsyncMixin",
    "BaseLoopScriptProtocol",
    "BaseScript",
    "BaseScriptProtocol",
    "CommandLineProgram",
    "JobDict",
    "JobKey",
    "JobMeta",
    "Outcome",
    "SCProjectClassProtocol",
    "SpiderName",
]

# bases for authors' mixins
ArgumentParserScriptProtocol = BaseScriptProtocol = BaseLoopScriptProtocol = SCProjectClassProtocol = object
JobMeta = Mapping[str, Any]  # from `get_job_metadata`
Outcome = str
SpiderName = str


class CommandLineProgram(TypedDict):
    """A value in PROGRAMS."""

    command_line: list[str]
    description: str


def __getattr__(name: str) -> NoReturn:
    refuse(__name__, name)
