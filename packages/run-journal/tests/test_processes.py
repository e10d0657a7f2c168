from __future__ import annotations

import fcntl
import multiprocessing
import os
import random
import signal
import time
from typing import TYPE_CHECKING

import pytest

from run_journal import Entry, Journal, SessionRenamed, ToolStarted, name_of
from run_scale import CROWD_LINES, KILLS, LONG_TIMEOUT_S, SEED, tell

if TYPE_CHECKING:
    from pathlib import Path
    from types import SimpleNamespace

# Forked from a warm process: a kill after a few milliseconds then meets a writer, not an import.
FORK = multiprocessing.get_context("fork")
CROWD = 16
ONE_TOLD = 64  # bytes: less than a head that a writer was told, more than what it begins with
T, LONG = name_of("t"), name_of("t" * 64)


def _write_lines(directory: Path, ids: SimpleNamespace, count: int) -> None:
    with Journal(directory, workspace_id=ids.workspace, lock_timeout_s=60) as journal:
        for number in range(count):
            journal.write(
                ToolStarted(session_id=ids.session, run_id=ids.run, tool=T, call_index=number)
            )
        os._exit(1 if journal.failed_count else 0)


def _write_until_killed(directory: Path, ids: SimpleNamespace, told: Path) -> None:
    """Write for ever, and keep the head of every line that `write` said is there."""
    with Journal(directory, workspace_id=ids.workspace) as journal, told.open("ab", 0) as heads:
        heads.write(b"\n")  # the line before may be cut: its writer was killed
        while True:
            head = journal.write(ToolStarted(session_id=ids.session, run_id=ids.run, tool=LONG))
            if head is not None:
                heads.write(b"%d %b\n" % (head.seq, head.chain.encode()))


@pytest.mark.timeout(LONG_TIMEOUT_S)
def test_sixteen_processes_write_one_file_without_a_gap(
    directory: Path, ids: SimpleNamespace
) -> None:
    """The lock keeps seq and chain right; no line of any process is lost, torn or mixed.

    3,200 lines here, 100,000 with RUN_JOURNAL_LONG=1. Every process's lines are all there, each
    once and in its order.
    """
    each = CROWD_LINES // CROWD
    processes = [
        FORK.Process(target=_write_lines, args=(directory, ids, each)) for _ in range(CROWD)
    ]
    for process in processes:
        process.start()
    for process in processes:
        process.join()
    assert [process.exitcode for process in processes] == [0] * CROWD
    with Journal(directory, workspace_id=ids.workspace) as journal:
        report = journal.verify(ids.session)
        items = list(journal.read(ids.session))
    assert report.findings == ()
    assert report.line_count == report.head.seq == each * CROWD
    numbers = [item.fields["call_index"] for item in items if isinstance(item, Entry)]
    assert sorted(numbers) == sorted(list(range(each)) * CROWD)
    assert list(directory.glob("*.torn-*")) == []
    tell(f"{CROWD} processes, {len(items)} lines")


@pytest.mark.timeout(LONG_TIMEOUT_S)
def test_killed_writers_lose_no_line_and_leave_at_most_one_tail_each(
    directory: Path, ids: SimpleNamespace, tmp_path: Path
) -> None:
    """Forty kill -9, two writers at a time; 2,000 with RUN_JOURNAL_LONG=1.

    After the next write every line is good, every line that a writer was told of is there, and
    each tail that was set aside is reported once. Every other pair of writers is let get as far as
    a line, however slow the machine is; what they are at when they are killed is left to chance.
    """
    chance = random.Random(SEED)
    with Journal(tmp_path / "warm", workspace_id=ids.workspace) as journal:
        journal.write(SessionRenamed(session_id=ids.session))
    told = [tmp_path / f"told-{number}" for number in range(2)]
    for path in told:
        path.touch()
    for number in range(KILLS // 2):
        told_bytes = [path.stat().st_size for path in told]
        writers = [
            FORK.Process(target=_write_until_killed, args=(directory, ids, path)) for path in told
        ]
        for writer in writers:
            writer.start()
        if number % 2:
            for writer, path, before in zip(writers, told, told_bytes, strict=True):
                while writer.is_alive() and path.stat().st_size <= before + ONE_TOLD:
                    time.sleep(0.001)
        time.sleep(chance.uniform(0.004, 0.03))
        for writer in writers:
            assert writer.pid is not None
            os.kill(writer.pid, signal.SIGKILL)
        for writer in writers:
            writer.join()
    with Journal(directory, workspace_id=ids.workspace) as journal:
        assert journal.write(SessionRenamed(session_id=ids.session)) is not None
        report = journal.verify(ids.session)
        items = list(journal.read(ids.session))
    assert report.ok
    entries = {item.seq: item for item in items if isinstance(item, Entry)}
    assert len(entries) == len(items) > KILLS // 2
    for path in told:
        for line in path.read_bytes().splitlines():
            seq, _, chain = line.partition(b" ")
            if len(chain) == 64:
                assert entries[int(seq)].chain == chain.decode()
    repaired = [item for item in entries.values() if item.event == "journal.repaired"]
    asides = {path.name for path in directory.glob("*.torn-*")}
    assert asides == {item.fields["set_aside"] for item in repaired}
    assert len(asides) == len(repaired) <= KILLS
    tell(f"{KILLS} kills, {len(items)} lines, {len(asides)} tails set aside")


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

        count = 0
        old = signal.signal(signal.SIGPROF, handle)  # one that is not held back
        try:
            signal.setitimer(signal.ITIMER_PROF, 0.001, 0.001)
            while len(wrote) < 20:
                journal.write(SessionRenamed(session_id=ids.session))
                count += 1
        finally:
            signal.setitimer(signal.ITIMER_PROF, 0)
            signal.signal(signal.SIGPROF, old)
        report = journal.verify(ids.session)
        assert report.findings == ()
        assert report.line_count + journal.failed_count == count + len(wrote)
