"""Draw the diagrams of the pages, after a change of a source: `python docs/generate_diagrams.py` uses Graphviz (dot).

A drawing starts with a digest of its source, so that a test notices a drawing that is older.
"""

import hashlib
import re
import subprocess
from pathlib import Path

FOLDER = Path(__file__).parent / "diagrams"
ON_WHITE = 'style="color: #24292f; background: white"'


def digest(source: Path) -> str:
    return f"<!-- {hashlib.sha256(source.read_bytes()).hexdigest()} -->\n"


def drawn(source: Path) -> str:
    """Return the drawing in the colour of the text around it, which a page of its own lacks."""
    command = ["dot", "-Tsvg", "-Gbgcolor=transparent", str(source)]
    svg = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    svg = re.sub(r"<!--.*?-->\n|<title>.*?</title>\n", "", svg[svg.index("<svg") :], flags=re.DOTALL)
    svg = svg.replace('"black"', '"currentColor"').replace("<text ", '<text fill="currentColor" ')
    return digest(source) + svg.replace("<svg ", f'<svg role="img" {ON_WHITE} ', 1)


if __name__ == "__main__":
    for path in sorted(FOLDER.glob("*.dot")):
        path.with_suffix(".svg").write_text(drawn(path))
