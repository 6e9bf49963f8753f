"""Functions of authors share threads one after another, and leave nothing behind."""

import contextvars
import threading

from crawler_lifecycle.hosts.runners import AuthorsThreads

PATIENCE = 60.0
FUNCTIONS = 100
OWN = contextvars.ContextVar("own", default="nothing")


def run(threads: AuthorsThreads, name: str) -> tuple[int, str, str]:
    """Run a function to its end. Return its thread, the thread's name, and the former value of OWN."""
    ended, seen = threading.Event(), []

    def work() -> None:
        seen.append((threading.get_ident(), threading.current_thread().name, OWN.get()))
        OWN.set(name)
        ended.set()

    threads.start(work, name)
    assert ended.wait(PATIENCE)
    return seen[0]


def test_a_thread_serves_one_function_after_another() -> None:
    threads = AuthorsThreads()
    served = [run(threads, f"step-{number}") for number in range(FUNCTIONS)]
    assert len({ident for ident, _, _ in served}) < FUNCTIONS
    assert [name for _, name, _ in served] == [f"step-{number}" for number in range(FUNCTIONS)]
    assert {value for _, _, value in served} == {"nothing"}, "a function sees no variable of a former function"


def test_a_function_without_an_end_keeps_its_thread_to_itself() -> None:
    threads, held, begun = AuthorsThreads(), threading.Event(), threading.Event()
    idents = []

    def hangs() -> None:
        idents.append(threading.get_ident())
        begun.set()
        held.wait(PATIENCE)

    threads.start(hangs, "hangs")
    assert begun.wait(PATIENCE)
    assert idents[0] not in {run(threads, "next")[0] for _ in range(10)}
    held.set()
