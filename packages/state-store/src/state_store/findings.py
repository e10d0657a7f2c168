"""What looking a whole database over, or saving what a damaged one holds, has found.

Owns the records that `check` and `salvage` return. Invariant: they name paths, tables and ids and
never content, so that they can be shown, logged and sent to others. The names of kinds and reasons
are stable and closed: programs may compare them. How it looks for people is the caller's.
"""

from __future__ import annotations

from collections.abc import Mapping  # noqa: TC003 - record types resolve at run time
from dataclasses import dataclass
from typing import Literal

Severity = Literal["error", "warning", "notice"]
FindingKind = Literal[
    "damaged",  # SQLite cannot read it, or its pages and indexes contradict one another
    "foreign_key",  # a row names another one that is not there
    "version",  # the schema, or the table that records its version, is not what the header says
    "value",  # a column holds what this package cannot have written
    "counter",  # a session's totals are not what its rows add up to
    "status",  # a session's status is not what its runs say
    "gap",  # numbers are missing in the order of a session's messages
    "run",  # a run and its messages contradict each other
    "tool",  # a tool execution and its messages contradict each other
    "covers",  # a summary stands for what cannot be
    "undone",  # what was undone, and when, contradicts itself
    "branch",  # what a session says it was forked from cannot be
    "orphan",  # a row of a session that a tombstone says is gone
    "returned",  # a session that a tombstone says is gone
    "log_size",  # the write-ahead log has grown large
    "leftover",  # a temporary file that nobody may need any more
]
RefusalReason = Literal[
    "broken",  # it cannot be read to its end
    "impossible",  # it holds what this package cannot have written
    "duplicate",  # its key was read already: with the same content, or better placed
    "contradicting",  # it belongs to one session and its run to another, or its place is impossible
    "deleted",  # a tombstone says that its session is gone
    "orphan",  # the run or session that it belongs to is lost
]


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """One thing that is wrong, or worth knowing.

    `object` is a path, a table, or what kind of row it is and its id. In a session that was saved
    from a damaged database, what the damage took is a warning and no error.
    """

    severity: Severity
    kind: FindingKind
    object: str
    message: str
    hint: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """All findings of one check, the file itself first. `ok`: none of them is an error."""

    ok: bool
    findings: tuple[Finding, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class TableSalvage:
    """What became of the rows of one table.

    `found` + `rebuilt` = `saved` + all that were `refused`. `found` counts each copy of a row.
    `mended` rows are among the saved ones: a time or a setting that could not be read is unknown
    in them, everything else is as it was stored.
    """

    table: str
    found: int
    saved: int
    rebuilt: int
    mended: int
    refused: Mapping[RefusalReason, int]


@dataclass(frozen=True, slots=True, kw_only=True)
class SalvageReport:
    """What was saved from the database at `path` into the new one at `into`.

    `incomplete` are the ids of the sessions of which something is known to be missing or was
    rebuilt, in order of id; the others are as they were stored. `damaged_page_count` of
    `page_count` pages cannot be read, are missing, or are not what has to be in their place.
    `log_damaged`: the write-ahead log goes on behind the last commit that could be read, as after
    a power loss or when it is damaged itself.
    """

    path: str
    into: str
    version: int
    tables: tuple[TableSalvage, ...]
    session_count: int
    incomplete: tuple[str, ...]
    page_count: int
    damaged_page_count: int
    log_damaged: bool
