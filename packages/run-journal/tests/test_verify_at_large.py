"""Verification by numbers: 1,000 good journals and 200 spoiled ones with RUN_JOURNAL_LONG=1."""

from __future__ import annotations

import random
from collections import Counter
from typing import TYPE_CHECKING, Literal

import pytest

from histories import History, make_history
from run_journal import ExpectedRun, FindingKind, Journal, Severity, verify
from run_journal.lines import EMPTY, seal
from run_scale import FAULT_COUNT, GOOD_COUNT, SEED, tell

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path
    from types import SimpleNamespace

Runs = tuple[ExpectedRun, ...]
Chance = random.Random


@pytest.fixture
def journals(directory: Path, ids: SimpleNamespace) -> Iterator[list[Journal]]:
    """Return two journals of one directory, as two processes have."""
    made = [Journal(directory, workspace_id=ids.workspace) for _ in range(2)]
    yield made
    for journal in made:
        journal.close()


def test_good_journals_raise_no_alarm(journals: list[Journal]) -> None:
    """Sessions by chance: runs of all endings, two writers, lines of no run in between."""
    chance = Chance(SEED)
    line_count = 0
    for _ in range(GOOD_COUNT):
        history = make_history(journals, chance)
        report = verify(history.path, expected_runs=history.expected_runs)
        assert report.findings == (), report
        line_count += report.line_count
    assert line_count > 10 * GOOD_COUNT
    tell(f"{GOOD_COUNT} good journals, {line_count} lines, no finding")


def _remove(lines: list[bytes], chance: Chance) -> None:
    del lines[chance.randrange(len(lines) - 1)]


def _repeat(lines: list[bytes], chance: Chance) -> None:
    at = chance.randrange(len(lines))
    lines.insert(chance.randrange(len(lines)), lines[at])


def _swap(lines: list[bytes], chance: Chance) -> None:
    one, other = chance.sample(range(len(lines)), 2)
    lines[one], lines[other] = lines[other], lines[one]


def _change_a_byte(lines: list[bytes], chance: Chance) -> None:
    at = chance.randrange(len(lines))
    line = bytearray(lines[at])
    place = chance.randrange(len(line) - 1)
    line[place] = (line[place] + chance.randrange(1, 256)) % 256
    lines[at] = bytes(line)


def _change_a_fact(lines: list[bytes], chance: Chance) -> None:
    at = chance.randrange(len(lines))
    lines[at] = lines[at].replace(b'"duration_ms":null', b'"duration_ms":12', 1)


def _cut_lines_off(lines: list[bytes], chance: Chance) -> None:
    del lines[chance.randrange(1, len(lines)) :]


def _cut_inside_a_line(lines: list[bytes], chance: Chance) -> None:
    at = chance.randrange(len(lines))
    lines[at:] = [lines[at][: chance.randrange(1, len(lines[at]) - 1)]]


def _cut_the_beginning_off(lines: list[bytes], chance: Chance) -> None:
    del lines[: chance.randrange(1, len(lines))]


def _join_two_lines(lines: list[bytes], chance: Chance) -> None:
    at = chance.randrange(len(lines) - 1)
    lines[at] = lines[at][:-1]


def _put_garbage_in(lines: list[bytes], chance: Chance) -> None:
    garbage = bytes(chance.randrange(256) for _ in range(chance.randrange(1, 5000)))
    lines.insert(chance.randrange(len(lines)), garbage + b"\n")


def _zero_a_block(lines: list[bytes], chance: Chance) -> None:
    whole = b"".join(lines)
    start = chance.randrange(len(whole))
    lines[:] = [whole[:start] + bytes(len(whole[start : start + 512])) + whole[start + 512 :]]


def _forge(lines: list[bytes], chance: Chance) -> None:
    """Leave a line out and make seq and chain anew for all the others."""
    del lines[chance.randrange(len(lines) - 2)]
    head = EMPTY
    for at, line in enumerate(lines):
        body = b"{" + line[line.index(b'"ts"') : line.rindex(b',"chain"')] + b"}"
        lines[at], head = seal(body, after=head)


def _empty(lines: list[bytes], chance: Chance) -> None:
    del lines[:]


FAULTS: list[Callable[[list[bytes], Chance], None]] = [
    _remove,
    _repeat,
    _swap,
    _change_a_byte,
    _change_a_fact,
    _cut_lines_off,
    _cut_inside_a_line,
    _cut_the_beginning_off,
    _join_two_lines,
    _put_garbage_in,
    _zero_a_block,
    _forge,
    _empty,
]


def _another_ones_file(history: History, other: History) -> Runs:
    history.path.write_bytes(other.path.read_bytes())
    return history.expected_runs


def _run_unknown_to_the_database(history: History, other: History) -> Runs:
    return history.expected_runs[:-1]


def _run_unknown_to_the_journal(history: History, other: History) -> Runs:
    return (*history.expected_runs, other.expected_runs[-1])


def _run_still_pending(history: History, other: History) -> Runs:
    last = history.expected_runs[-1]
    return (*history.expected_runs[:-1], ExpectedRun(run_id=last.run_id, status="pending"))


def _run_ended_otherwise(history: History, other: History) -> Runs:
    last = history.expected_runs[-1]
    status: Literal["completed", "failed"]
    status = "failed" if last.status == "completed" else "completed"
    changed = ExpectedRun(run_id=last.run_id, status=status, head=last.head)
    return (*history.expected_runs[:-1], changed)


DISAGREEMENTS = [
    _another_ones_file,
    _run_unknown_to_the_database,
    _run_unknown_to_the_journal,
    _run_still_pending,
    _run_ended_otherwise,
]


def test_faults_are_found_and_put_into_words(journals: list[Journal]) -> None:
    """Eighteen kinds in turn: in the file up to the last run's end, or between it and the database.

    At least 99 % is the claim, all is what is found. An error or, for what a kill leaves as well,
    a warning; each names a line or a run and says what to do.
    """
    chance = Chance(SEED)
    found: Counter[str] = Counter()
    missed: list[str] = []
    for number in range(FAULT_COUNT):
        history, other = (make_history(journals, chance) for _ in range(2))
        kind = number % (len(FAULTS) + len(DISAGREEMENTS))
        if kind < len(FAULTS):
            fault = FAULTS[kind]
            lines = history.path.read_bytes().splitlines(keepends=True)[: history.last_end]
            fault(lines, chance)
            history.path.write_bytes(b"".join(lines))
            name, expected = fault.__name__, history.expected_runs
        else:
            disagree = DISAGREEMENTS[kind - len(FAULTS)]
            name, expected = disagree.__name__, disagree(history, other)
        findings = [
            finding
            for finding in verify(history.path, expected_runs=expected).findings
            if finding.severity is not Severity.INFO
        ]
        if not findings:
            missed.append(f"{name} ({number})")
        found[name] += bool(findings)
        for finding in findings:
            assert finding.object
            assert finding.message
            assert finding.hint.endswith((".", "?"))
        if all(finding.severity is Severity.WARNING for finding in findings):
            assert name in {"_cut_lines_off", "_cut_inside_a_line", "_zero_a_block"}
            assert {finding.kind for finding in findings} <= {
                FindingKind.TORN_TAIL,
                FindingKind.RUN_END_MISSING,
            }
    assert len(missed) <= FAULT_COUNT // 100, missed
    assert len(found) == len(FAULTS) + len(DISAGREEMENTS)
    assert missed == []
    tell(f"{FAULT_COUNT} faults of {len(found)} kinds, all found")
