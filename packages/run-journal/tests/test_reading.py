from __future__ import annotations

import itertools
import os
import threading
from datetime import UTC, datetime
from typing import TYPE_CHECKING

import pytest

import run_journal
from run_journal import (
    Damage,
    DamageKind,
    Entry,
    ErrorType,
    EventInvalid,
    Journal,
    JournalMissing,
    JournalUnavailable,
    RunFailed,
    SessionRenamed,
    follow,
    read,
    stack_of,
)

if TYPE_CHECKING:
    from pathlib import Path
    from types import SimpleNamespace


def test_an_entry_has_what_was_written(journal: Journal, ids: SimpleNamespace) -> None:
    """Envelope as attributes, the event's own facts as fields, the line itself byte for byte."""
    with pytest.raises(EventInvalid) as caught:
        journal.write(None)  # type: ignore[arg-type] # to have an exception with a stack
    event = RunFailed(
        session_id=ids.session,
        run_id=ids.run,
        error_type=ErrorType.TOOL_ERROR,
        stack=stack_of(caught.value),
    )
    head = journal.write(event, duration_ms=12)
    (entry,) = journal.read(ids.session)
    assert isinstance(entry, Entry)
    assert entry.head == head
    assert entry.at == datetime(2026, 1, 2, 3, 4, 5, 6, tzinfo=UTC)
    assert (entry.event, entry.phase, entry.duration_ms) == ("run.failed", "commit", 12)
    assert (entry.workspace_id, entry.session_id, entry.run_id) == (
        ids.workspace,
        ids.session,
        ids.run,
    )
    assert entry.fields["error_type"] == "tool.error"
    assert entry.fields["stack"][-1][:2] == ["run_journal.journal", "write"]
    assert entry.line + b"\n" == journal.path_for(ids.session).read_bytes()


def test_reading_what_is_not_there_or_no_file_is_an_error(tmp_path: Path) -> None:
    """Missing and unusable are told apart; a FIFO does not hang the reader."""
    with pytest.raises(JournalMissing):
        next(read(tmp_path / "none.jsonl"))
    with pytest.raises(JournalUnavailable):
        next(read(tmp_path))
    os.mkfifo(tmp_path / "fifo")
    with pytest.raises(JournalUnavailable):
        next(read(tmp_path / "fifo"))


def test_following_waits_for_the_file_and_sees_lines_as_they_come(
    journal: Journal, ids: SimpleNamespace
) -> None:
    """A file that is made later, a line that is finished later, a repair in between, the end."""
    done = threading.Event()
    seen: list[str] = []
    path = journal.path_for(ids.session)

    def work() -> None:
        for item in follow(path, stop=done.is_set, poll_s=0.001):
            assert isinstance(item, Entry)
            seen.append(item.event)

    thread = threading.Thread(target=work)
    thread.start()
    journal.write(SessionRenamed(session_id=ids.session))
    with path.open("ab") as file:
        file.write(b'{"v":1,"seq":2,"torn')
    journal.write(SessionRenamed(session_id=ids.session))
    done.set()
    thread.join()
    assert seen == ["session.renamed", "journal.repaired", "session.renamed"]


def test_following_ends_when_the_session_is_deleted(journal: Journal, ids: SimpleNamespace) -> None:
    """The lines that were there are told, then the iteration is over."""
    journal.write(SessionRenamed(session_id=ids.session))
    items = journal.follow(ids.session, poll_s=0.001)
    assert isinstance(next(items), Entry)
    journal.delete(ids.session)
    assert list(items) == []


def test_following_ends_when_the_file_is_moved_away(journal: Journal, ids: SimpleNamespace) -> None:
    """A program that rotates logs took it: its last lines are told, and nobody waits for more."""
    journal.write(SessionRenamed(session_id=ids.session))
    polls = itertools.count()
    items = journal.follow(ids.session, stop=lambda: next(polls) > 50, poll_s=0)
    assert isinstance(next(items), Entry)
    journal.write(SessionRenamed(session_id=ids.session))
    path = journal.path_for(ids.session)
    path.rename(path.with_suffix(".1"))
    journal.write(SessionRenamed(session_id=ids.session))
    journal.write(SessionRenamed(session_id=ids.session))
    assert [item.seq for item in items if isinstance(item, Entry)] == [2]
    assert next(polls) < 50


def test_the_public_names_are_sorted_and_there() -> None:
    """`__all__` is the sorted list of what the package promises."""
    assert run_journal.__all__ == sorted(run_journal.__all__)
    assert all(hasattr(run_journal, name) for name in run_journal.__all__)


def test_following_sees_a_line_that_was_torn_repaired(
    journal: Journal, ids: SimpleNamespace
) -> None:
    """C30: what it had read of the torn line is forgotten; the report is told whole."""
    journal.write(SessionRenamed(session_id=ids.session))
    path = journal.path_for(ids.session)
    polls = iter(range(10))

    def stop() -> bool:
        poll = next(polls)
        if poll == 3:
            with path.open("ab") as file:
                file.write(b'{"v":1,"seq":2,"torn')
        elif poll == 6:
            journal.write(SessionRenamed(session_id=ids.session))
        return poll == 9

    seen = list(follow(path, stop=stop, poll_s=0))
    assert [item.event for item in seen if isinstance(item, Entry)] == [
        "session.renamed",
        "journal.repaired",
        "session.renamed",
    ]
    assert len(seen) == 3


@pytest.mark.parametrize("how", ["read", "follow"])
def test_a_repair_between_two_looks_is_no_damage(
    journal: Journal, ids: SimpleNamespace, how: str
) -> None:
    """A torn line that the reader has before it, and the report in its place, are not glued."""
    journal.write(SessionRenamed(session_id=ids.session))
    path = journal.path_for(ids.session)
    with path.open("ab") as file:
        file.write(b'{"v":1,"seq":2,"torn')
    items = read(path) if how == "read" else follow(path, stop=lambda: True, poll_s=0)
    seen = [next(items)]
    journal.write(SessionRenamed(session_id=ids.session))
    seen += items
    assert [item.event for item in seen if isinstance(item, Entry)] == [
        "session.renamed",
        "journal.repaired",
        "session.renamed",
    ]
    assert len(seen) == 3


def test_damage_is_looked_at_again_before_it_is_told(
    journal: Journal, ids: SimpleNamespace
) -> None:
    """A reader that meets a report half put in a torn line's place sees the whole one then."""
    for _ in range(3):
        journal.write(SessionRenamed(session_id=ids.session))
    path = journal.path_for(ids.session)
    whole = path.read_bytes()
    second = whole.index(b"\n") + 20
    path.write_bytes(whole[:second] + b"torn" + whole[second + 4 :])
    items = read(path)
    seen = [next(items)]
    path.write_bytes(whole)
    assert [item.seq for item in [*seen, *items] if isinstance(item, Entry)] == [1, 2, 3]


@pytest.mark.parametrize("length", [4095, 4096, 65535, 65536, 65537, 200_000])
def test_a_long_stretch_without_a_line_end_is_one_damage(
    journal: Journal, ids: SimpleNamespace, length: int
) -> None:
    """However it lies to the reader's window; as the end of the file it is a torn line."""
    journal.write(SessionRenamed(session_id=ids.session))
    path = journal.path_for(ids.session)
    whole = path.read_bytes()
    kind = DamageKind.TOO_LONG if length > 4095 else DamageKind.NOT_A_LINE
    path.write_bytes(b"x" * length + b"\n" + whole)
    damage, entry = read(path)
    assert damage == Damage(kind=kind, offset=0, byte_count=length + 1)
    assert isinstance(entry, Entry)
    assert entry.offset == length + 1
    path.write_bytes(whole + b"x" * length)
    entry, damage = read(path)
    assert isinstance(entry, Entry)
    assert damage == Damage(kind=DamageKind.TORN_TAIL, offset=len(whole), byte_count=length)


def test_following_begins_anew_with_a_file_that_was_cut_shorter(
    journal: Journal, ids: SimpleNamespace
) -> None:
    """Emptied and written to again: whole lines are told, and none begins in its middle."""
    for _ in range(3):
        journal.write(SessionRenamed(session_id=ids.session))
    path = journal.path_for(ids.session)
    polls = iter(range(10))

    def stop() -> bool:
        poll = next(polls)
        if poll == 3:
            os.truncate(path, 0)
        if poll in (3, 6, 7, 8):
            journal.write(SessionRenamed(session_id=ids.session))
        return poll == 9

    seen = list(follow(path, stop=stop, poll_s=0))
    assert [item.seq if isinstance(item, Entry) else item for item in seen] == [1, 2, 3, 1, 2, 3, 4]
