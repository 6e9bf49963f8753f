"""Does whoever upgrades read of every marker that a history may have?"""

import importlib
import pkgutil
import re
from pathlib import Path

import crawler_lifecycle.workflows as package

DOCUMENT = Path(__file__).parents[2] / "docs" / "howto" / "upgrade.md"
ASKED = re.compile(r'workflow\.patched\((?:f"\{)?(\w+)')


def test_every_marker_is_listed() -> None:
    told, named = DOCUMENT.read_text(), set[str]()
    for found in pkgutil.iter_modules(package.__path__, f"{package.__name__}."):
        module = importlib.import_module(found.name)
        code = Path(str(module.__file__)).read_text()
        names = ASKED.findall(code)
        assert len(names) == code.count("workflow.patched("), f"{found.name}: a marker is named by a constant"
        named |= {getattr(module, name) for name in names}
    listed = set(re.findall(r"^\| `([a-z-]+?)(?:-N)?` \|", told, re.MULTILINE))
    assert named == listed
