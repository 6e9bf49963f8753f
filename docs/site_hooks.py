"""Hooks of MkDocs: pages that are generated, and links of pages that leave `docs/`."""

import os
import re
import runpy
from pathlib import Path
from typing import Any

from mkdocs.plugins import get_plugin_logger
from mkdocs.structure.files import File, Files

DOCS = Path(__file__).parent
ROOT = DOCS.parent
LOG = get_plugin_logger("site")
AT_THE_ROOT = {"README.md": "index.md", "CONTRIBUTING.md": "contributing.md", "CHANGELOG.md": "changelog.md"}
FOLDERS = {"decisions": "decisions/index.md", "schemas": "schemas/index.md", ".": "index.md"}
PYTHON = {
    "flows": "Definitions of graphs: `from crawler_lifecycle.flows import Workflow`.",
    "managers": "Base classes of crawl managers: `from crawler_lifecycle.managers import GeneratorCrawlManager`.",
    "client": "Clients of flows and of the HTTP API: `from crawler_lifecycle.client import Flows, Api`.",
    "testing": "The test kit for authors: `from crawler_lifecycle.testing import run_inline`.",
    "compat": "The module paths of other systems. See the pages for users of"
    " [Chancy and Oban](../../howto/flows-from-chancy-and-oban.md) and"
    " [shub-workflow](../../howto/managers-from-shub-workflow.md).",
}
MIRRORS = ("chancy", "oban", "oban_pro", "shub")
LINK = re.compile(r"(!?)\[((?:[^\[\]]|\[[^\]]*\])*)\]\(([^)\s]+)\)")
DRAWING = re.compile(r"!\[([^\]]+)\]\(([^)]+\.svg)\)")
LOADED = re.compile(
    r"""<(?:script|img|iframe|source)\b[^>]* src=["']?(https?:[^"'\s>]+)|<link\b[^>]* href=["']?(https?:[^"'\s>]+)"""
)
FENCE = re.compile(r"^( *```.*?^ *```)$", re.MULTILINE | re.DOTALL)


def on_files(files: Files, config: Any) -> Files:
    for path, text in _generated().items():
        files.append(File.generated(config, path, content=text))
    return files


def on_page_markdown(markdown: str, page: Any, **_: Any) -> str:
    """Point links that leave the pages to their copies, and write the ones to code as its path."""
    path = page.file.src_uri
    origin = next((origin for origin, copy in AT_THE_ROOT.items() if copy == path), None)
    folder = ROOT if origin else (DOCS / path).parent
    markdown = DRAWING.sub(lambda image: _drawing(image, (DOCS / path).parent), markdown)
    parts = FENCE.split(markdown)
    parts[::2] = [_lists(LINK.sub(lambda link: _linked(link, folder, path), part)) for part in parts[::2]]
    return "".join(parts)


def on_post_page(output: str, page: Any, **_: Any) -> str:
    """Refuse a page that loads something from another host."""
    for loaded in LOADED.finditer(output):
        LOG.warning("%s loads %s from another host", page.file.src_uri, loaded[1] or loaded[2])
    return output


def _generated() -> dict[str, str]:
    def made(name: str) -> Any:
        return runpy.run_path(str(DOCS / f"generate_{name}.py"))

    copies = {copy: (ROOT / origin).read_text() for origin, copy in AT_THE_ROOT.items()}
    http = {f"reference/http/{name}.md": text for name, text in made("http_api")["pages"]().items()}
    python = {f"reference/python/{name}.md": _python(name, about) for name, about in PYTHON.items()}
    return {
        **copies,
        **http,
        **python,
        "settings.md": made("settings")["page"](),
        "metrics.md": made("metrics")["page"](),
        "reference/cli.md": made("cli")["page"](),
        "reference/reasons.md": made("reasons")["page"](),
        "decisions/index.md": _decisions(),
        "schemas/index.md": _schemas(),
    }


def _drawing(image: re.Match[str], folder: Path) -> str:
    """Return the drawing itself, so that it has the page's colours."""
    svg = (folder / image[2]).read_text().partition("\n")[2]
    return "<div>\n" + re.sub(r' style="[^"]*"', f' aria-label="{image[1]}"', svg, count=1) + "</div>"


def _python(name: str, about: str) -> str:
    modules = [f"compat.{mirror}" for mirror in MIRRORS] if name == "compat" else [name]
    return f"# Python: {name}\n\n{about}\n" + "".join(f"\n::: crawler_lifecycle.{module}\n" for module in modules)


def _decisions() -> str:
    rows = []
    for path in sorted((DOCS / "decisions").glob("0*.md")):
        text = path.read_text()
        title = text.partition("\n")[0].lstrip("# ")
        status = re.search(r"^Status: (.+)$", text, re.MULTILINE)
        rows.append(f"| [{title}]({path.name}) | {status[1] if status else ''} |\n")
    return "# Decisions\n\n| decision | status |\n| --- | --- |\n" + "".join(rows)


def _schemas() -> str:
    names = sorted(path.name for path in (DOCS / "schemas").glob("*.json"))
    return "# JSON schemas\n\n" + "".join(f"- [{name}]({name})\n" for name in names)


def _linked(link: re.Match[str], folder: Path, page: str) -> str:
    mark, text, target = link.groups()
    if re.match(r"\w+:", target) or target.startswith("#"):
        return link[0]
    name, _, anchor = target.partition("#")
    place = Path(os.path.normpath(folder / name))
    inside = str(place.relative_to(DOCS)) if place.is_relative_to(DOCS) else None
    known = FOLDERS.get(inside or "") or AT_THE_ROOT.get(str(place.relative_to(ROOT)))
    if known is None and inside is None:
        if not place.exists():
            LOG.warning("%s links to %s, which does not exist", page, target)
        path = place.relative_to(ROOT)
        return text if text.strip("`") in {str(path), path.name} else f"{text} (`{path}`)"
    wanted = known or inside
    assert wanted is not None
    return f"{mark}[{text}]({os.path.relpath(wanted, Path(page).parent)}{'#' if anchor else ''}{anchor})"


def _lists(text: str) -> str:
    """Give lists and tables the blank line and the indentation that Python's Markdown needs, and GitHub's does not."""
    lines: list[str] = []
    for line in text.split("\n"):
        begins = re.match(r" *(?:[-*]|\d+\.) |\|", line)
        before = lines[-1] if lines else ""
        if begins and before.strip() and not re.match(r" *(?:[-*]|\d+\.) |\|| ", before):
            lines.append("")
        indent = len(line) - len(line.lstrip(" "))
        lines.append(" " * (4 * -(-indent // 3)) + line.lstrip(" ") if 0 < indent < 7 else line)
    return "\n".join(lines)
