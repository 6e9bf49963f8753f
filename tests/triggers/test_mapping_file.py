"""A mapping file is read, and each mistake in a file is a line of its own; `crawlctl triggers check` shows both."""

import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from crawler_lifecycle.cli.program import main
from crawler_lifecycle.errors import BadInput, NotReady
from crawler_lifecycle.triggers import mapping_file
from crawler_lifecycle.triggers.model import Event
from crawler_lifecycle.triggers.requests import request_of, shown
from crawler_lifecycle.triggers.rules import rule_for

EXAMPLE = Path(__file__).parents[2] / "examples" / "events.toml"
BAD = """
[ruls.x]
[rules."a b"]
[rules.none]
pattern.source = ["shop"]
[rules.two]
pattern.sorce = ["shop"]
start_run.crawler = "bookshop"
stop_run.run = 7
[rules.fields]
pattern.source = ["shop"]
when = "always"
[rules.fields.start_run]
crawler = "$.detail.spider"
tasks = "three"
max_parallel = "$.detail.parallel"
taks = 3
requested_by = "me"
labels = ["site:{$.detail.site}", "no-kind"]
arguments = { a = 1, b = "$.detial.x", c = "https://{$.detail.site/" }
[rules.flow]
pattern.source = ["shop"]
[rules.flow.start_flow]
members = [{ path = "a" }]
[rules.class]
pattern.source = ["shop"]
[rules.class.start_flow]
members = [{ path = "a", work = { kind = "step", form = "manager", function = "m:Shops" } }]
[rules.manager]
pattern.source = ["shop"]
start_manager.name = "shops"
"""
LINES = [
    "ruls: expected tables [rules.NAME] only",
    "rules.a b: expected a name of letters, digits and . _ - with a letter or digit at the beginning",
    "rules.none.act: expected exactly one of the tables start_run, stop_run, start_flow, start_manager",
    "rules.two.pattern.sorce: an event has no such field: is source meant?",
    "rules.two.act: expected exactly one of the tables start_run, stop_run, start_flow, start_manager",
    "rules.fields.when: is not a known field",
    "rules.fields.start_run.requested_by: is set by the rule's name",
    "rules.fields.start_run.arguments.b: $.detial.x is no path in an event: expected a path such as $.detail.name",
    "rules.fields.start_run.arguments.c: 'https://{$.detail.site/' has a template without its end: expected one such "
    "as {$.detail.name}",
    "rules.fields.start_run.arguments.a: expected a text",
    "rules.fields.start_run.tasks: expected a whole number",
    "rules.fields.start_run.labels.1: expected a kind, a colon and a value without blanks, such as site:example.com "
    "(the kind: small letters, digits and . _ -), not 'no-kind'",
    "rules.fields.start_run.taks: is not a known field",
    "rules.flow.start_flow.members.0.work: is missing",
    "rules.class.start_flow.form: 'a' is a crawl manager by its class: expected "
    '{"kind": "manager", "manager": "its name in the catalogue"}',
    "rules.manager.start_manager.manager: is missing",
    "rules.manager.start_manager.name: is not a known field",
]


def event(source: str, kind: str, **detail: Any) -> Event:
    return Event.model_validate({"id": "e-1", "source": source, "detail-type": kind, "detail": detail})


def write(folder: Path, text: str) -> Path:
    path = folder / "events.toml"
    path.write_text(text)
    return path


def test_the_example_does_what_it_says() -> None:
    assert mapping_file.mistakes_of(EXAMPLE) == []
    rules = mapping_file.read(EXAMPLE)

    def effect(sent: Event) -> tuple[str, Any]:
        rule = rule_for(sent, rules)
        return rule.name, shown(request_of(rule, sent))

    assert effect(event("shop.orders", "Order Placed", order=4711, site="books.example")) == (
        "new-order",
        {
            "crawler": "bookshop",
            "arguments": {"order": "4711", "site": "https://books.example"},
            "labels": ["site:books.example"],
            "tags": ["order-4711"],
        },
    )
    name, stop = effect(event("shop.operations", "Crawl Unwanted", run=42, because="the site asked us to"))
    assert (name, stop) == ("unwanted", {"run": 42, "reason": "the site asked us to"})
    name, flow = effect(event("shop.catalogue", "Catalogue Published", region="eu"))
    assert (name, flow["id"]) == ("catalogue", "shop.catalogue:e-1")
    assert flow["members"][0]["work"]["request"]["arguments"] == {"region": "eu"}
    name, manager = effect(event("nightly.scheduler", "Nightly Shops"))
    assert (name, manager) == ("nightly-shops", {"manager": "shops", "family": "nightly.scheduler:e-1"})
    with pytest.raises(BadInput, match="no rule fits"):
        effect(event("shop.orders", "Order Paid", order=4711))


def test_every_mistake_is_a_line(tmp_path: Path) -> None:
    path = write(tmp_path, BAD)
    assert mapping_file.mistakes_of(path) == [f"{path}: {line}" for line in LINES]
    with pytest.raises(NotReady) as refused:
        mapping_file.read(path)
    assert refused.value.message == (
        f"{path}: {LINES[0]} (and {len(LINES) - 1} more; `crawlctl triggers check` lists them)"
    )


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "rules: expected at least one table [rules.NAME]"),
        ("rules = 5", "rules: expected at least one table [rules.NAME]"),
        ("rules.x = 5", "rules.x: expected a table"),
        ("[rules", "not a TOML file"),
        ("rules.x.pattern.id = ['a']\nrules.x.start_run = 5", "rules.x.start_run: expected a table"),
    ],
)
def test_a_file_of_another_shape_has_one_line(tmp_path: Path, text: str, words: str) -> None:
    [line] = mapping_file.mistakes_of(write(tmp_path, text))
    assert words in line
    assert mapping_file.mistakes_of(tmp_path / "none.toml") == [
        f"{tmp_path / 'none.toml'}: cannot be read: No such file or directory"
    ]


def test_a_value_of_an_event_that_the_request_does_not_take_is_named(tmp_path: Path) -> None:
    [rule] = mapping_file.read(
        write(tmp_path, "rules.r.pattern.id=['e-1']\nrules.r.start_run = {crawler='x', tasks='$.detail.n'}")
    )
    for value, words in ((0, "expected at least 1"), ("3", "expected a whole number"), (None, "the event has no")):
        with pytest.raises(BadInput) as refused:
            request_of(rule, event("s", "t", n=value))
        assert refused.value.field == "rules.r.start_run.tasks"
        assert words in refused.value.expected


def test_the_command_shows_mistakes_and_effects(tmp_path: Path) -> None:
    def check(*words: object) -> tuple[int, str]:
        result = CliRunner().invoke(main, ["triggers", "check", *map(str, words)])
        return result.exit_code, result.output

    bad = write(tmp_path, BAD)
    assert check(bad) == (2, "".join(f"{bad}: {line}\n" for line in LINES))
    status, said = check(bad, "--json")
    assert (status, len(json.loads(said)["problems"])) == (2, len(LINES))
    names = "new-order, unwanted, catalogue, nightly-shops"
    assert check(EXAMPLE) == (0, f"{EXAMPLE} is valid: {names}\n")
    sent = tmp_path / "event.json"
    detail = {"order": 4711, "site": "books.example"}
    sent.write_text(json.dumps({"id": "e-1", "source": "shop.orders", "detail-type": "Order Placed", "detail": detail}))
    status, said = check(EXAMPLE, "--event", sent)
    assert (status, '"order": "4711"' in said, "rule new-order, start_run" in said) == (0, True, True), said
    status, said = check(EXAMPLE, "--event", sent, "--json")
    assert json.loads(said)["event"]["request"]["tags"] == ["order-4711"]
    sent.write_text("{}")
    status, said = check(EXAMPLE, "--event", sent)
    assert (status, "source: is missing" in said) == (2, True), said
