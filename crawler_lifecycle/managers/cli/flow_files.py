"""Finds the flow in an author's file: a workflow, a sequence, a function with such a result, or a crawl manager.

Errors and doubtful settings in the author's code are reported without a traceback of crawlctl.
"""

import asyncio
import inspect
import os
import re
import shlex
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from crawler_lifecycle.console.common import print_to_stderr
from crawler_lifecycle.errors import BadInput, LifecycleError, NotReady

if TYPE_CHECKING:
    from types import ModuleType

    from crawler_lifecycle.flows import Workflow
    from crawler_lifecycle.flows.authors.steps import Level
    from crawler_lifecycle.flows.model.definition import FlowDefinition, Fragment
    from crawler_lifecycle.managers import BaseLoopScript

RESULTS = re.compile("Workflow|Sequence")  # in a function's annotation
FUNCTIONS = ("flow", "workflow")  # names of functions to call without --flow


@contextmanager
def refusals_of_a_function(name: str) -> Iterator[None]:
    """Raise BadInput, with the error and its place, where the author's function raises."""
    from crawler_lifecycle.flows.authors.modules import cause

    with _refusals(name, cause):
        yield


@contextmanager
def refusals_of_a_class(author: type) -> Iterator[None]:
    """Raise BadInput, with the error, its place and the author's frames, where the author's class raises."""
    from crawler_lifecycle.flows.authors.modules import cause_with_frames

    with _refusals(author.__name__, lambda error: cause_with_frames(error, author)):
        yield


def warn_of_a_single_cycle(manager: "BaseLoopScript") -> None:
    """Print a warning for a generator's manager that closes after its first cycle, whatever the generator has left."""
    from crawler_lifecycle.managers.authors.generator_manager import SINGLE_CYCLE, GeneratorCrawlManager

    if isinstance(manager, GeneratorCrawlManager) and not manager.loop_mode:
        print_to_stderr(f"warning: {SINGLE_CYCLE}; `loop_mode = 60` or --loop-mode 60 lets the manager continue")


def definition_in(file: Path, name: str | None, flow_id: str | None, arguments: Sequence[str] = ()) -> "FlowDefinition":
    """Return the checked definition in a Python file, or in a file with JSON. `flow_id` replaces the flow's id.

    `arguments`: command line for a crawl manager.
    """
    from crawler_lifecycle.base.names import checked_text
    from crawler_lifecycle.flows.commands.definitions import read_definition
    from crawler_lifecycle.flows.model.definition import FlowDefinition

    if flow_id is not None:
        checked_text("--id", flow_id)
    manager = None if file.suffix == ".json" else manager_in(file, name)
    if manager is not None:
        return definition_of_manager(manager, arguments, flow_id)
    if arguments:
        raise BadInput("arguments", f"are for crawl managers, and {file} has a workflow")
    if file.suffix == ".json":
        if name is not None:
            raise BadInput("--flow", "names a workflow in a Python file, and a file with JSON has only one")
        with _refusals_with_file(file):
            definition = read_definition(_content(file))
    else:
        definition = workflow_in(file, name).definition()
    if flow_id is not None:
        definition = FlowDefinition.model_validate({**definition.model_dump(), "id": flow_id})
    return definition


def definition_of_manager(
    manager: "type[BaseLoopScript]", arguments: Sequence[str], flow_id: str | None, queue: str = "default"
) -> "FlowDefinition":
    """Return the flow for a manager, whose own parser has accepted the arguments."""
    from crawler_lifecycle.base.names import checked_name
    from crawler_lifecycle.flows.authors.functions import reference
    from crawler_lifecycle.managers.authors.defining import build, family_of, flow_of

    function = reference(manager)
    with refusals_of_a_class(manager):
        built = build(manager, arguments)
        family = family_of(built, flow_id)
    checked_name("the manager's name", built.name)  # from its class or its arguments, and not from --name
    definition = flow_of(function, built.name, family, arguments, queue)
    warn_of_a_single_cycle(built)
    return definition


def manager_in(file: Path, name: str | None, *, has_option: bool = True) -> "type[BaseLoopScript] | None":
    """Import the file, and return its crawl manager; None if the file has a workflow, or the name is no manager's.

    `has_option`: whether the command has --flow for a name; otherwise `FILE.py:Class` has the name.
    """
    module = module_in(file)
    managers = managers_of(module)
    if name is not None:
        return managers.get(name)
    managers = _outside_of_workflows(module, managers)
    if not managers or any(inspect.isroutine(getattr(module, function, None)) for function in FUNCTIONS):
        return None
    if len(managers) > 1 or _workflows(module):
        hint = _hint(module) if has_option else targets_hint(file, managers)
        raise BadInput("FILE", f"{file} has several flows{hint}")
    return next(iter(managers.values()))


def module_in(file: Path) -> "ModuleType":
    """Import the file. BadInput, with the cause, if the file cannot be imported."""
    from crawler_lifecycle.flows.authors.modules import load

    refuse_no_file(file)
    try:
        (module,) = load([str(file)]).modules.values()
    except NotReady as error:
        raise BadInput("FILE", error.message) from error
    return module


def targets_hint(file: Path, managers: Iterable[str]) -> str:
    """Return the hint at `FILE.py:Class`, as a person has to type the targets."""
    targets = [shlex.quote(f"{file}:{name}") for name in sorted(managers)]
    return f": name {' or '.join(targets)}" if targets else ""


def managers_of(module: "ModuleType") -> "dict[str, type[BaseLoopScript]]":
    """Return the crawl managers that the module defines at its top level, by name."""
    from crawler_lifecycle.managers import BaseLoopScript

    return {
        name: value
        for name, value in vars(module).items()
        if inspect.isclass(value) and issubclass(value, BaseLoopScript) and value.__module__ == module.__name__
        if value.__name__ == name
    }


def fragment_in(file: Path, name: str | None) -> "Fragment":
    """Return the jobs in a Python file's workflow, or in a file with JSON, as an addition to another flow."""
    from crawler_lifecycle.flows.authors.building import fragment_of
    from crawler_lifecycle.flows.commands.definitions import read_fragment

    if file.suffix != ".json":
        return fragment_of(workflow_in(file, name))
    with _refusals_with_file(file):
        return read_fragment(_content(file))


def workflow_in(file: Path, name: str | None) -> "Workflow":
    """Import the file, and return its workflow: the object or the function's result with the name."""
    module = module_in(file)
    if name is not None:
        if not hasattr(module, name):
            raise BadInput("--flow", f"{file} has no {name!r}{_hint(module)}")
        return _as_workflow(name, getattr(module, name))
    for function in FUNCTIONS:
        if inspect.isroutine(getattr(module, function, None)):
            return _as_workflow(function, getattr(module, function))
    workflows = _workflows(module)
    if len(workflows) != 1:
        nothing = "has no workflow, no sequence, no crawl manager and no function `workflow`"
        problem = f"{nothing} that returns one" if not workflows else "has several workflows"
        raise BadInput("FILE", f"{file} {problem}{_hint(module)}")
    return _as_workflow(*workflows.popitem())


def workflow_for_picture(file: Path, name: str | None) -> "Workflow":
    """Return the workflow in a Python file, or in a file with JSON."""
    from crawler_lifecycle.flows.commands.definitions import workflow_of

    return workflow_of(definition_in(file, name, None)) if file.suffix == ".json" else workflow_in(file, name)


def is_file(word: str) -> bool:
    """Return whether a word for a flow is a file, also without such a file."""
    return word.endswith((".py", ".json")) or (os.sep in word and Path(word).exists())


def refuse_no_file(file: Path) -> None:
    if file.is_dir():
        raise BadInput("FILE", f"{file} is a folder, and not a .py or .json file")
    if not file.is_file():
        raise BadInput("FILE", f"{file}: no such file")


@contextmanager
def _refusals(field: str, in_words: Callable[[Exception], str]) -> Iterator[None]:
    """Raise BadInput for an error in author's code. Our own refusals pass."""
    try:
        yield
    except LifecycleError:
        raise
    except Exception as error:
        raise BadInput(field, in_words(error)) from error


def _outside_of_workflows(
    module: "ModuleType", managers: "dict[str, type[BaseLoopScript]]"
) -> "dict[str, type[BaseLoopScript]]":
    """Return the managers without the jobs in workflows."""
    from crawler_lifecycle.flows import StepJob, Workflow
    from crawler_lifecycle.flows.authors.building import paths_of

    workflows = [value for value in _workflows(module).values() if isinstance(value, Workflow)]
    jobs = [step.job for workflow in workflows for _, step in paths_of(workflow)]
    inside = {job.title for job in jobs if isinstance(job, StepJob) and job.work.is_manager}
    return {name: manager for name, manager in managers.items() if name not in inside}


@contextmanager
def _refusals_with_file(file: Path) -> "Iterator[None]":
    """Name the file in a refusal of its content. A refusal for the whole content has the field `request`."""
    try:
        yield
    except BadInput as error:
        if error.field == "FILE":
            raise
        place = f"{file}: " if error.field == "request" else f"{file}: {error.field}: "
        raise BadInput("FILE", f"{place}{error.expected}") from error


def _workflows(module: "ModuleType") -> dict[str, Any]:
    """Return the workflows and sequences at the module's top level by name.

    A second name for an object is left out, and so are sub-workflows of others.
    """
    from crawler_lifecycle.flows import Sequence, Workflow

    kinds = (Workflow, Sequence)
    by_object = {id(value): (name, value) for name, value in vars(module).items() if isinstance(value, kinds)}
    inside = {id(sub) for _, value in by_object.values() if isinstance(value, Workflow) for sub in _subs(value)}
    return dict(named for key, named in by_object.items() if key not in inside)


def _subs(workflow: "Level") -> "Iterator[Level]":
    for sub in workflow.subs.values():
        yield sub
        yield from _subs(sub)


def _hint(module: "ModuleType") -> str:
    names = sorted([*_workflows(module), *managers_of(module), *_functions(module)])
    return f": choose with {' or '.join(f'--flow {name}' for name in names)}" if names else ""


def _functions(module: "ModuleType") -> list[str]:
    """Return the module's own functions that may return a workflow: without arguments, and without another result.

    Steps return no workflow, and a function `main` pushes its own.
    """
    from crawler_lifecycle.flows.authors.functions import is_step

    return [
        name
        for name, value in vars(module).items()
        if inspect.isfunction(value) and value.__module__ == module.__name__ and not inspect.signature(value).parameters
        if not is_step(value) and name != "main"
        if "return" not in value.__annotations__ or RESULTS.search(str(value.__annotations__["return"]))
    ]


def _as_workflow(name: str, value: Any) -> "Workflow":
    from crawler_lifecycle.flows import Sequence, Workflow
    from crawler_lifecycle.flows.authors.functions import is_step

    if is_step(value):
        raise BadInput("--flow", f"{name!r} is a step, and no workflow")
    result = _called(name, value) if inspect.isroutine(value) else value
    if isinstance(result, Sequence):
        return result.workflow()
    if not isinstance(result, Workflow):
        raise BadInput(
            "--flow", f"{name!r} is no workflow and no function that returns a workflow, but {result!r}"[:300]
        )
    return result


def _called(name: str, function: Callable[..., Any]) -> Any:
    from crawler_lifecycle.flows.authors.open_client import without_clients

    try:
        inspect.signature(function).bind()
    except TypeError as error:
        raise BadInput("--flow", f"{name!r} is called without arguments, and cannot be: {error}") from error
    reason = (
        f"{name}() pushes a workflow itself, and nothing hosts its steps: return the workflow from a function "
        "`workflow`, or run the program beside a host (crawlctl up --flows FILE)"
    )
    with refusals_of_a_function(f"{name}()"), without_clients(reason):
        result = function()
        return asyncio.run(_awaited(result)) if inspect.isawaitable(result) else result


async def _awaited(result: Any) -> Any:
    return await result


def _content(file: Path) -> bytes:
    refuse_no_file(file)
    try:
        return file.read_bytes()
    except OSError as error:
        raise BadInput("FILE", f"{file} cannot be read: {error.strerror}") from error
