"""What an operator can choose: every setting has its variable, and a bad value is one line that names it."""

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Literal, get_args, get_origin

import pytest
from pydantic import BaseModel, SecretStr

from crawler_lifecycle.errors import NotReady
from crawler_lifecycle.settings import Settings, configuration
from crawler_lifecycle.settings.installation import is_known, locate


def _places(model: type[BaseModel], above: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], Any]]:
    """Every setting: the names that lead to it, and its type."""
    for name, field in model.model_fields.items():
        kind = field.annotation
        if isinstance(kind, type) and issubclass(kind, BaseModel):
            yield from _places(kind, (*above, name))
        else:
            yield (*above, name), kind


def _variable(place: tuple[str, ...]) -> str:
    return "CRAWLER_" + "__".join(place).upper()


def _said(kind: Any) -> tuple[str, object]:
    """A value as somebody writes it, and as we read it."""
    if get_origin(kind) is Literal:
        return get_args(kind)[-1], get_args(kind)[-1]
    kind = next(iter(get_args(kind)), kind)  # of `int | None` the first
    return {
        bool: ("true", True),
        int: ("61", 61),
        float: ("22.5", 22.5),
        str: ("words", "words"),
        Path: ("/some/where", Path("/some/where")),
        SecretStr: ("secret", SecretStr("secret")),
    }[kind]


PLACES = dict(_places(Settings))
BOUNDED: dict[tuple[str, ...], tuple[str, object]] = {("notices", "timeout_seconds"): ("8.5", 8.5)}
NOT_ALONE: dict[tuple[str, ...], dict[str, str]] = {
    ("database", "tls_ca"): {"CRAWLER_DATABASE__TLS": "verify", "CRAWLER_DATABASE__URL": "mysql://crawler@db/crawler"}
}
READ_AS_WRITTEN = (str, SecretStr, Path, str | None, Path | None, SecretStr | None)
MAY_BE_WRONG = {place: kind for place, kind in PLACES.items() if kind not in READ_AS_WRITTEN}


@pytest.fixture(autouse=True)
def bare(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in os.environ:
        if name.startswith("CRAWLER_"):
            monkeypatch.delenv(name)


@pytest.mark.parametrize("place", PLACES, ids=_variable)
def test_every_setting_is_set_by_its_variable(place: tuple[str, ...], monkeypatch: pytest.MonkeyPatch) -> None:
    said, expected = BOUNDED.get(place) or _said(PLACES[place])
    for name, value in ({_variable(place): said} | NOT_ALONE.get(place, {})).items():
        monkeypatch.setenv(name, value)
    found: Any = configuration.load()
    for name in place:
        found = getattr(found, name)
    assert found == expected


@pytest.mark.parametrize("place", MAY_BE_WRONG, ids=_variable)
@pytest.mark.parametrize("value", ["perhaps", "-7", ""])
def test_a_bad_value_is_one_line_that_names_the_variable(
    place: tuple[str, ...], value: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(_variable(place), value)
    with pytest.raises(NotReady) as refused:
        configuration.load()
    assert refused.value.message.startswith(f"{_variable(place)}: expected ")
    assert "\n" not in refused.value.message


def test_what_a_caller_says_goes_before_the_environment(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("CRAWLER_STATE", "/somewhere/else")
    assert configuration.load(state=tmp_path).database_url == f"sqlite:///{tmp_path}/crawler.db"


def test_everything_of_the_embedded_profile_is_in_the_state_folder(tmp_path: Path) -> None:
    chosen = configuration.load(state=tmp_path)
    folders = (chosen.jobs_folder, chosen.files_folder, chosen.exports_folder)
    assert {folder.parent for folder in folders} == {tmp_path}


def test_a_database_of_ones_own_goes_before_the_state_folder(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CRAWLER_DATABASE__URL", "mysql://crawler@db/crawler")
    assert configuration.load().database_url == "mysql://crawler@db/crawler"


def test_the_token_is_not_shown(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CRAWLER_SCHEDULER__TOKEN", "very-secret")
    assert "very-secret" not in repr(configuration.load())


@pytest.mark.parametrize(
    ("variable", "value"),
    [("CRAWLER_DATABASE", "sqlite:///x"), ("CRAWLER_SCHEDULER__TIMEOUT_SECONDS", "60")],
)
def test_what_makes_no_sense_together_is_one_line(variable: str, value: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A group without a field; a request that may outlive the claim it is made for."""
    monkeypatch.setenv(variable, value)
    with pytest.raises(NotReady, match="CRAWLER_") as refused:
        configuration.load()
    assert "\n" not in refused.value.message


@pytest.mark.parametrize(
    ("variable", "value"), [("DISPATCHER__CLAIM_SECONDS", "21"), ("KUBERNETES__READ_SECONDS", "50")]
)
def test_a_claim_outlasts_a_request_of_the_kubernetes_api(
    variable: str, value: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Else each deployment is refused as too late, for ever."""
    monkeypatch.setenv(f"CRAWLER_{variable}", value)
    configuration.load()
    monkeypatch.setenv("CRAWLER_CLUSTER__KIND", "kubernetes")
    with pytest.raises(NotReady, match=r"CLAIM_SECONDS: expected more than (21|61) seconds"):
        configuration.load()


@pytest.mark.parametrize("place", PLACES)
def test_no_setting_is_taken_for_misspelt(place: tuple[str, ...]) -> None:
    assert configuration.misspelt({_variable(place): "1", _variable(place).lower(): "1"}) == []


@pytest.mark.parametrize(
    ("name", "told"),
    [
        ("CRAWLER_DATABASE_URL", "is CRAWLER_DATABASE__URL meant?"),
        ("CRAWLER_LIMIT__GRACE_SECONDS", "is CRAWLER_LIMITS__GRACE_SECONDS meant?"),
        ("CRAWLER_METRICS_PORT", "is CRAWLER_METRICS__PORT meant?"),
        ("CRAWLER_QQQ", "CRAWLER_QQQ is not a setting and is ignored"),
    ],
)
def test_a_misspelt_variable_is_a_line_with_the_nearest_name(name: str, told: str) -> None:
    (line,) = configuration.misspelt({name: "8000", "CRAWL_RUN_ID": "1", "PATH": "/bin"})
    assert line.startswith(f"{name} is not a setting")
    assert line.endswith(told)


def test_what_kubernetes_says_of_its_services_is_not_misspelt() -> None:
    service = {
        "CRAWLER_SCHEDULER_SERVICE_HOST": "10.0.0.7",
        "CRAWLER_SCHEDULER_SERVICE_PORT": "8310",
        "CRAWLER_SCHEDULER_SERVICE_PORT_HTTP": "8310",
        "CRAWLER_SCHEDULER_PORT": "tcp://10.0.0.7:8310",
        "CRAWLER_SCHEDULER_PORT_8310_TCP": "tcp://10.0.0.7:8310",
        "CRAWLER_SCHEDULER_PORT_8310_TCP_ADDR": "10.0.0.7",
    }
    assert configuration.misspelt(service) == []


def test_a_secret_comes_from_a_file(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Secrets had to stand in the environment, which every program of the pod inherits."""
    secrets = configuration.secret_variables() - {"CRAWLER_REMOTE__TOKEN"}  # its file is read at every use
    assert {"CRAWLER_DATABASE__URL", "CRAWLER_SCHEDULER__TOKEN", "CRAWLER_NOTICES__WEBHOOKS"} <= secrets
    for name in secrets:
        (tmp_path / name).write_text(f"of {name}\n")
        monkeypatch.setenv(f"{name}_FILE", str(tmp_path / name))
    assert configuration.misspelt(os.environ) == []
    settings = configuration.load(state=tmp_path, scheduler={"token": "overridden"})
    for name in secrets - {"CRAWLER_SCHEDULER__TOKEN"}:
        group, field = name.removeprefix("CRAWLER_").lower().split("__")
        value = getattr(getattr(settings, group), field)
        assert (value.get_secret_value() if isinstance(value, SecretStr) else value) == f"of {name}"
    assert settings.scheduler.token.get_secret_value() == "overridden"
    assert settings.scheduler.url == Settings().scheduler.url


def test_a_file_of_a_secret_that_cannot_be_used_is_a_line(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("CRAWLER_SCHEDULER__TOKEN_FILE", str(tmp_path / "missing"))
    with pytest.raises(NotReady, match=r"^CRAWLER_SCHEDULER__TOKEN_FILE: .*missing cannot be read: No such file"):
        configuration.load()
    (tmp_path / "missing").write_bytes(b"\xff")
    with pytest.raises(NotReady, match=r"cannot be read: expected a text"):
        configuration.load()
    monkeypatch.setenv("CRAWLER_SCHEDULER__TOKEN", "both")
    with pytest.raises(NotReady, match=r"expected without CRAWLER_SCHEDULER__TOKEN: leave out one"):
        configuration.load()


def test_an_address_in_a_file_names_the_installation(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("CRAWLER_DATABASE__URL_FILE", str(tmp_path / "url"))
    (tmp_path / "url").write_text("sqlite:///elsewhere")
    assert is_known(tmp_path)
    assert locate(tmp_path).settings.database_url == "sqlite:///elsewhere"
