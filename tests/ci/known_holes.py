"""Are there known holes in what we depend on? Asked of the package index, where it answers.

    python -m tests.ci.known_holes requirements.lock ...

Fails for each hole that is not in `.ci/accepted-holes.toml`. Without an answer it says so, and passes: nobody has to
have the index to work here.
"""

import json
import subprocess
import sys
import tomllib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import date
from pathlib import Path
from typing import Any

ACCEPTED = Path(__file__).parents[2] / ".ci" / "accepted-holes.toml"
PATIENCE_SECONDS = 300


@dataclass(frozen=True)
class Accepted:
    """A hole that is known and does not matter here, until this day."""

    id: str
    reason: str
    until: date


@dataclass(frozen=True)
class Verdict:
    lines: list[str]
    fails: bool = False


def judged(answer: dict[str, Any] | None, accepted: Sequence[Accepted], today: date) -> Verdict:
    """`answer`: as `pip-audit --format json` gives it; None if it has none."""
    packages = answer["dependencies"] if answer else []
    asked = [package for package in packages if "skip_reason" not in package]
    if not asked:
        return Verdict(["Not checked for known holes: the package index does not answer."])
    valid = {each.id for each in accepted if each.until >= today}
    holes = [(package, hole) for package in asked for hole in package["vulns"] if not _ids(hole) & valid]
    lines = [_line(package, hole) for package, hole in holes]
    if skipped := sorted(package["name"] for package in packages if "skip_reason" in package):
        lines.append(f"Not known to the index: {', '.join(skipped)}.")
    lines.append(f"{len(asked)} packages checked for known holes, {len(holes)} found that are not accepted.")
    return Verdict(lines, fails=bool(holes))


def _ids(hole: dict[str, Any]) -> set[str]:
    return {hole["id"], *hole.get("aliases", [])}


def _line(package: dict[str, Any], hole: dict[str, Any]) -> str:
    mended = ", ".join(hole.get("fix_versions", [])) or "no version"
    return f"{package['name']} {package['version']}: {hole['id']}, mended in {mended}"


def read_accepted(path: Path = ACCEPTED) -> list[Accepted]:
    return [Accepted(**each) for each in tomllib.loads(path.read_text()).get("hole", [])]


def asked_of_the_index(locks: Iterable[str]) -> dict[str, Any] | None:
    program = str(Path(sys.executable).with_name("pip-audit"))
    files = [word for lock in locks for word in ("--requirement", lock)]
    options = ["--require-hashes", "--disable-pip", "--format", "json", "--progress-spinner", "off", "--timeout", "10"]
    try:
        done = subprocess.run([program, *files, *options], capture_output=True, timeout=PATIENCE_SECONDS)
        answer = json.loads(done.stdout)
    except (subprocess.TimeoutExpired, ValueError):
        return None
    return answer if isinstance(answer, dict) else None


def main(locks: Sequence[str]) -> int:
    verdict = judged(asked_of_the_index(locks), read_accepted(), date.today())  # noqa: DTZ011 (a day is meant)
    print("\n".join(verdict.lines))
    return int(verdict.fails)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
