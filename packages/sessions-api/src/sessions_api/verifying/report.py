"""What verifying finds: the records, and how findings of the store and the journal become them.

Invariant: a finding names ids, files and places, and never what was said. `kind` is a stable name
that programs may compare.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from collections.abc import Iterable

    import run_journal
    import state_store

Severity = Literal["error", "warning", "notice"]
_SEVERITIES: dict[str, Severity] = {"info": "notice", "warning": "warning", "error": "error"}
# What can be done about rows that contradict one another; the store says what, and not how.
_KEEP = (
    "What was said is there to be read and exported. Keep a copy of the database; if a good backup"
    " has this session whole, restore that: tinyagent store backups"
)
_LOOK = "Nothing has to be done; look at it with: tinyagent sessions show"


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """One thing that is wrong or worth knowing, and what to do about it.

    "error": something was lost, changed or made up. "warning": something is not as it should be,
    and a killed process or a history from elsewhere explains it. "notice": nothing is wrong.
    """

    severity: Severity
    kind: str
    object: str
    message: str
    hint: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """All that verifying has found: the database first, then each session. `ok`: no error."""

    ok: bool
    findings: tuple[Finding, ...]

    @classmethod
    def of(cls, findings: Iterable[Finding]) -> Report:
        """Return the report that *findings* make."""
        found = tuple(findings)
        return cls(ok=all(one.severity != "error" for one in found), findings=found)


def of_store(found: state_store.Finding) -> Finding:
    """Return what the store found."""
    return Finding(
        severity=found.severity,
        kind=found.kind,
        object=found.object,
        message=found.message,
        hint=found.hint or (_KEEP if found.severity == "error" else _LOOK),
    )


def of_journal(found: run_journal.Finding) -> Finding:
    """Return what checking a journal found."""
    return Finding(
        severity=_SEVERITIES[found.severity.value],
        kind=found.kind.value,
        object=found.object,
        message=found.message,
        hint=found.hint,
    )
