from __future__ import annotations

import fcntl
import multiprocessing
import os
import random
import signal
import time
from typing import TYPE_CHECKING

from run_journal import Entry, Journal, SessionRenamed, ToolStarted

if TYPE_CHECKING:
    from pathlib import Path
    from types import SimpleNamespace

# Forked from a warm process: a kill after a few milliseconds then meets a writer, not an import.
FORK = multiprocessing.get_context("fork")


def _write_lines(directory: Path, ids: SimpleNamespace, count: int) -> None:
    with Journal(directory, workspace_id=ids.workspace) as journal:
        for _ in range(count):
            journal.write(SessionRenamed(session_id=ids.session))
        os._exit(1 if journal.failed_count else 0)


def _write_until_killed(directory: Path, ids: SimpleNamespace) -> None:
    with Journal(directory, workspace_id=ids.workspace) as journal:
        while True:
            journal.write(ToolStarted(session_id=ids.session, run_id=ids.run, tool="t" * 64))


def test_eight_processes_write_one_file_without_a_gap(
    directory: Path, ids: SimpleNamespace
) -> None:
    """The lock keeps seq and chain right; no line of any process is lost or mixed."""
    processes = [FORK.Process(target=_write_lines, args=(directory, ids, 300)) for _ in range(8)]
    for process in processes:
        process.start()
    for process in processes:
        process.join()
    assert [process.exitcode for process in processes] == [0] * 8
    with Journal(directory, workspace_id=ids.workspace) as journal:
        report = journal.verify(ids.session)
    assert report.findings == ()
    assert report.line_count == report.head.seq == 2400


def test_killed_writers_leave_no_bad_line_and_at_most_one_tail_each(
    directory: Path, ids: SimpleNamespace
) -> None:
    """Forty kill -9, two writers at a time: after the next write every line is good."""
    chance = random.Random(9)
    kill_count = 40
    for _ in range(kill_count // 2):
        writers = [
            FORK.Process(target=_write_until_killed, args=(directory, ids)) for _ in range(2)
        ]
        for writer in writers:
            writer.start()
        time.sleep(chance.uniform(0.005, 0.03))
        for writer in writers:
            assert writer.pid is not None
            os.kill(writer.pid, signal.SIGKILL)
        for writer in writers:
            writer.join()
    with Journal(directory, workspace_id=ids.workspace) as journal:
        assert journal.write(SessionRenamed(session_id=ids.session)) is not None
        items = list(journal.read(ids.session))
        assert journal.verify(ids.session).ok
    assert all(isinstance(item, Entry) for item in items)
    assert len(items) > kill_count
    assert len(list(directory.glob("*.torn-*"))) <= kill_count


def test_a_forked_child_goes_on_with_descriptors_of_its_own(
    journal: Journal, ids: SimpleNamespace
) -> None:
    """Parent and child write at the same time through one object; the lock still holds."""
    journal.write(SessionRenamed(session_id=ids.session))

    def work() -> None:
        for _ in range(300):
            journal.write(SessionRenamed(session_id=ids.session))
        os._exit(1 if journal.failed_count else 0)

    children = [FORK.Process(target=work) for _ in range(2)]
    for child in children:
        child.start()
    for _ in range(300):
        journal.write(SessionRenamed(session_id=ids.session))
    for child in children:
        child.join()
    assert [child.exitcode for child in children] == [0, 0]
    report = journal.verify(ids.session)
    assert report.findings == ()
    assert report.head.seq == 901


def test_a_lock_that_is_never_given_back_costs_the_line_and_not_the_run(
    directory: Path, ids: SimpleNamespace
) -> None:
    """A stopped process holds the lock: the write ends, is counted, and the next one works."""
    with Journal(directory, workspace_id=ids.workspace, lock_timeout_s=0.05) as journal:
        journal.write(SessionRenamed(session_id=ids.session))
        holder = os.open(journal.path_for(ids.session), os.O_RDWR)
        fcntl.flock(holder, fcntl.LOCK_EX)
        assert journal.write(SessionRenamed(session_id=ids.session)) is None
        assert journal.failed_count == 1
        os.close(holder)
        assert journal.write(SessionRenamed(session_id=ids.session)) is not None


def test_a_signal_handler_that_writes_inside_a_write_does_not_hang(
    directory: Path, ids: SimpleNamespace
) -> None:
    """Its line is refused or written, never waited for; lines stay whole."""
    with Journal(directory, workspace_id=ids.workspace, lock_timeout_s=0.5) as journal:
        wrote = []

        def handle(number: int, frame: object) -> None:
            wrote.append(journal.write(SessionRenamed(session_id=ids.session)))

        old = signal.signal(signal.SIGALRM, handle)
        try:
            signal.setitimer(signal.ITIMER_REAL, 0.001, 0.001)
            for _ in range(500):
                journal.write(SessionRenamed(session_id=ids.session))
        finally:
            signal.setitimer(signal.ITIMER_REAL, 0)
            signal.signal(signal.SIGALRM, old)
        report = journal.verify(ids.session)
        assert report.findings == ()
        assert report.line_count + journal.failed_count == 500 + len(wrote)
