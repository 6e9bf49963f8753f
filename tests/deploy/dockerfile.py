"""What does the Dockerfile do? Its instructions, and its build stage carried out in a folder, without an engine."""

import os
import shlex
import shutil
import subprocess
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

CHECKOUT = Path(__file__).parents[2]
DOCKERFILE = CHECKOUT / "Dockerfile"
HERE = ("/app", "/state")  # folders of the image that stand somewhere else in a test
BUILD_SECONDS = 900
STRANGER = "12345"  # a user id and a group id that have no name


@dataclass(frozen=True)
class Instruction:
    name: str
    rest: str


def stages() -> list[list[Instruction]]:
    """The instructions after each FROM."""
    found: list[list[Instruction]] = []
    for instruction in _instructions():
        if instruction.name == "FROM":
            found.append([])
        elif found:
            found[-1].append(instruction)
    return found


def _instructions() -> Iterator[Instruction]:
    lines = [line for line in DOCKERFILE.read_text().splitlines() if line.strip() and not line.startswith("#")]
    for line in "\n".join(lines).replace("\\\n", " ").splitlines():
        name, _, rest = line.partition(" ")
        yield Instruction(name, rest.strip())


@dataclass(frozen=True)
class Image:
    """What the build leaves, in a folder instead of the root."""

    folder: Path

    def built(self) -> "Image":
        source = self.folder / "source"
        build, _ = stages()
        for step in build:
            match step.name:
                case "COPY":
                    *sources, target = shlex.split(step.rest)
                    for each in sources:
                        _copy(CHECKOUT / each, source / target)
                case "RUN":
                    self._run(step.rest, source)
                case "WORKDIR":
                    source.mkdir()
                case other:
                    raise AssertionError(f"the build stage has {other}: teach this test what it does")
        return self

    def start(self, *command: str, **environment: str) -> subprocess.CompletedProcess[str]:
        """A command as a container would start it: nothing of this machine's environment but ours."""
        return subprocess.run(
            command,
            env=self.environment | environment,
            executable=shutil.which(command[0], path=self.environment["PATH"]),
            cwd=self.folder,
            capture_output=True,
            text=True,
            timeout=120,
        )

    def start_as_stranger(self, *command: str, **environment: str) -> subprocess.CompletedProcess[str]:
        """A command under a user id without a name and a home, where nothing but the state folder can be written, and
        with no environment but this."""
        state = self.folder / "state"
        program = [str(self.folder / "app" / "bin" / command[0]), *command[1:]]
        user = ["setpriv", "--reuid", STRANGER, "--regid", STRANGER, "--clear-groups", "--no-new-privs"]
        variables = [f"{name}={value}" for name, value in environment.items()]
        steps = [
            "mount --make-rprivate /",
            *_open_way(Path(sys.base_prefix)),
            f"mount --bind {state} {state}",
            "mount -o remount,bind,ro /",
            "exec " + shlex.join([*user, "env", "-i", *variables, *program]),
        ]
        shell = ["sh", "-c", " && ".join(steps)]
        return subprocess.run(["unshare", "-m", *shell], cwd="/", capture_output=True, text=True, timeout=120)

    @property
    def environment(self) -> dict[str, str]:
        variables: dict[str, str] = {}
        for step in stages()[1]:
            if step.name == "ENV":
                for pair in shlex.split(step.rest):
                    name, _, value = pair.partition("=")
                    variables[name] = self._here(value.replace("$PATH", os.defpath))
        return variables

    def files(self) -> Mapping[str, int]:
        return {str(path): path.lstat().st_mtime_ns for path in (self.folder / "app").rglob("*")}

    def _run(self, command: str, source: Path) -> None:
        done = subprocess.run(
            ["sh", "-c", self._here(command)], cwd=source, capture_output=True, text=True, timeout=BUILD_SECONDS
        )
        assert done.returncode == 0, done.stdout + done.stderr

    def _here(self, text: str) -> str:
        for path in HERE:
            text = text.replace(path, str(self.folder) + path)
        return text


def _open_way(prefix: Path) -> Iterator[str]:
    """Show the Python alone in the folder that is closed to other users, as /root is, if Python lies in one."""
    closed = next((folder for folder in reversed(prefix.parents) if not folder.stat().st_mode & 0o001), None)
    if closed is not None:
        yield f"mount --bind {prefix} /mnt"
        yield f"mount -t tmpfs -o mode=755 none {closed}"
        yield f"mkdir -p {prefix}"
        yield f"mount --move /mnt {prefix}"


def _copy(source: Path, target: Path) -> None:
    if source.is_dir():
        shutil.copytree(source, target, ignore=shutil.ignore_patterns("__pycache__"))
    else:
        shutil.copy(source, target)
