"""What the checks find, as records.

Invariant: a finding names paths, ids and counts, never content or a key; `hint` is what to do next,
a command wherever there is one, and every finding that is not fine has one.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Severity = Literal["ok", "info", "warning", "error"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """One thing that was looked at. "ok": it is fine; "info": worth knowing, nothing is wrong.

    "warning": it works and may not for long, or something was lost that is not the conversation;
    "error": conversations cannot be saved, read, or trusted, or the model cannot be asked. `kind`
    is stable.
    """

    severity: Severity
    kind: str
    object: str
    message: str
    hint: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Health:
    """All findings in the order of the checks, and the errors that some of them stand for."""

    findings: tuple[Finding, ...]
    errors: tuple[Exception, ...]

    @property
    def ok(self) -> bool:
        """Whether no finding is an error."""
        return all(one.severity != "error" for one in self.findings)
