"""Files of code in the pages for authors."""

import re
from pathlib import Path

DOCS = Path(__file__).parents[2] / "docs"


def files_of(page: Path) -> dict[str, str]:
    files: dict[str, str] = {}
    for block in re.findall(r"^```python\n(.*?)^```", page.read_text(), re.M | re.S):
        name, _, code = block.partition("\n")
        assert re.fullmatch(r"# \w+\.py", name), f"a block without the name of its file: {block[:100]}"
        files[name[2:]] = files.get(name[2:], "") + code + "\n"
    return files
