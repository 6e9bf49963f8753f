"""The measure of plain words counts what it says, and a package or folder may not become worse."""

from pathlib import Path

from tests.ci.prose import DocumentMeasure, Measure, documents, too_high

RIDDLE = '''"""Who of them writes?"""

def told(each):
    """Of these, by one list."""
    found = each  # what it is
    return found


def list_jobs(run):
    """List the Jobs of a run."""
'''


def test_what_is_counted() -> None:
    measure = Measure()
    measure.add(RIDDLE)
    assert measure.ceilings() == {"vague": 38.9, "fragments": 1, "questions": 1, "names": 2, "translated": 0}
    assert (measure.words, measure.docstrings) == (18, 2)


def test_the_name_of_an_argument_of_others_is_not_counted() -> None:
    measure = Measure()
    measure.add("from library import told as heard\nheard(each=1).found\n")
    assert measure.names == 0


def test_translated_phrases_are_counted_in_comments_error_messages_help_and_descriptions() -> None:
    measure = Measure()
    measure.add(
        "A = 1  # on record\n"
        "raise Conflict(f'the run goes on: {problem}')\n"
        "option('--force', help='for ever')\n"
        "Field(description='the former run')\n"
        "row.told('behind')\n"
    )
    assert (measure.translated, measure.words, measure.user_words) == (4, 2, 9)


def test_a_value_above_its_ceiling_is_named() -> None:
    now = {"a": {"vague": 5.1, "names": 2}, "b": {"vague": 3.0, "names": 1}}
    assert too_high(now, {"a": {"vague": 5.0, "names": 2}, "b": {"vague": 3.0, "names": 1}}) == [
        "a: vague is 5.1, may be 5"
    ]


def test_a_package_without_ceilings_has_to_be_plain() -> None:
    assert too_high({"new": {"vague": 0.1, "questions": 0}}, {}) == ["new: vague is 0.1, may be 0"]


DOCUMENT = """# Runs

The run goes on, [behind a stop](former.md), by `told`.

```
for ever
```
It is on record.
"""


def test_translated_phrases_of_a_document_are_counted_outside_of_code_and_addresses() -> None:
    measure = DocumentMeasure()
    measure.add("runs.md", DOCUMENT)
    assert measure.phrases == ["runs.md:3: goes on", "runs.md:3: behind", "runs.md:8: on record"]
    assert (measure.words, measure.ceilings()) == (13, {"translated": 230.8})


def test_documents_are_measured_by_folder_without_the_changelog(tmp_path: Path) -> None:
    for name in ("README.md", "CHANGELOG.md", "docs/why.md", "docs/howto/stop.md"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text("A former run.\n")
    found = {name: measure.phrases for name, measure in documents(tmp_path).items()}
    assert found == {
        "README.md, CONTRIBUTING.md": ["README.md:1: former"],
        "docs/howto": ["docs/howto/stop.md:1: former"],
        "docs": ["docs/why.md:1: former"],
    }
