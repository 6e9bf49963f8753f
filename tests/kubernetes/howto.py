"""What does docs/howto/run-on-kubernetes.md tell people to type and to write?"""

import re
import shlex
from pathlib import Path

PAGE = Path(__file__).parents[2] / "docs" / "howto" / "run-on-kubernetes.md"


def blocks(kind: str) -> list[str]:
    return re.findall(rf"^```{kind}\n(.*?)^```$", PAGE.read_text(), flags=re.MULTILINE | re.DOTALL)


def commands() -> list[list[str]]:
    """In the order of the page."""
    return [shlex.split(line) for block in blocks("sh") for line in block.splitlines()]


def retention_command() -> list[str]:
    """Return the arguments of the program `temporal` that let the namespace keep closed workflows for long enough."""
    (command,) = re.findall(r"`temporal (operator namespace update [^`]+)`", PAGE.read_text())
    return shlex.split(command)


def write_overlay(folder: Path) -> None:
    """What the page says is in `installation/`."""
    (kustomization,) = (block for block in blocks("yaml") if "kind: Kustomization" in block)
    (catalogue,) = blocks("toml")
    folder.mkdir()
    (folder / "kustomization.yaml").write_text(kustomization)
    (folder / "catalogue.toml").write_text(catalogue)
