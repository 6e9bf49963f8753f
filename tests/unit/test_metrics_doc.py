"""docs/metrics.md lists all metrics of the processes."""

import runpy
from pathlib import Path

DOCS = Path(__file__).parents[2] / "docs"


def test_the_page_of_the_metrics_is_up_to_date() -> None:
    written = runpy.run_path(str(DOCS / "generate_metrics.py"))["page"]()
    assert written == (DOCS / "metrics.md").read_text(), "run `python docs/generate_metrics.py`"
