"""Work for members: a crawl, a step (a Python function), an approval by a person, or a catalogue's crawl manager."""

from enum import StrEnum
from typing import Annotated, Literal

from pydantic import Field, JsonValue

from crawler_lifecycle.base.base import Message
from crawler_lifecycle.base.limits import A_YEAR, LONGEST_FUNCTION, LONGEST_NAME
from crawler_lifecycle.base.names import Label
from crawler_lifecycle.model.flow_states import Ready
from crawler_lifecycle.model.requests import RunParameters

Timeout = Annotated[float, Field(gt=0, le=A_YEAR, allow_inf_nan=False)]


class CallForm(StrEnum):
    """Way to call a step's function."""

    KEYWORDS = "keywords"  # with the arguments as keywords
    CONTEXT = "context"  # with the context
    ITEM = "item"  # with the item and the context
    JOB = "job"  # the method `process` on a worker class, with the job
    PARAMETERS = "parameters"  # results and context values as keywords, by the parameters' names
    MANAGER = "manager"  # a class for a crawl manager, with the command line: a list of texts


class CrawlWork(Message):
    """A crawler's run."""

    kind: Literal["crawl"] = "crawl"
    request: RunParameters
    ready: Ready = Ready.ENDED
    label: Label | None = Field(default=None, description="label for permits, such as `site:example.com`")

    @property
    def title(self) -> str:
        """Name for pictures."""
        return self.request.crawler

    @property
    def labels(self) -> list[str]:
        """All labels for permits."""
        return list(dict.fromkeys([*self.request.labels, *([self.label] if self.label else [])]))


class StepWork(Message):
    """A call to a function in the author's code."""

    kind: Literal["step"] = "step"
    function: str = Field(max_length=LONGEST_FUNCTION, pattern=r"^[\w.-]+:[\w.]+$", description="`module:qualname`")
    form: CallForm = CallForm.CONTEXT
    arguments: JsonValue = Field(default=None, description="encoded keywords, item or arguments for a job")
    queue: Label = "default"
    timeout_seconds: Timeout | None = None
    isolate: bool = Field(default=False, description="run the function in a process, which a stop can end")
    tags: tuple[Label, ...] = Field(default=(), max_length=20, description="words for the function")

    @property
    def title(self) -> str:
        """Name for pictures: the function's or class's name."""
        return self.function.rpartition(":")[2]

    @property
    def is_manager(self) -> bool:
        """Whether the function is a crawl manager's class."""
        return self.form is CallForm.MANAGER


class ApprovalWork(Message):
    """A wait for a person's decision."""

    kind: Literal["approval"] = "approval"
    note: str | None = Field(default=None, max_length=1024, description="question for the person")
    timeout_seconds: Timeout | None = Field(default=None, description="longest wait; then the member is discarded")

    @property
    def title(self) -> str:
        """Name for pictures."""
        return "approval"


class ManagerWork(Message):
    """A crawl manager by its name in the catalogue. A stored flow has the manager's class, as a step."""

    kind: Literal["manager"] = "manager"
    manager: str = Field(min_length=1, max_length=LONGEST_NAME, description="name in the catalogue")
    arguments: tuple[str, ...] = Field(
        default=(), max_length=1000, description="command line after the catalogue's arguments"
    )

    @property
    def title(self) -> str:
        """Name for pictures."""
        return self.manager


Work = Annotated[CrawlWork | StepWork | ApprovalWork | ManagerWork, Field(discriminator="kind")]
