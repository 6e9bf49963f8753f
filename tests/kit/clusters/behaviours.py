"""What does a job do? Said for both kinds of cluster at once: as a script for one that runs processes, and as an image
for one whose nodes are simulated (tests/kubernetes/fates.py)."""

from dataclasses import dataclass

from tests.kubernetes import fates


@dataclass(frozen=True, slots=True)
class Behaviour:
    script: str
    image: str
    output: bytes = b""  # what the script prints before it ends or waits; simulated nodes have to be told


SUCCEEDS = Behaviour("echo ran", fates.SUCCEEDS, b"ran\n")
SILENT = Behaviour("exit 0", fates.SUCCEEDS)
RUNS_UNTIL_ASKED = Behaviour("echo up; exec sleep 1000", fates.RUNS, b"up\n")
IGNORES_BEING_ASKED = Behaviour("trap '' TERM; echo up; while :; do sleep 0.1; done", fates.IGNORES, b"up\n")


def exits(code: int) -> Behaviour:
    return Behaviour(f"exit {code}", fates.exits(code))


def ends_by_signal(name: str, code: int) -> Behaviour:
    return Behaviour(f"kill -{name} $$", fates.exits(code))


def fails_to_run(program: str, code: int) -> Behaviour:
    return Behaviour(program, fates.exits(code))


def prints(script: str, output: bytes, code: int = 0) -> Behaviour:
    """The script has to print just that, and to end with that code."""
    return Behaviour(script, fates.exits(code) if code else fates.SUCCEEDS, output)
