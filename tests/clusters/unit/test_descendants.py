"""What does a runner know of the processes that its job leaves behind?"""

import subprocess
import sys

import pytest

ONLY_LINUX = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="elsewhere all processes are gone through")
LEAVES_ONE_BEHIND = """
import os, subprocess, time
from crawler_lifecycle.clusters.local import processes

assert processes.adopt_orphans()
read, write = os.pipe()
# the child ends at once; its own child is in another session, and goes on until it reads
script = f"(setsid sh -c 'read line <&{read}' &) ; (exit 0 &) ; exit 7"
job = subprocess.Popen(["sh", "-c", script], pass_fds=(read,))
job.returncode = processes.wait_for_child(job.pid)
before = processes.has_no_child()
os.write(write, b"\\n")
deadline = time.monotonic() + 20
while not (after := processes.has_no_child()) and time.monotonic() < deadline:
    time.sleep(0.01)
print(job.returncode, before, after, processes.has_no_child())
"""


@ONLY_LINUX
def test_an_orphan_in_another_session_is_known_until_it_ends() -> None:
    ran = subprocess.run([sys.executable, "-c", LEAVES_ONE_BEHIND], capture_output=True, text=True, timeout=60)
    assert ran.stdout.split() == ["7", "False", "True", "True"], ran.stderr


def test_the_signal_that_ended_a_child_is_its_code() -> None:
    script = (
        "import subprocess; from crawler_lifecycle.clusters.local.processes import wait_for_child;"
        "job = subprocess.Popen(['sh', '-c', 'kill -9 $$']); job.returncode = wait_for_child(job.pid);"
        "print(job.returncode)"
    )
    ran = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=60)
    assert ran.stdout.split() == ["-9"], ran.stderr
