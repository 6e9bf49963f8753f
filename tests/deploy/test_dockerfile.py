"""Does the Dockerfile fit the checkout that it is built from?"""

import re
import shlex
from pathlib import Path

from tests.deploy.dockerfile import CHECKOUT, DOCKERFILE, stages

HOWTO = CHECKOUT / "docs" / "howto" / "run-on-kubernetes.md"


def test_what_is_copied_is_not_ignored() -> None:
    sent = {line[1:] for line in (CHECKOUT / ".dockerignore").read_text().splitlines() if line.startswith("!")}
    copied = {each for step in stages()[0] if step.name == "COPY" for each in shlex.split(step.rest)[:-1]}
    assert copied == sent


def test_the_names_in_manifests_are_copied() -> None:
    manifests = "".join(path.read_text() for path in (CHECKOUT / "deploy").rglob("*.yaml"))
    named = set(re.findall(r"\bworkers\.(\w+)", manifests))
    assert named == {path.stem for path in (CHECKOUT / "workers").glob("[a-z]*.py")} - {"flows"}


def test_its_base_is_an_exact_version_and_the_howto_names_the_same() -> None:
    (base,) = re.findall(r"^ARG BASE=(.+)$", DOCKERFILE.read_text(), re.MULTILINE)
    assert re.fullmatch(r"python:3\.11\.\d+-slim-[a-z]+(@sha256:[0-9a-f]{64})?", base)
    assert set(re.findall(r"^FROM (\S+)", DOCKERFILE.read_text(), re.MULTILINE)) == {"${BASE}"}
    tag = base.partition("@")[0]
    for text in (DOCKERFILE.read_text(), HOWTO.read_text()):
        assert f"--build-arg BASE={tag}@sha256:..." in text
        assert set(re.findall(r"python:3[\w.-]+", text)) == {tag}


def test_it_runs_as_nobody_in_particular() -> None:
    user = [step.rest for step in stages()[1] if step.name == "USER"]
    assert user == ["1000:1000"]


def test_its_packages_are_those_that_were_tested() -> None:
    """The image's lock is a part of the lock that the tests run with."""
    tested = _pins(CHECKOUT / "requirements-dev.lock")
    for name in ("requirements.lock", "build.lock"):
        pins = _pins(DOCKERFILE.parent / "deploy" / "image" / name)
        assert pins
        assert pins <= tested


def _pins(lock: Path) -> set[str]:
    """Without the platforms each is for: those differ with what else is there."""
    return {line.split()[0] for line in lock.read_text().splitlines() if "==" in line}
