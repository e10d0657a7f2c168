from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest

from state_store.sqlite import policy
from state_store.sqlite.beside import log_of
from state_store.testing.turns import begin, calling, complete, result

if TYPE_CHECKING:
    import subprocess
    from collections.abc import Callable
    from pathlib import Path

    import apsw

    from state_store import SqliteStore

    OpenDisk = Callable[..., SqliteStore]
    StartPython = Callable[..., subprocess.Popen[str]]

# As the case has it: STATE_STORE_LONG=1.
MESSAGE_COUNT = 20_000 if os.environ.get("STATE_STORE_LONG") == "1" else 1_500
MESSAGE_SIZE = 4096
LIMIT_BYTES = 64 * 1024 * 1024
HOLD_A_READ = """
store = open_store(writing=False)
with store._database.read() as connection:
    connection.execute("SELECT count(*) FROM messages").fetchall()
    say("reading")
    sys.stdin.readline()
say("done")
sys.stdin.readline()
"""


def append(store: SqliteStore, session_id: str, count: int) -> None:
    """Append *count* messages, each in a transaction of its own, in runs with tools."""
    content = "x" * MESSAGE_SIZE
    while count > 0:
        run = begin(store, session_id, content)
        seq = store.start_tools(run.id, calling("a"), ["safe"]).seq
        seen = result("a", content)
        store.finish_tool(run.id, call_seq=seq, call_index=0, outcome="ok", message=seen)
        complete(store, run)
        count -= 4


def sizes_of_the_log(
    open_disk: OpenDisk, start_python: StartPython, path: Path, message_count: int
) -> tuple[int, int]:
    """Return how big a long reader makes the log, and how big it is a while after it is done."""
    store = open_disk()
    session_id = store.create_session().id
    append(store, session_id, 4)
    reader = start_python(HOLD_A_READ)
    assert reader.stdout is not None
    assert reader.stdin is not None
    assert reader.stdout.readline() == "reading\n"
    append(store, session_id, message_count)
    grown = log_of(path).stat().st_size
    assert grown > policy.JOURNAL_SIZE_LIMIT_BYTES, "it did not grow: the test tests nothing"
    reader.stdin.write("\n")
    reader.stdin.flush()
    assert reader.stdout.readline() == "done\n"
    append(store, session_id, 100)
    return grown, log_of(path).stat().st_size


@pytest.fixture(autouse=True)
def _no_wait_for_the_disk(monkeypatch: pytest.MonkeyPatch) -> None:
    """Sync nothing: thousands of commits are made, and it is the size that is looked at."""
    use(monkeypatch, in_place_of=policy.sync_fully, name="synchronous", value=0)


def use(
    monkeypatch: pytest.MonkeyPatch, *, in_place_of: policy.Rule, name: str, value: int
) -> None:
    """Set another value than a rule does."""

    def set_it(connection: apsw.Connection, path: Path) -> None:
        connection.pragma(name, value)

    rules = tuple(set_it if rule is in_place_of else rule for rule in policy.WRITING)
    monkeypatch.setattr(policy, "WRITING", rules)


def test_the_log_shrinks_once_a_long_reader_is_done(
    open_disk: OpenDisk, start_python: StartPython, path: Path
) -> None:
    """It may grow while somebody reads; a hundred messages later it has its limit again (C16)."""
    grown, shrunk = sizes_of_the_log(open_disk, start_python, path, MESSAGE_COUNT)
    print(f"{MESSAGE_COUNT} messages: {grown} bytes, then {shrunk}")  # noqa: T201 - for `pytest -s`
    assert shrunk <= policy.JOURNAL_SIZE_LIMIT_BYTES <= LIMIT_BYTES


def test_without_its_limit_the_log_keeps_its_size(
    open_disk: OpenDisk, start_python: StartPython, path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The control: what the test above would find without the rule that it tests."""
    use(monkeypatch, in_place_of=policy.bound_journal, name="journal_size_limit", value=-1)
    grown, later = sizes_of_the_log(open_disk, start_python, path, 1_500)
    assert later >= grown
