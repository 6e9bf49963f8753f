import threading
from pathlib import Path

import pytest

from crawler_lifecycle.hosts.children import Child

pytestmark = pytest.mark.regression(
    "The last messages of a process with author's code were lost if the host read late: the host blamed another hook"
)

MAIN = """
import os, signal, socket, sys
from crawler_lifecycle.hosts.children import Channel

channel = Channel(socket.socket(fileno=int(sys.argv[1])))
for number in range(3):
    channel.send({"number": number})
os.kill(os.getpid(), signal.SIGKILL)
"""


def test_messages_from_before_a_death_arrive_behind_the_death(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "doomed_main.py").write_text(MAIN)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    child = Child("doomed_main")
    assert child.cause_of_end() == "was killed by SIGKILL"
    for thread in threading.enumerate():
        if thread.name.startswith("child-"):  # breaks the connection behind the death
            thread.join()
    numbers = []
    while (message := child.channel.receive()) is not None:
        numbers.append(message["number"])
    assert numbers == [0, 1, 2]
