"""Refuse to import shub-workflow's modules and names without a counterpart, with advice."""

from collections.abc import Mapping, Sequence
from typing import NoReturn

PAGE = "docs/howto/managers-from-shub-workflow.md"
PACKAGE = __package__
MODULES: Mapping[str, str] = {
    "contrib": "notices report failures: use a notice's receiver",
    "deliver": "the archive of a run has its files: use an export",
    "graph.utils": "use get_scheduled_jobs of a task, or get_owned_jobs",
    "issuer": "use a manager's set_parameters_gen with a cursor",
    "utils.alert_sender": "use alert_after, no_progress_hook or notices",
    "utils.clone_job": "use `crawlctl flow retry`, or add_job with again=True",
    "utils.gcstorage": "files are local or on s3://: use crawler_lifecycle.files",
    "utils.hcf": "there is no frontier: use set_parameters_gen and add_job",
    "utils.scanjobs": "use `crawlctl list` and `crawlctl flow jobs`",
    "utils.sesemail": "use notices",
    "utils.watchdog": "each run is supervised: use its time limits and notices",
}
NAMES: Mapping[str, str] = {
    "ArgumentParserScript": "use BaseLoopScript with add_argparser_options",
    "BaseMonitor": "use BaseLoopScript with SpiderStatsAggregatorMixin and get_jobs",
    "SCProjectClass": "there is no Scrapy Cloud: use BaseScript",
    "get_project_settings": "settings come from the catalogue and the command line",
    "kumo_settings": "settings come from the catalogue and the command line",
}


class AbsentModules:
    """Refuses to import absent modules. Python asks the finder last: existing modules are found before."""

    @staticmethod
    def find_spec(name: str, path: Sequence[str] | None = None, target: object = None) -> None:  # noqa: ARG004
        own = name.removeprefix(f"{PACKAGE}.")
        if own != name and own in MODULES:
            raise ModuleNotFoundError(_text(own, MODULES[own]), name=name)


def refuse(module: str, name: str) -> NoReturn:
    """Refuse to import a name, with advice if shub-workflow has the name."""
    if name in NAMES:
        raise ImportError(_text(name, NAMES[name]), name=module)
    raise AttributeError(f"module {module!r} has no attribute {name!r}")


def _text(name: str, advice: str) -> str:
    return f"shub-workflow's {name} has no counterpart: {advice} ({PAGE})"
