"""What `crawlers` and `doctor` say of the scheduler service's catalogue and of the environment."""

import json
from pathlib import Path

import pytest

from crawler_lifecycle.clusters.adapters.catalogue import Catalogue
from crawler_lifecycle.clusters.rules import ALLOWED_LABELS
from crawler_lifecycle.errors import NotReady
from tests.kit.clusters.schedulers import TOKEN, SmallCluster, served
from tests.kit.service.commands import SECRET, Crawlctl

CATALOGUE = f"""
[crawlers.bookshop]
command = ["true"]
processes = 4
max_parallel = 2
start_limit_seconds = 90
max_duration_seconds = 7200
environment = {{ TOKEN = "{SECRET}" }}
resources = {{ ephemeral_storage = "10Gi" }}
pod = {{ queue = "crawls", labels = {{ "example.com/team" = "books" }} }}

[crawlers.apples]
command = ["true"]
"""


@pytest.mark.usefixtures("state_url")
def test_the_catalogue_is_listed_without_its_secrets(
    crawlctl: Crawlctl, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "catalogue.toml"
    path.write_text(CATALOGUE)
    with served(SmallCluster(), Catalogue.load(path)) as url:
        monkeypatch.setenv("CRAWLER_SCHEDULER__URL", url)
        monkeypatch.setenv("CRAWLER_SCHEDULER__TOKEN", TOKEN)
        text, told = crawlctl("crawlers"), crawlctl("crawlers", "--json")
    assert [line.split() for line in text.output.splitlines()[1:]] == [
        ["apples", "1", "-", "-", "-", "-"],
        ["bookshop", "4", "2", "1m30s", "2h00m", "-"],
    ]
    apples, bookshop = json.loads(told.output)
    assert (apples["name"], bookshop["max_duration_seconds"]) == ("apples", 7200)
    assert bookshop["environment"] == {"TOKEN": "***"}
    assert bookshop["resources"]["ephemeral_storage"] == "10Gi"
    assert (bookshop["pod"]["queue"], bookshop["pod"]["labels"]) == ("crawls", {"example.com/team": "books"})
    assert apples["pod"]["queue"] is None
    assert SECRET not in text.output + told.output


@pytest.mark.usefixtures("state_url")
def test_a_broken_edit_is_told_by_doctor_and_beside_the_list(
    crawlctl: Crawlctl, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Doctor told of it in a line that was marked ok, and `crawlers` said nothing."""
    path = tmp_path / "catalogue.toml"
    path.write_text(CATALOGUE)
    with served(SmallCluster(), Catalogue.load(path)) as url:
        monkeypatch.setenv("CRAWLER_SCHEDULER__URL", url)
        monkeypatch.setenv("CRAWLER_SCHEDULER__TOKEN", TOKEN)
        monkeypatch.setenv("TEMPORAL_ADDRESS", "127.0.0.1:1")
        path.write_text(CATALOGUE.replace("processes = 4", "processes = 0"))
        listed = crawlctl("crawlers")
        checks = {check["part"]: check for check in json.loads(crawlctl("doctor", "--json").output)}
    assert listed.exit_code == 0
    assert "bookshop" in listed.stdout
    assert "crawlers.bookshop: processes: " in listed.stderr
    assert checks["scheduler service"]["ok"] is False
    assert "crawlers.bookshop: processes: " in checks["scheduler service"]["line"]


def test_a_catalogue_is_checked_before_anything_runs(crawlctl: Crawlctl, tmp_path: Path) -> None:
    good, broken = tmp_path / "good.toml", tmp_path / "broken.toml"
    good.write_text(CATALOGUE)
    broken.write_text(
        '[crawlers.a]\ncommand = ["no-such-program"]\n'
        '[crawlers.b]\ncommand = ["{python}", "{catalogue_folder}/nowhere.py"]\n'
        '[crawlers.c]\ncomand = ["true"]\n'
        '[crawlers.d]\ncommand = ["inside"]\nimage = "d:1"\n'
        '[crawlers.e]\nimage = "e:1"\npod = { tolerations = [{ key = "a", effect = "NoRun" }] }\n'
        '[crawlers.f]\nimage = "f:1"\npod = { labels = { "kubernetes.io/os" = "any" } }\n'
    )
    result = crawlctl("crawlers", "--check", str(good))
    assert (result.exit_code, result.stdout) == (0, f"{good} is valid: 2 crawlers (apples, bookshop)\n")
    result = crawlctl("crawlers", "--check", str(broken))
    assert result.exit_code == 2
    allowed = ", ".join(sorted(ALLOWED_LABELS))
    assert [line.removeprefix(f"{broken}: crawlers.") for line in result.stdout.splitlines()] == [
        "a: command: there is no program 'no-such-program' on this machine",
        f"b: command: there is no file {tmp_path / 'nowhere.py'}",
        "c: comand: is not a known field",
        "c: command: expected the program to run, or an `image`",
        "e: pod.tolerations.0.effect: expected 'NoSchedule', 'PreferNoSchedule' or 'NoExecute'",
        f"f: pod.labels.kubernetes.io/os: keys of kubernetes.io are reserved; a catalogue may set {allowed}",
    ]
    told = json.loads(crawlctl("crawlers", "--check", str(broken), "--json").stdout)
    assert (len(told["problems"]), told["crawlers"]) == (6, [])
    assert "No such file" in crawlctl("crawlers", "--check", str(tmp_path / "none.toml")).stdout


def test_a_check_reports_all_mistakes_in_one_pass(crawlctl: Crawlctl, tmp_path: Path) -> None:
    """A table with a wrong name hid all other mistakes of the file, and names were not checked at all."""
    path = tmp_path / "many.toml"
    path.write_text(
        "managers = 3\n"
        '[crawler.news]\ncommand = ["true"]\n'
        "[crawlers.\"x<script>\"]\ncommand = ['true']\n"
        '[crawlers.c]\nname = "d"\nprocesses = 0\ncomand = ["true"]\nlabels = ["0"]\n'
        '[crawlers.e]\ncommand = [3]\npod = { labels = { "kubernetes.io/os" = "any" } }\n'
        "[settings]\n"
    )
    result = crawlctl("crawlers", "--check", str(path))
    assert result.exit_code == 2
    assert [line.removeprefix(f"{path}: ").partition(": ")[0] for line in result.stdout.splitlines()] == [
        "crawler", "settings", "managers", "crawlers.x<script>", *["crawlers.c"] * 5, *["crawlers.e"] * 2,
    ]  # fmt: skip
    fields = [line.split(": ")[2] for line in result.stdout.splitlines() if ": crawlers." in line]
    assert fields == [
        "name", "name", "processes", "labels.0", "comand", "command", "command.0", "pod.labels.kubernetes.io/os",
    ]  # fmt: skip
    with pytest.raises(NotReady, match="crawler: unknown"):
        Catalogue.load(path)


@pytest.mark.usefixtures("state_url")
def test_without_a_scheduler_service_it_is_one_line(crawlctl: Crawlctl, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CRAWLER_SCHEDULER__URL", "http://127.0.0.1:1")
    monkeypatch.setenv("CRAWLER_SCHEDULER__TOKEN", TOKEN)
    result = crawlctl("crawlers")
    assert result.exit_code == 4
    assert "is it running?" in result.stderr
    assert len(result.stderr.splitlines()) == 1


def test_doctor_names_a_misspelt_variable(crawlctl: Crawlctl, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TEMPORAL_ADDRESS", "127.0.0.1:1")
    monkeypatch.setenv("CRAWLER_SCHEDULER__URL", "http://127.0.0.1:1")
    monkeypatch.setenv("CRAWLER_DATABASE_URL", "sqlite:////nowhere")
    checks = {check["part"]: check for check in json.loads(crawlctl("doctor", "--json").output)}
    assert checks["settings"]["ok"] is False
    assert (
        (checks["settings"]["line"])
        == "CRAWLER_DATABASE_URL is not a setting and is ignored: is CRAWLER_DATABASE__URL meant?"
    )
