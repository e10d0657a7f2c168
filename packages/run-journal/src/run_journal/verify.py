"""Checking a journal file: is it whole and unchanged, and does it agree with the runs.

Owns the findings. Invariant: it reads only; every fault is reported once, where it shows first,
and checking goes on behind it. The file alone proves that nothing inside it was removed,
changed, repeated or reordered; that its end was not cut off shows only against what the database
keeps of each run: the head before the run's last line. An error is what no crash leaves behind; a
warning is what a crash leaves, so somebody who knows of none has reason to ask.

Must not: repair, or trust a line's content further than its chain.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum
from typing import TYPE_CHECKING, Literal

from run_journal.errors import JournalMissing, JournalUnavailable
from run_journal.file_names import file_name_of, is_file_name
from run_journal.lines import EMPTY, Head, chain_of
from run_journal.reader import Damage, DamageKind, Entry, read
from run_journal.vocabulary import EventName

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

_LAST_EVENTS = {
    "completed": frozenset({EventName.RUN_COMPLETED}),
    "failed": frozenset({EventName.RUN_FAILED, EventName.RUN_RECOVERED}),
}
_TERMINAL = frozenset().union(*_LAST_EVENTS.values())
# These tell of a run after its end, so they are no part of it.
_AFTERWARDS = frozenset({EventName.RUN_UNDONE, EventName.RUN_REDONE})


class Severity(StrEnum):
    """How much a finding matters. Only `error` makes a report not ok.

    `info`: nothing is wrong. `warning`: a killed process explains it, and nothing else in the file
    speaks against that. `error`: lines were lost, changed or made up.
    """

    INFO = "info"
    WARNING = "warning"
    ERROR = "error"


class FindingKind(StrEnum):
    """What a finding is about."""

    FILE_UNREADABLE = "file_unreadable"
    LINE_DAMAGED = "line_damaged"
    FORMAT_NEWER = "format_newer"
    TORN_TAIL = "torn_tail"
    SEQUENCE_BROKEN = "sequence_broken"
    CHAIN_BROKEN = "chain_broken"
    OWNER_MIXED = "owner_mixed"
    HEAD_DIFFERS = "head_differs"
    RUN_END_MISSING = "run_end_missing"
    RUN_END_UNEXPECTED = "run_end_unexpected"
    RUN_UNKNOWN = "run_unknown"
    TAIL_SET_ASIDE = "tail_set_aside"
    EVENT_STOPPED = "event_stopped"


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """One thing that is wrong or worth knowing. `object` is the file and line, or the run."""

    severity: Severity
    kind: FindingKind
    object: str
    message: str
    hint: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ExpectedRun:
    """What the database says of a run whose journal is checked.

    `head` is where the file stood before the run's last line; None if that is not known.
    `lost_count` is how many lines of it could not be written; then a gap is only a warning.
    """

    run_id: str
    status: Literal["pending", "completed", "failed"]
    head: Head | None = None
    lost_count: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """What a check found, in file order, runs last. `head` is the last good line's."""

    path: Path
    line_count: int
    run_count: int
    head: Head
    findings: tuple[Finding, ...]

    @property
    def ok(self) -> bool:
        """Whether no finding is an error."""
        return all(finding.severity is not Severity.ERROR for finding in self.findings)


def verify(
    path: Path,
    *,
    head: Head | None = None,
    expected_runs: Iterable[ExpectedRun] | None = None,
) -> Report:
    """Check the journal file *path* and return everything that was found.

    *head* is a place that the file must have gone through. With *expected_runs* (all runs of the
    session, none means no check) each ended run must have its last line right after its head,
    save lines that belong to no run, and every run in the file must be known. Raises nothing for
    a file that is missing or damaged: that is a finding.
    """
    check = _Check(path)
    try:
        for item in read(path):
            check.take(item)
    except (JournalMissing, JournalUnavailable, OSError) as error:
        check.unreadable(error)
    if head is not None:
        check.passed_through(head)
    if expected_runs is not None:
        check.compare(tuple(expected_runs))
    return Report(
        path=path,
        line_count=check.line_count,
        run_count=len(check.runs),
        head=check.last,
        findings=tuple(check.findings),
    )


@dataclass(slots=True)
class _RunLines:
    """The lines of one run: the seq of each, and those that say it ended."""

    seqs: list[int] = field(default_factory=list)
    ends: list[tuple[int, str]] = field(default_factory=list)


class _Check:
    """One pass over a file and what it remembers."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.findings: list[Finding] = []
        self.line_count = 0
        self.last = EMPTY
        self.runs: dict[str, _RunLines] = {}
        self._owner: tuple[str | None, str | None] | None = None
        self._chains = {EMPTY.seq: EMPTY.chain}

    def take(self, item: Entry | Damage) -> None:
        """Check the next stretch of the file."""
        if isinstance(item, Damage):
            self._damage(item)
            return
        self.line_count += 1
        where = f"{self.path.name}:{item.seq}"
        if item.seq != self.last.seq + 1:
            self._find(
                FindingKind.SEQUENCE_BROKEN,
                where,
                f"line {item.seq} follows line {self.last.seq}: lines are missing, repeated "
                "or out of order",
            )
        if item.chain != chain_of(item.line, previous=self.last.chain):
            self._find(
                FindingKind.CHAIN_BROKEN,
                where,
                f"the chain of line {item.seq} does not fit: this line or what stood before it "
                "was changed",
            )
        owner = (item.workspace_id, item.session_id)
        if self._owner is None:
            self._owner = owner
            self._fits_its_name(item, where)
        elif owner != self._owner:
            self._find(
                FindingKind.OWNER_MIXED,
                where,
                f"line {item.seq} belongs to another session or workspace than the first line",
            )
        self.last = item.head
        self._chains[item.seq] = item.chain
        self._remember(item, where)

    def _fits_its_name(self, first: Entry, where: str) -> None:
        name = self.path.name
        if is_file_name(name) and name != file_name_of(first.session_id):
            self._find(
                FindingKind.OWNER_MIXED,
                where,
                "the file has the name of another session's journal",
                hint="It was renamed or put in another's place: look for both.",
            )

    def unreadable(self, error: Exception) -> None:
        """Report that the file cannot be read, or not to its end."""
        self._find(
            FindingKind.FILE_UNREADABLE,
            self.path.name,
            str(error),
            hint="The database is the truth: the conversation itself is not affected.",
        )

    def passed_through(self, head: Head) -> bool:
        """Check that the file once ended exactly at *head*; return whether it did."""
        if self._chains.get(head.seq) == head.chain:
            return True
        self._find(
            FindingKind.HEAD_DIFFERS,
            f"{self.path.name}:{head.seq}",
            f"line {head.seq} is missing or is not the one that was recorded",
        )
        return False

    def compare(self, expected_runs: tuple[ExpectedRun, ...]) -> None:
        """Check the runs in the file against those of the database."""
        for run in expected_runs:
            self._compare_run(run, self.runs.get(run.run_id, _RunLines()))
        known = {run.run_id for run in expected_runs}
        for run_id in self.runs:
            if run_id not in known:
                self._find(
                    FindingKind.RUN_UNKNOWN,
                    run_id,
                    "the journal tells of this run, the database does not know it",
                    hint="Was the database restored from an older backup?",
                )

    def _compare_run(self, run: ExpectedRun, lines: _RunLines) -> None:
        if run.status == "pending":
            if lines.ends:
                self._find(
                    FindingKind.RUN_END_UNEXPECTED,
                    run.run_id,
                    "the journal says that this run ended, the database that it is pending",
                    hint="Was the database restored from an older backup? If not, treat this "
                    "journal as tampered with.",
                )
            return
        if run.head is not None and not self.passed_through(run.head):
            return
        after = [seq for seq in lines.seqs if run.head is None or seq > run.head.seq]
        fitting = [seq for seq, event in lines.ends if event in _LAST_EVENTS[run.status]]
        if not fitting or (run.head is not None and fitting[-1] not in after):
            self._end_missing(run, is_rest_there=run.head is not None and not after)
        elif len(lines.ends) > 1 or (run.head is not None and after != fitting):
            self._find(
                FindingKind.RUN_END_UNEXPECTED,
                run.run_id,
                "the run has more lines at its end than the database expects",
            )

    def _end_missing(self, run: ExpectedRun, *, is_rest_there: bool) -> None:
        """Report an end that is missing; with the rest in place a kill can have kept it away."""
        said = f"the run is {run.status} in the database, its last line is missing here"
        if run.lost_count:
            self._find(
                FindingKind.RUN_END_MISSING,
                run.run_id,
                f"{said}; {run.lost_count} of its lines could not be written",
                severity=Severity.WARNING,
                hint="The database counted them when they were lost (disk full, no permission): "
                "how the run ended is to be seen there.",
            )
        elif is_rest_there:
            self._find(
                FindingKind.RUN_END_MISSING,
                run.run_id,
                f"{said}; all its other lines are here and unchanged",
                severity=Severity.WARNING,
                hint="A process that was killed just after it saved the end leaves this. If none "
                "was, somebody removed the line. The database says how the run ended.",
            )
        else:
            self._find(FindingKind.RUN_END_MISSING, run.run_id, said)

    def _damage(self, damage: Damage) -> None:
        where = f"{self.path.name}@{damage.offset}"
        if damage.kind is DamageKind.TORN_TAIL:
            self._find(
                FindingKind.TORN_TAIL,
                where,
                f"the last {damage.byte_count} bytes are a torn line",
                severity=Severity.WARNING,
                hint="A process that was killed while it wrote leaves this. The next event sets "
                "them aside; nothing else is needed.",
            )
        elif damage.kind is DamageKind.NEWER_FORMAT:
            self._find(
                FindingKind.FORMAT_NEWER,
                where,
                "this line has a newer format and could not be checked",
                hint="Upgrade run-journal and check again.",
            )
        else:
            self._find(
                FindingKind.LINE_DAMAGED,
                where,
                f"{damage.byte_count} bytes are no journal line ({damage.kind})",
            )

    def _remember(self, entry: Entry, where: str) -> None:
        if entry.event == EventName.JOURNAL_REPAIRED:
            self._find(
                FindingKind.TAIL_SET_ASIDE,
                where,
                "a torn line was set aside here after a process died",
                severity=Severity.INFO,
                hint="Nothing is needed.",
            )
        elif entry.event == EventName.REDACTION_TRIPPED:
            self._find(
                FindingKind.EVENT_STOPPED,
                where,
                "an event was stopped because a secret showed in it",
                severity=Severity.WARNING,
                hint="This is a bug in the program that wrote it: report it.",
            )
        if entry.run_id is None or entry.event in _AFTERWARDS:
            return
        run = self.runs.setdefault(entry.run_id, _RunLines())
        run.seqs.append(entry.seq)
        if entry.event in _TERMINAL:
            run.ends.append((entry.seq, entry.event))

    def _find(
        self,
        kind: FindingKind,
        where: str,
        message: str,
        *,
        severity: Severity = Severity.ERROR,
        hint: str = "Treat this journal as tampered with or damaged; keep a copy as evidence.",
    ) -> None:
        self.findings.append(
            Finding(severity=severity, kind=kind, object=where, message=message, hint=hint)
        )
