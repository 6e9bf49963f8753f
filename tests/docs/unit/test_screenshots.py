"""Every picture of the page is shown by a document, and every picture that a document shows is there."""

import re
from pathlib import Path

ROOT = Path(__file__).parents[3]
PICTURE = re.compile(r"[(\"]([^()\"\s]+\.png)[)\"]")


def test_pictures_and_documents_agree() -> None:
    documents = [ROOT / "README.md", *(ROOT / "docs").rglob("*.md")]
    shown = {(each.parent / link).resolve() for each in documents for link in PICTURE.findall(each.read_text())}
    assert shown == {each.resolve() for each in (ROOT / "docs").rglob("*.png")}
