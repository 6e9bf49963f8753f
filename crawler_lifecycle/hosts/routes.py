"""Routes: finds the functions for an activity's steps in the host's modules."""

import logging
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import timedelta

from crawler_lifecycle.flows.activities.steps import TryAgain
from crawler_lifecycle.flows.authors.modules import Modules
from crawler_lifecycle.flows.rules.messages import RunSteps
from crawler_lifecycle.flows.rules.words import BROKEN_MODULE, UNKNOWN_STEP
from crawler_lifecycle.hosts.calling import Function, is_manager
from crawler_lifecycle.hosts.claiming import Claiming
from crawler_lifecycle.managers.authors.workflow_manager import BaseLoopScript
from crawler_lifecycle.model.naming import managers_queue, route_parts

logger = logging.getLogger(__name__)
UNKNOWN_PAUSE = timedelta(seconds=10)
LONGEST_CAUSE = 255  # characters in the database
MOST_LOGGED = 1_000  # problems that a host remembers


class UnimportedManager(BaseLoopScript):
    """Stands for a manager whose module is broken. The object's own process imports the module and reports its failure.

    So the manager is paused with the failure, and a resume reads the mended file.
    """


@dataclass(frozen=True)
class Routes:
    modules: Modules
    claiming: Claiming
    _logged: set[tuple[str, str]] = field(default_factory=set)  # flows with their problems

    async def functions(self, step: RunSteps) -> Mapping[int, Function]:
        """Return the functions by member: for all starts, and for the followers with a function in the host."""
        function = await self._function(step)
        functions = {start.number: function for start in step.starts}
        for follower in step.followers:
            following = self._known(follower.route)
            if following is not None and not is_manager(following):  # a manager needs a slot of its own kind
                functions[follower.start.number] = following
        return functions

    async def _function(self, step: RunSteps) -> Function:
        """Return the function of the starts. TryAgain, with the cause on record, if the modules do not have it."""
        function = self._known(step.route)
        if function is None:
            _, module, name = route_parts(step.route)
            broken = self.modules.broken.get(module)
            problem = broken or f"{module} has no function {name} at its top level"
            cause = UNKNOWN_STEP if broken is None else f"{BROKEN_MODULE}:{broken}"[:LONGEST_CAUSE]
            await self.claiming.note_cause(step, cause)
            self._log(step.flow_id, problem)
            raise TryAgain(problem, UNKNOWN_PAUSE, cause="UnknownStep")
        return function

    def _log(self, flow: str, problem: str) -> None:
        """Log a flow's problem once, since Temporal repeats the activity every few seconds."""
        if (flow, problem) in self._logged:
            return
        if len(self._logged) >= MOST_LOGGED:
            self._logged.clear()
        self._logged.add((flow, problem))
        logger.error("a step of flow %s waits: %s", flow, problem)

    def _known(self, route: str) -> Function | None:
        queue, module, name = route_parts(route)
        if module in self.modules.broken and queue.endswith(managers_queue("")):
            return UnimportedManager
        return self.modules.function(f"{module}:{name}")
