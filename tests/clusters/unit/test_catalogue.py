"""Is the catalogue what the file says, and is one clear line told where the file is wrong?"""

import sys
import tomllib
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from crawler_lifecycle.clusters.adapters.catalogue import Catalogue
from crawler_lifecycle.errors import NotFound, NotReady
from crawler_lifecycle.model.deployment import Crawler, Resources
from crawler_lifecycle.model.retries import Retries

EXAMPLES = Path(__file__).parents[3] / "examples"
GOOD = '[crawlers.shop]\ncommand = ["true"]\n'


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "catalogue.toml"


def load(path: Path, text: str) -> Catalogue:
    path.write_text(text)
    return Catalogue.load(path)


def test_an_entry_is_read_with_all_its_fields(path: Path) -> None:
    catalogue = load(
        path,
        """
        [crawlers."books/2 100%"]
        command = ["run", "--fast"]
        argument_flag = "-a"
        setting_flag = "-s"
        image = "crawlers:1"
        environment = { LANG = "C.UTF-8" }
        resources = { cpu = "1", memory = "1Gi" }
        processes = 4
        max_parallel = 2
        start_limit_seconds = 60
        max_duration_seconds = 3600
        grace_seconds = 10
        retries = { infrastructure = 5, program = 1, pause_seconds = 60 }
        """,
    )
    assert catalogue.names() == ["books/2 100%"]
    assert catalogue.entry("books/2 100%") == Crawler(
        name="books/2 100%",
        command=["run", "--fast"],
        argument_flag="-a",
        setting_flag="-s",
        image="crawlers:1",
        environment={"LANG": "C.UTF-8"},
        resources=Resources(cpu="1", memory="1Gi"),
        processes=4,
        max_parallel=2,
        start_limit_seconds=60,
        max_duration_seconds=3600,
        grace_seconds=10,
        retries=Retries(infrastructure=5, program=1, pause_seconds=60),
    )


def test_a_name_that_is_not_there_is_not_found(path: Path) -> None:
    with pytest.raises(NotFound, match="'other'"):
        load(path, GOOD).entry("other")


def test_placeholders_are_expanded_and_other_braces_are_not(tmp_path: Path) -> None:
    folder = tmp_path / "{python}"
    folder.mkdir()
    command = ["{python}", "{catalogue_folder}/job.py", "{}", "{other}", "{{python}}", "$(x) %s"]
    catalogue = load(folder / "catalogue.toml", f"[crawlers.shop]\ncommand = {command}\n")
    assert catalogue.entry("shop").command == [
        sys.executable,
        f"{folder}/job.py",
        "{}",
        "{other}",
        f"{{{sys.executable}}}",
        "$(x) %s",
    ]


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("", "crawlers: expected at least one table"),
        ("crawlers = 3", "crawlers: expected at least one table"),
        ("[crawlers]", "crawlers: expected at least one table"),
        ("[crawler.shop]\ncommand=['true']", "crawler: unknown"),
        (GOOD + "[settings]", "settings: unknown"),
        ("[crawlers.shop", "not a TOML file"),
        (GOOD + GOOD, "not a TOML file"),
        ("crawlers = " + "[" * 100_000, "not a TOML file"),
        ("[crawlers.shop]\nprocesses = " + "9" * 5000, "not a TOML file"),
        ("[crawlers]\nshop = 'true'", "crawlers.shop: entry: expected a table"),
        (GOOD + "retries = { programme = 1 }", "crawlers.shop: retries.programme: "),
        (GOOD + "retries = { program = true }", "crawlers.shop: retries.program: "),
        (GOOD + "retries = { infrastructure = 101 }", "crawlers.shop: retries.infrastructure: "),
        ("[crawlers.shop]", "crawlers.shop: command: "),
        ("[crawlers.shop]\ncommand = ['']", "crawlers.shop: command: "),
        ("[crawlers.shop]\ncommand = 'true'", "crawlers.shop: command: "),
        ("[crawlers.shop]\ncommand = ['true', 3]", "crawlers.shop: command.1: "),
        ('[crawlers.shop]\ncommand = ["a\\u0000"]', "crawlers.shop: command.0: must not contain a NUL"),
        (GOOD + "comand = ['x']", "crawlers.shop: comand: "),
        (GOOD + "name = 'other'", "crawlers.shop: name: "),
        (GOOD + "processes = '4'", "crawlers.shop: processes: "),
        (GOOD + "processes = 0", "crawlers.shop: processes: "),
        (GOOD + "processes = 1000000000", "crawlers.shop: processes: "),
        (GOOD + "processes = true", "crawlers.shop: processes: "),
        (GOOD + "max_parallel = -1", "crawlers.shop: max_parallel: "),
        (GOOD + "grace_seconds = 1.5", "crawlers.shop: grace_seconds: "),
        (GOOD + "resources = { gpu = '1' }", "crawlers.shop: resources.gpu: "),
        (GOOD + "resources = { cpu = 1 }", "crawlers.shop: resources.cpu: "),
        (GOOD + "environment = { PORT = 80 }", "crawlers.shop: environment.PORT: "),
        (GOOD + "environment = { 'A=B' = 'x' }", "crawlers.shop: environment.A=B: "),
        ("[crawlers.' ']\ncommand = ['true']", "name: must not be blank"),
        ('[crawlers."a\\nb"]\ncommand = ["true"]', "crawlers.a b: name: must not contain control"),
        (f"[crawlers.{'x' * 129}]\ncommand = ['true']", "name: "),
    ],
)
def test_what_is_wrong_is_one_line_that_names_file_entry_and_field(path: Path, text: str, told: str) -> None:
    with pytest.raises(NotReady) as caught:
        load(path, text)
    assert caught.value.message.startswith(f"{path}: ")
    assert told in caught.value.message
    assert "\n" not in caught.value.message


def test_a_file_that_cannot_be_read_is_told(path: Path) -> None:
    with pytest.raises(NotReady, match="No such file"):
        Catalogue.load(path)
    path.write_bytes(b"\xff\xfe")
    with pytest.raises(NotReady, match="not a TOML file"):
        Catalogue.load(path)
    with pytest.raises(NotReady, match="directory"):
        Catalogue.load(path.parent)


@given(st.binary(max_size=200) | st.text(alphabet='[]{}"=.\n crawlers0,', max_size=80).map(str.encode))
def test_any_content_is_a_catalogue_or_one_line(tmp_path_factory: pytest.TempPathFactory, content: bytes) -> None:
    path = tmp_path_factory.getbasetemp() / "any.toml"
    path.write_bytes(content)
    names, told = names_or_problem(path)
    assert (names is None) == (len(told.splitlines()) == 1)
    assert names is None or names == sorted(tomllib.loads(content.decode())["crawlers"])


def names_or_problem(path: Path) -> tuple[list[str] | None, str]:
    try:
        return Catalogue.load(path).names(), ""
    except NotReady as error:
        return None, error.message


def test_an_edit_is_seen_at_once_even_with_the_same_size_and_time(path: Path) -> None:
    catalogue = load(path, GOOD)
    path.write_text(GOOD.replace("true", "echo"))
    assert catalogue.entry("shop").command == ["echo"]


def test_a_broken_edit_keeps_the_last_good_one_and_is_reported_once(
    path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    catalogue = load(path, GOOD)
    path.write_text("[crawlers.shop]\nprocesses = 'many'")
    assert [catalogue.entry("shop").command for _ in range(3)] == [["true"]] * 3
    assert "crawlers.shop: processes" in (catalogue.problem() or "")
    assert len([record for record in caplog.records if record.levelname == "ERROR"]) == 1
    path.write_text(GOOD.replace("true", "echo"))
    assert catalogue.entry("shop").command == ["echo"]
    assert catalogue.problem() is None


def test_a_file_that_is_gone_for_a_while_is_reported_and_found_again(path: Path) -> None:
    catalogue = load(path, GOOD)
    path.unlink()
    assert catalogue.names() == ["shop"]
    assert "No such file" in (catalogue.problem() or "")
    path.write_text(GOOD)
    assert catalogue.names() == ["shop"]
    assert catalogue.problem() is None


def test_the_examples_are_a_good_catalogue() -> None:
    catalogue = Catalogue.load(EXAMPLES / "catalogue.toml")
    assert {"bookshop", "sleeper", "failing", "stubborn"} <= set(catalogue.names())
    assert catalogue.entry("bookshop").processes == 4
    for name in catalogue.names():
        program, script, *_ = catalogue.entry(name).command
        assert Path(program).is_file()
        assert Path(script).is_file()
    assert catalogue.manager("shops").function == "shops_manager:ShopsManager"
    assert (EXAMPLES / "flows" / "shops_manager.py").is_file()


def test_managers_are_entries_of_their_own(path: Path) -> None:
    catalogue = load(
        path,
        GOOD
        + """
        [managers.shops]
        class = "my_project.managers:Shops"

        [managers."shops of november"]
        name = "november"
        class = "my_project.managers:Shops"
        arguments = ["--max-running-jobs", "8"]
        queue = "slow"
        """,
    )
    assert catalogue.manager_names() == ["shops", "shops of november"]
    entry = catalogue.manager("shops of november")
    assert (entry.name, entry.function, entry.queue) == ("november", "my_project.managers:Shops", "slow")
    assert entry.arguments == ["--max-running-jobs", "8"]
    assert catalogue.manager("shops").name == "shops"
    with pytest.raises(NotFound, match="no crawl manager 'shop'"):
        catalogue.manager("shop")


@pytest.mark.parametrize(
    ("table", "message"),
    [
        ('class = "managers.py"', "managers.shops: class"),
        ("", "managers.shops: class"),
        ('class = "a:B"\nfile = "x.py"', "managers.shops: file: is not a known field"),
        ('class = "a:B"\nname = "a/b"', "managers.shops: name: must not contain '/'"),
    ],
)
def test_a_wrong_manager_is_named(path: Path, table: str, message: str) -> None:
    with pytest.raises(NotReady, match=message):
        load(path, f"{GOOD}\n[managers.shops]\n{table}\n")
