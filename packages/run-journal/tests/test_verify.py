from __future__ import annotations

import random
from typing import TYPE_CHECKING

import pytest

from run_journal import (
    EventName,
    ExpectedRun,
    FindingKind,
    Head,
    Journal,
    ProviderRequested,
    RedactionTripped,
    RunCompleted,
    RunRecovered,
    RunStarted,
    RunUndone,
    SessionRenamed,
    Severity,
    TripReason,
    id_of,
    name_of,
    verify,
)
from run_journal.lines import seal

if TYPE_CHECKING:
    from pathlib import Path
    from types import SimpleNamespace


@pytest.fixture
def runs(journal: Journal, ids: SimpleNamespace) -> list[ExpectedRun]:
    """Write two ended runs and return what a database would know of them."""
    expected = []
    for run_id in (ids.run, ids.other_run):
        about = {"session_id": ids.session, "run_id": run_id}
        journal.write(RunStarted(**about))
        head = journal.write(ProviderRequested(provider=name_of("p"), **about))
        expected.append(ExpectedRun(run_id=run_id, status="completed", head=head))
        journal.write(RunCompleted(**about))
    return expected


def test_a_whole_journal_that_agrees_with_its_runs_has_no_findings(
    journal: Journal, ids: SimpleNamespace, runs: list[ExpectedRun]
) -> None:
    """The control for all faults below."""
    report = journal.verify(ids.session, expected_runs=runs)
    assert report.findings == ()
    assert (report.ok, report.line_count, report.run_count) == (True, 6, 2)


def _remove(lines: list[bytes], at: int) -> None:
    del lines[at]


def _repeat(lines: list[bytes], at: int) -> None:
    lines.insert(at, lines[at])


def _swap(lines: list[bytes], at: int) -> None:
    other = at - 1 if at else 1
    lines[at], lines[other] = lines[other], lines[at]


def _change(lines: list[bytes], at: int) -> None:
    lines[at] = lines[at].replace(b'"phase":"', b'"phase":"x', 1)


def _rename_run(lines: list[bytes], at: int) -> None:
    lines[at] = lines[at].replace(b'"run_id":"019', b'"run_id":"029', 1)


def _cut_line(lines: list[bytes], at: int) -> None:
    lines[at] = lines[at][:-20]


def _cut_tail(lines: list[bytes], at: int) -> None:
    del lines[at:]


def _cut_inside(lines: list[bytes], at: int) -> None:
    lines[at] = lines[at][:50]
    del lines[at + 1 :]


def _garbage(lines: list[bytes], at: int) -> None:
    lines[at] = b"\x00\xff{}\n"


FAULTS = [
    _remove,
    _repeat,
    _swap,
    _change,
    _rename_run,
    _cut_line,
    _cut_tail,
    _cut_inside,
    _garbage,
]


@pytest.mark.parametrize("at", range(6))
@pytest.mark.parametrize("fault", FAULTS)
def test_every_fault_at_every_line_is_found(
    journal: Journal, ids: SimpleNamespace, runs: list[ExpectedRun], fault: object, at: int
) -> None:
    """Removed, repeated, swapped, changed, cut or replaced: it is said.

    A cut of the last line alone, or inside it, is what a kill leaves too: that is a warning.
    """
    path = journal.path_for(ids.session)
    lines = path.read_bytes().splitlines(keepends=True)
    assert callable(fault)
    fault(lines, at)
    path.write_bytes(b"".join(lines))
    report = journal.verify(ids.session, expected_runs=runs)
    assert {finding.severity for finding in report.findings} - {Severity.INFO}
    at_the_end = at == 5 and fault in {_remove, _cut_line, _cut_tail, _cut_inside}
    assert report.ok == at_the_end
    assert all(finding.hint and finding.object for finding in report.findings)


def test_a_number_left_out_is_found_although_the_chain_is_good(
    journal: Journal, ids: SimpleNamespace
) -> None:
    """Whoever makes a new chain must also number the lines without a gap."""
    path = journal.path_for(ids.session)
    journal.write(SessionRenamed(session_id=ids.session))
    first = path.read_bytes()
    body = first[first.index(b'"ts"') : -77]
    line, _ = seal(b"{" + body + b"}", after=Head(2, journal.verify(ids.session).head.chain))
    path.write_bytes(first + line)
    findings = journal.verify(ids.session).findings
    assert [finding.kind for finding in findings] == [FindingKind.SEQUENCE_BROKEN]


def test_any_changed_byte_is_found(
    journal: Journal, ids: SimpleNamespace, runs: list[ExpectedRun]
) -> None:
    """Sixty seeded single-byte changes, anywhere in the file."""
    path = journal.path_for(ids.session)
    whole = path.read_bytes()
    chance = random.Random(4)
    for _ in range(60):
        at = chance.randrange(len(whole))
        value = (whole[at] + chance.randrange(1, 256)) % 256
        path.write_bytes(whole[:at] + bytes([value]) + whole[at + 1 :])
        assert not journal.verify(ids.session, expected_runs=runs).ok


def test_a_cut_at_a_line_border_shows_only_against_a_head(
    journal: Journal, ids: SimpleNamespace, runs: list[ExpectedRun]
) -> None:
    """The file alone cannot know; the run's head, or a head the caller kept, can."""
    path = journal.path_for(ids.session)
    head = journal.verify(ids.session).head
    lines = path.read_bytes().splitlines(keepends=True)
    path.write_bytes(b"".join(lines[:5]))
    assert verify(path).ok
    assert [f.kind for f in verify(path, head=head).findings] == [FindingKind.HEAD_DIFFERS]
    assert [f.kind for f in verify(path, expected_runs=runs).findings] == [
        FindingKind.RUN_END_MISSING
    ]
    path.write_bytes(b"".join(lines[:4]))
    assert verify(path).ok
    assert [(f.severity, f.kind) for f in verify(path, expected_runs=runs).findings] == [
        (Severity.ERROR, FindingKind.HEAD_DIFFERS)
    ]


def test_a_rewritten_journal_with_a_good_chain_shows_against_the_heads(
    directory: Path, journal: Journal, ids: SimpleNamespace, runs: list[ExpectedRun]
) -> None:
    """Whoever makes a whole new chain cannot make the heads that the database keeps."""
    journal.path_for(ids.session).unlink()
    about = {"session_id": ids.session, "run_id": ids.run}
    with Journal(directory, workspace_id=ids.workspace) as forged:
        forged.write(RunStarted(**about))
        forged.write(RunCompleted(**about))
    report = journal.verify(ids.session, expected_runs=runs)
    assert {f.kind for f in report.findings} == {FindingKind.HEAD_DIFFERS}


def test_lines_of_no_run_may_stand_before_a_runs_last_line(
    journal: Journal, ids: SimpleNamespace
) -> None:
    """Another process renames the session, and a run is undone later: both are in order."""
    about = {"session_id": ids.session, "run_id": ids.run}
    head = journal.write(RunStarted(**about))
    journal.write(SessionRenamed(session_id=ids.session))
    journal.write(RunCompleted(**about))
    journal.write(RunUndone(**about))
    expected = [ExpectedRun(run_id=ids.run, status="completed", head=head)]
    assert journal.verify(ids.session, expected_runs=expected).findings == ()


def test_runs_that_only_one_side_knows_are_findings(
    journal: Journal, ids: SimpleNamespace, runs: list[ExpectedRun]
) -> None:
    """Ended here and pending there, unknown there, missing here; a counted loss only warns."""
    third = id_of("019b7d2e-0000-7000-8000-00000000000c")

    def kinds(*expected: ExpectedRun) -> list[tuple[Severity, FindingKind]]:
        found = journal.verify(ids.session, expected_runs=[runs[1], *expected]).findings
        return [(finding.severity, finding.kind) for finding in found]

    pending = ExpectedRun(run_id=ids.run, status="pending")
    assert kinds(pending) == [(Severity.ERROR, FindingKind.RUN_END_UNEXPECTED)]
    failed = ExpectedRun(run_id=ids.run, status="failed")
    assert kinds(failed) == [(Severity.ERROR, FindingKind.RUN_END_MISSING)]
    assert kinds() == [(Severity.ERROR, FindingKind.RUN_UNKNOWN)]
    missing = ExpectedRun(run_id=third, status="completed")
    assert kinds(runs[0], missing) == [(Severity.ERROR, FindingKind.RUN_END_MISSING)]
    lost = ExpectedRun(run_id=third, status="completed", lost_count=2)
    assert kinds(runs[0], lost) == [(Severity.WARNING, FindingKind.RUN_END_MISSING)]


def test_a_kill_between_the_commit_and_the_last_line_is_a_warning_that_says_so(
    journal: Journal, ids: SimpleNamespace, runs: list[ExpectedRun]
) -> None:
    """All else is in its place, and the session goes on: nobody is told of tampering."""
    third = id_of("019b7d2e-0000-7000-8000-00000000000c")
    head = journal.write(RunStarted(session_id=ids.session, run_id=third))
    runs.append(ExpectedRun(run_id=third, status="completed", head=head))
    for _ in range(2):
        report = journal.verify(ids.session, expected_runs=runs)
        (finding,) = report.findings
        assert report.ok
        assert (finding.severity, finding.kind, finding.object) == (
            Severity.WARNING,
            FindingKind.RUN_END_MISSING,
            third,
        )
        assert "its last line is missing" in finding.message
        assert "all its other lines are here" in finding.message
        assert "killed just after it saved the end" in finding.hint
        assert "removed the line" in finding.hint
        journal.write(SessionRenamed(session_id=ids.session))
    # Without the head before it, the same gap is no longer explained by a kill.
    path = journal.path_for(ids.session)
    path.write_bytes(b"".join(path.read_bytes().splitlines(keepends=True)[:6]))
    assert not journal.verify(ids.session, expected_runs=runs).ok


def test_an_end_that_was_lost_and_counted_is_a_warning_that_says_so(
    journal: Journal, ids: SimpleNamespace
) -> None:
    """The disk was full: the database knows how many lines it cost."""
    head = journal.write(RunStarted(session_id=ids.session, run_id=ids.run))
    expected = [ExpectedRun(run_id=ids.run, status="failed", head=head, lost_count=2)]
    report = journal.verify(ids.session, expected_runs=expected)
    (finding,) = report.findings
    assert report.ok
    assert "2 of its lines could not be written" in finding.message
    assert "the database" in finding.hint.lower()


def test_a_journal_under_another_sessions_name_is_found_without_a_database(
    journal: Journal, ids: SimpleNamespace, tmp_path: Path
) -> None:
    """Put in its place the file is whole and wrong; a copy with a name of its own is neither."""
    journal.write(SessionRenamed(session_id=ids.session))
    path = journal.path_for(ids.session)
    other = journal.path_for(ids.other_session)
    other.write_bytes(path.read_bytes())
    (finding,) = journal.verify(ids.other_session).findings
    assert (finding.severity, finding.kind) == (Severity.ERROR, FindingKind.OWNER_MIXED)
    assert "another session's" in finding.message
    workspace = journal.path_for(None)
    workspace.write_bytes(path.read_bytes())
    assert not journal.verify(None).ok
    copy = tmp_path / "for-support.jsonl"
    copy.write_bytes(path.read_bytes())
    assert verify(copy).findings == ()


def test_a_recovered_run_has_ended(journal: Journal, ids: SimpleNamespace) -> None:
    """`run.recovered` is the last line of a run whose process died."""
    about = {"session_id": ids.session, "run_id": ids.run}
    journal.write(RunStarted(**about))
    journal.write(RunRecovered(**about))
    expected = [ExpectedRun(run_id=ids.run, status="failed")]
    assert journal.verify(ids.session, expected_runs=expected).findings == ()


def test_a_stopped_event_is_shown_as_a_warning(journal: Journal, ids: SimpleNamespace) -> None:
    """Whoever verifies learns that a bug was caught."""
    journal.write(
        RedactionTripped(
            session_id=ids.session,
            tripped_event=EventName.TOOL_STARTED,
            reason=TripReason.KEY_SHAPE,
        )
    )
    report = journal.verify(ids.session)
    assert report.ok
    assert [finding.kind for finding in report.findings] == [FindingKind.EVENT_STOPPED]


def test_a_missing_file_is_a_finding_and_no_exception(
    journal: Journal, ids: SimpleNamespace
) -> None:
    """A deleted journal with known runs shows each of them."""
    report = journal.verify(
        ids.session,
        head=Head(3, "0" * 64),
        expected_runs=[ExpectedRun(run_id=ids.run, status="completed")],
    )
    assert [finding.kind for finding in report.findings] == [
        FindingKind.FILE_UNREADABLE,
        FindingKind.HEAD_DIFFERS,
        FindingKind.RUN_END_MISSING,
    ]
