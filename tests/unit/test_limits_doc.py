"""The commands in the document about limits can be typed as they stand there."""

import re
import shlex
from pathlib import Path

import click
import pytest

from crawler_lifecycle.cli.program import main

DOCUMENT = Path(__file__).parents[2] / "docs" / "howto" / "limits.md"
BLOCKS = re.findall(r"^```\n(.*?)^```", DOCUMENT.read_text(), re.M | re.S)
LINES = [
    line.removeprefix("$ ").partition("#")[0].strip()
    for block in BLOCKS
    for line in block.splitlines()
    if line.removeprefix("$ ").startswith("crawlctl ")
]


def test_the_document_has_commands() -> None:
    assert len(LINES) >= 15


@pytest.mark.parametrize("line", sorted(set(LINES)))
def test_a_command_has_the_options_that_the_document_names(line: str) -> None:
    _, *words = shlex.split(line)
    command: click.Command = main
    while isinstance(command, click.Group) and words:
        name, *words = words
        inner = command.get_command(click.Context(command), name)
        assert inner is not None, name
        command = inner
    assert command.make_context(command.name, words).args == []
