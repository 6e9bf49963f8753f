"""docs/settings.md says of every setting what crawler_lifecycle/settings says."""

import runpy
from pathlib import Path

DOCS = Path(__file__).parents[2] / "docs"


def test_the_page_of_the_settings_is_up_to_date() -> None:
    made = runpy.run_path(str(DOCS / "generate_settings.py"))["page"]()
    assert made == (DOCS / "settings.md").read_text(), "run `python docs/generate_settings.py`"
