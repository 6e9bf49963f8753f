"""Wrong arguments of a catalogue's manager were found by the host alone, as `SystemExit: 2`.

A flow id in the command line made two equal starts of a manager different, and the refusal of another start did not say
what differed. A schedule took a crawler in front of `--` as a manager's argument.
"""

import json
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from crawler_lifecycle.flows.model.turns import Begun
from crawler_lifecycle.managers import CrawlManager, GeneratorCrawlManager
from crawler_lifecycle.managers.authors.arguments import BadArguments, without_flow_id
from crawler_lifecycle.managers.authors.driving import drive
from tests.kit.clusters.schedulers import TOKEN, SmallCluster, a_catalogue, served
from tests.kit.service.commands import Crawlctl
from tests.managers.manager_files import FILE

pytestmark = pytest.mark.regression(
    "Wrong arguments of a catalogue's manager were found by the host alone, as `SystemExit: 2`"
)

CATALOGUE = """
[crawlers.books]
command = ["true"]

[managers.nightcrawl]
class = "managers_in_a_catalogue:Shops"
arguments = ["--own", "1"]
"""


@pytest.fixture
def file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """An author's file in the present folder, whose module is forgotten after the test."""
    path, before = tmp_path / "managers_in_a_catalogue.py", list(sys.path)
    path.write_text(FILE)
    monkeypatch.chdir(tmp_path)
    yield path
    sys.path[:] = before
    sys.modules.pop(path.stem, None)


@pytest.fixture
def upgraded(state_url: str, typed: Crawlctl, monkeypatch: pytest.MonkeyPatch) -> Crawlctl:
    """`crawlctl` without `--state`, which would be an argument behind `--`."""
    monkeypatch.setenv("TEMPORAL_ADDRESS", "127.0.0.1:1")
    assert state_url
    return typed


@contextmanager
def scheduler(folder: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    with served(SmallCluster(), a_catalogue(folder, CATALOGUE)) as url:
        monkeypatch.setenv("CRAWLER_SCHEDULER__URL", url)
        monkeypatch.setenv("CRAWLER_SCHEDULER__TOKEN", TOKEN)
        yield


class Link:
    """A link to a ledger that knows a manager with the arguments."""

    def __init__(self, begun: Begun) -> None:
        self._begun = begun

    def begin(self) -> Begun:
        return self._begun


def test_the_host_has_the_sentence_of_the_parser() -> None:
    class Night(GeneratorCrawlManager):
        name = "nightcrawl"
        spider = "books"

    begun = Begun(
        flow_uid="u",
        flow_id="n/nightcrawl",
        name="nightcrawl",
        arguments=("--pagess", "2"),
        incarnation=1,
        first_began_at="2026-11-26T00:00:00Z",
    )
    link: Any = Link(begun)
    with pytest.raises(BadArguments) as refusal:
        drive(Night, link)
    assert refusal.value.sentence == "nightcrawl: error: unrecognized arguments: --pagess 2"


def test_a_manager_of_the_catalogue_is_checked_before_its_start(
    upgraded: Crawlctl, file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    line = "Error: ARGUMENTS: unrecognized arguments: --pagess 2\n"
    with scheduler(tmp_path, monkeypatch):
        result = upgraded("flow", "start", "nightcrawl", "--id", "w", "--", "--pagess", "2")
        assert (result.exit_code, result.stderr) == (2, line)
        words = ("schedule", "create", "night", "--manager", "nightcrawl", "--every", "1h")
        result = upgraded(*words, "--", "--pagess", "2")
        assert (result.exit_code, result.stderr) == (2, line.replace("ARGUMENTS", "MANAGER_ARGUMENTS"))
        assert "No flows." in upgraded("flow", "list").stdout
        assert upgraded("flow", "start", "nightcrawl", "--id", "w", "--", "--own", "2").exit_code == 0


def test_a_schedule_takes_no_crawler_beside_a_manager(upgraded: Crawlctl) -> None:
    words = ("schedule", "create", "night", "shop", "--manager", "nightcrawl", "--every", "1h")
    result = upgraded(*words)
    assert (result.exit_code, result.stderr) == (
        2,
        "Error: CRAWLER: 'shop' is not for --manager, whose arguments follow `--`: leave the word out\n",
    )
    assert upgraded(*words, "--", "--own", "2").stderr == result.stderr


def test_a_flow_id_is_no_argument_on_record(upgraded: Crawlctl, file: Path) -> None:
    target = f"{file}:Shops"
    started = upgraded("flow", "start", target, "--", "--own", "2", "--flow-id", "pp")
    assert started.stdout.startswith("flow pp/nightly: is started")
    for words in (["--id", "pp", "--", "--own", "2"], ["--", "--flow-id=pp", "--own", "2"]):
        assert "was started before" in upgraded("flow", "start", target, *words).stdout
    (status,) = json.loads(upgraded("flow", "show", "pp/nightly", "--json").stdout)["managers"]
    assert status["arguments"] == ["--own", "2"]


def test_the_words_without_a_flow_id() -> None:
    assert without_flow_id(["--flow-id", "a", "b", "--flow-id=c"]) == ["b"]
    assert without_flow_id(["a", "--", "--flow-id", "b"]) == ["a", "--", "--flow-id", "b"]


def test_a_manager_under_way_knows_its_flow_id_from_the_start() -> None:
    seen: list[str | None] = []

    class Shops(CrawlManager):
        name = "shops"
        spider = "books"

        def __init__(self) -> None:
            super().__init__()
            seen.append(self.args.flow_id)
            raise InterruptedError

    begun = Begun(
        flow_uid="u",
        flow_id="pp/shops",
        name="shops",
        family="pp",
        incarnation=1,
        first_began_at="2026-11-26T00:00:00Z",
    )
    link: Any = Link(begun)
    with pytest.raises(InterruptedError):
        drive(Shops, link)
    assert seen == ["pp"]


def test_a_refused_start_says_what_differs(upgraded: Crawlctl, file: Path) -> None:
    file.write_text(FILE + "\n\nclass Other(Shops):\n    pass\n")
    assert upgraded("flow", "start", f"{file}:Shops", "--id", "pp").exit_code == 0
    for words, difference in (
        ([f"{file}:Shops", "--id", "pp", "--", "--own", "4"], "other arguments"),
        ([f"{file}:Shops", "--id", "pp", "--queue", "large"], "another queue"),
        ([f"{file}:Other", "--id", "pp"], "another class"),
    ):
        result = upgraded("flow", "start", *words)
        assert result.exit_code == 6
        assert f"has a crawl manager with {difference}: " in result.stderr
