"""The generated pages have every command, endpoint, reason, setting and metric, and drawings are current."""

import json
import re
import runpy
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import click

from crawler_lifecycle.cli.program import main
from crawler_lifecycle.clusters.kubernetes.observe.failure import (
    REASON_BY_CONTAINER_END,
    REASON_BY_DISRUPTION,
    REASON_BY_POD_REASON,
)
from crawler_lifecycle.clusters.kubernetes.observe.waiting import CAUSE_BY_WAITING_REASON
from crawler_lifecycle.model import reasons
from crawler_lifecycle.model.outcome_words import BY_REASON, BY_REASON_OF_MAIN_TASK
from crawler_lifecycle.model.reasons import WAITS_FOR
from crawler_lifecycle.runs.rules.outcome import SENTENCES

DOCS = Path(__file__).parents[3] / "docs"


def generator(name: str) -> Any:
    return runpy.run_path(str(DOCS / f"generate_{name}.py"))


def commands(path: str, group: click.Group) -> Iterator[tuple[str, click.Command]]:
    for name, command in group.commands.items():
        yield f"{path} {name}", command
        if isinstance(command, click.Group):
            yield from commands(f"{path} {name}", command)


def test_every_command_has_its_options() -> None:
    page = generator("cli")["page"]()
    for path, command in commands("crawlctl", main):
        head = f"# {path}\n"
        assert head in page or command.hidden, path
        section = page.partition(head)[2].partition("\n##")[0]
        options = [param.opts[-1] for param in command.params if isinstance(param, click.Option) and not command.hidden]
        everywhere = {"--help", "--api", "--state", "--json"}
        assert [option for option in options if option not in everywhere and option not in section] == [], path


def test_every_endpoint_and_schema_has_a_section() -> None:
    document = json.loads((DOCS / "api-openapi.json").read_text())
    pages = generator("http_api")["pages"]()
    sections = set(re.findall(r"^## (.+)$", "".join(pages.values()), re.MULTILINE))
    operations = {f"{method.upper()} {path}" for path, methods in document["paths"].items() for method in methods}
    assert (operations | set(document["components"]["schemas"])) - sections == set()


def test_every_cause_and_reason_has_a_row() -> None:
    page = generator("reasons")["page"]()
    words = {value for name, value in vars(reasons).items() if name.isupper() and isinstance(value, str)}
    words |= {*reasons.OF_INDEXES, *reasons.BY_EXIT_CODE.values()}
    words |= {*SENTENCES, *reasons.OF_INFRASTRUCTURE, *reasons.BY_A_LIMIT, *BY_REASON, *BY_REASON_OF_MAIN_TASK}
    words |= {*REASON_BY_POD_REASON.values(), *REASON_BY_DISRUPTION.values(), *CAUSE_BY_WAITING_REASON.values()}
    words |= {*REASON_BY_CONTAINER_END.values(), *WAITS_FOR}
    assert [word for word in words - {reasons.SCHEDULE_DOOR} if f"`{word}`" not in page] == []
    assert page.count("\n## ") == 4


def test_settings_and_metrics_have_rows() -> None:
    assert generator("settings")["page"]().count("\n| `CRAWLER_") > 100
    assert generator("metrics")["page"]().count("\n| `crawler_") > 30


def test_a_drawing_has_the_digest_of_its_source() -> None:
    """After a change of a source: `python docs/generate_diagrams.py`, with Graphviz."""
    digest = generator("diagrams")["digest"]
    sources = list((DOCS / "diagrams").glob("*.dot"))
    assert len(sources) == 5
    assert [path.name for path in sources if not path.with_suffix(".svg").read_text().startswith(digest(path))] == []
