"""Files of code in the pages for authors, and the objects that pages name."""

import re
from importlib import import_module
from pathlib import Path
from typing import Any

DOCS = Path(__file__).parents[2] / "docs"


def carrier(path: str) -> Any:
    """Return the object at a dotted path below the package; a field of a model or dataclass counts."""
    parts = path.split(".")
    for size in range(len(parts), 0, -1):
        try:
            place: Any = import_module(".".join(["crawler_lifecycle", *parts[:size]]))
        except ModuleNotFoundError:
            continue
        for name in parts[size:]:
            fields = {**getattr(place, "model_fields", {}), **getattr(place, "__dataclass_fields__", {})}
            place = fields[name] if name in fields else getattr(place, name)
        return place
    raise ModuleNotFoundError(path)


def files_of(page: Path) -> dict[str, str]:
    files: dict[str, str] = {}
    for block in re.findall(r"^```python\n(.*?)^```", page.read_text(), re.M | re.S):
        name, _, code = block.partition("\n")
        assert re.fullmatch(r"# \w+\.py", name), f"a block without the name of its file: {block[:100]}"
        files[name[2:]] = files.get(name[2:], "") + code + "\n"
    return files
