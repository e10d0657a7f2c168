from __future__ import annotations

import os
import random
from typing import TYPE_CHECKING

import pytest

from run_journal import (
    Damage,
    DamageKind,
    Entry,
    FindingKind,
    Journal,
    SessionRenamed,
    Severity,
)

if TYPE_CHECKING:
    from pathlib import Path
    from types import SimpleNamespace


def _events(path_items: list[Entry | Damage]) -> list[str]:
    return [item.event if isinstance(item, Entry) else item.kind for item in path_items]


@pytest.mark.parametrize(
    "tail",
    [
        b'{"id":"p","text":"tor',
        b'{"id":"p","text":"caf\xc3',
        b"\x00" * 5000,
        b"{",
        b"x" * 200_000,
    ],
)
def test_a_torn_tail_is_set_aside_and_reported_before_the_next_line(
    journal: Journal, ids: SimpleNamespace, tail: bytes
) -> None:
    """C30: torn JSON, half a UTF-8 character, zeros after a power loss; nothing is glued to it."""
    journal.write(SessionRenamed(session_id=ids.session))
    path = journal.path_for(ids.session)
    with path.open("ab") as file:
        file.write(tail)
    torn = list(journal.read(ids.session))[-1]
    assert isinstance(torn, Damage)
    assert (torn.kind, torn.byte_count) == (DamageKind.TORN_TAIL, len(tail))
    assert [f.kind for f in journal.verify(ids.session).findings] == [FindingKind.TORN_TAIL]
    for _ in range(2):
        assert journal.write(SessionRenamed(session_id=ids.session)) is not None
    items = list(journal.read(ids.session))
    assert _events(items) == [
        "session.renamed",
        "journal.repaired",
        "session.renamed",
        "session.renamed",
    ]
    repaired = items[1]
    assert isinstance(repaired, Entry)
    assert repaired.fields["torn_bytes"] == len(tail)
    assert path.with_name(repaired.fields["set_aside"]).read_bytes() == tail
    assert journal.repaired_count == 1
    report = journal.verify(ids.session)
    assert report.ok
    assert [(f.severity, f.kind) for f in report.findings] == [
        (Severity.INFO, FindingKind.TAIL_SET_ASIDE)
    ]


def test_a_file_that_is_nothing_but_a_torn_line_is_repaired(
    journal: Journal, ids: SimpleNamespace
) -> None:
    """C30: the very first line can be torn as well; numbering then starts with the repair."""
    journal.directory.mkdir(parents=True)
    journal.path_for(ids.session).write_bytes(b'{"v":1,"seq":1,"ts"')
    head = journal.write(SessionRenamed(session_id=ids.session))
    assert head is not None
    assert head.seq == 2
    assert journal.verify(ids.session).ok


def test_damage_in_the_middle_is_told_and_writing_goes_on(
    journal: Journal, ids: SimpleNamespace
) -> None:
    """C30: a complete line that is garbage stays where it is and is reported, not skipped."""
    journal.write(SessionRenamed(session_id=ids.session))
    garbage = b"\xff\x00 not a line\n" + b"y" * 9000 + b"\n\n[]\n{}\n"
    with journal.path_for(ids.session).open("ab") as file:
        file.write(garbage)
    head = journal.write(SessionRenamed(session_id=ids.session))
    assert head is not None
    assert head.seq == 2
    assert garbage in journal.path_for(ids.session).read_bytes()
    kinds = _events(list(journal.read(ids.session)))
    assert kinds == [
        "session.renamed",
        "not_a_line",
        "too_long",
        "not_a_line",
        "not_a_line",
        "not_a_line",
        "session.renamed",
    ]
    report = journal.verify(ids.session)
    assert not report.ok
    assert {f.kind for f in report.findings} == {FindingKind.LINE_DAMAGED}
    assert len(report.findings) == 5


def test_a_line_cut_anywhere_never_spoils_the_next_one(
    journal: Journal, ids: SimpleNamespace
) -> None:
    """C30: every kind of cut, by seed; each costs its own line and is reported once."""
    path = journal.path_for(ids.session)
    chance = random.Random(30)
    cut_count = 0
    for _ in range(60):
        journal.write(SessionRenamed(session_id=ids.session))
        size = path.stat().st_size
        cut = chance.randrange(1, 300)
        with path.open("r+b") as file:
            file.truncate(size - cut)
        cut_count += 1
        assert journal.write(SessionRenamed(session_id=ids.session)) is not None
    items = list(journal.read(ids.session))
    assert all(isinstance(item, Entry) for item in items)
    assert _events(items).count("journal.repaired") == cut_count
    assert journal.verify(ids.session).ok
    assert len(list(journal.directory.glob("*.torn-*"))) == cut_count


def test_a_repair_that_was_killed_half_way_is_done_again(
    journal: Journal, ids: SimpleNamespace, directory: Path
) -> None:
    """The copy is there, the report is not: the next repair makes the same copy and reports."""
    journal.write(SessionRenamed(session_id=ids.session))
    path = journal.path_for(ids.session)
    with path.open("ab") as file:
        file.write(b"torn tail")
    path.with_name(f"{path.name}.torn-000002").write_bytes(b"torn")
    journal.write(SessionRenamed(session_id=ids.session))
    assert path.with_name(f"{path.name}.torn-000002").read_bytes() == b"torn tail"
    assert _events(list(journal.read(ids.session)))[1] == "journal.repaired"
    assert len(list(directory.glob("*.torn-*"))) == 1


def test_the_end_of_a_file_with_another_name_is_not_taken_away(
    journal: Journal, ids: SimpleNamespace, tmp_path: Path
) -> None:
    """A hard link in the journal's place: somebody's text stays whole, the line is counted."""
    notes = tmp_path / "notes"
    notes.write_bytes(b"somebody's own, without a line end")
    journal.directory.mkdir(parents=True)
    path = journal.path_for(ids.session)
    path.hardlink_to(notes)
    assert journal.write(SessionRenamed(session_id=ids.session)) is None
    assert journal.failed_count == 1
    assert notes.read_bytes() == b"somebody's own, without a line end"
    assert list(journal.directory.iterdir()) == [path]
    notes.unlink()
    assert journal.write(SessionRenamed(session_id=ids.session)) is not None
    assert journal.verify(ids.session).ok


def test_what_was_set_aside_before_is_not_overwritten(
    journal: Journal, ids: SimpleNamespace
) -> None:
    """A file and its report were cut: the next copy gets the next number, and both are told."""
    journal.write(SessionRenamed(session_id=ids.session))
    path = journal.path_for(ids.session)
    whole = path.read_bytes()
    for torn in (b"first torn line", b"second"):
        path.write_bytes(whole + torn)
        assert journal.write(SessionRenamed(session_id=ids.session)) is not None
    asides = {aside.name[-8:]: aside.read_bytes() for aside in journal.directory.glob("*.torn-*")}
    assert asides == {"n-000002": b"first torn line", "n-000003": b"second"}
    repaired = [item for item in journal.read(ids.session) if isinstance(item, Entry)][1:3]
    assert [(item.fields["set_aside"][-1], item.fields["torn_bytes"]) for item in repaired] == [
        ("2", 15),
        ("3", 6),
    ]
    assert journal.verify(ids.session).ok


def test_a_report_that_was_torn_itself_leaves_no_copy_untold(
    journal: Journal, ids: SimpleNamespace
) -> None:
    """Killed in the midst of report after report: each copy is told of by the line of its number.

    The second kill strikes between two reports that the same repair had to make.
    """
    journal.write(SessionRenamed(session_id=ids.session))
    path = journal.path_for(ids.session)
    with path.open("ab") as file:
        file.write(b"torn line")
    for cut in (100, 500):
        journal.write(SessionRenamed(session_id=ids.session))
        reported = path.stat().st_size - path.read_bytes().rfind(b"\n", 0, -1) - 1
        os.truncate(path, path.stat().st_size - reported - cut)
    head = journal.write(SessionRenamed(session_id=ids.session))
    assert head is not None
    entries = [item for item in journal.read(ids.session) if isinstance(item, Entry)]
    asides = {aside.name: len(aside.read_bytes()) for aside in journal.directory.glob("*.torn-*")}
    told = [item for item in entries if item.event == "journal.repaired"]
    assert {item.fields["set_aside"]: item.fields["torn_bytes"] for item in told} == asides
    assert [int(item.fields["set_aside"][-6:]) for item in told] == [item.seq for item in told]
    assert len(told) == len(asides) == 3
    assert _events(list(journal.read(ids.session)))[1:] == [
        *["journal.repaired"] * 3,
        "session.renamed",
    ]
    assert journal.verify(ids.session).ok


def test_a_line_with_a_byte_order_or_other_line_ends_is_one_line(
    journal: Journal, ids: SimpleNamespace
) -> None:
    r"""C30: records end at `\n` alone; what other programs take for a line end is inside one."""
    journal.write(SessionRenamed(session_id=ids.session))
    garbage = "\ufeff{}\r\u2028\u2029\x85\x0b\x0c\x1c\n".encode()
    with journal.path_for(ids.session).open("ab") as file:
        file.write(garbage)
    journal.write(SessionRenamed(session_id=ids.session))
    damage = [item for item in journal.read(ids.session) if isinstance(item, Damage)]
    assert [(item.kind, item.byte_count) for item in damage] == [
        (DamageKind.NOT_A_LINE, len(garbage))
    ]
