"""What a check has found, as lines for people."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from sessions_api.showing import figures
from sessions_api.showing.terminal_text import one_line

if TYPE_CHECKING:
    from collections.abc import Sequence


class Found(Protocol):
    """A finding of the store or of the SDK."""

    @property
    def severity(self) -> str:
        """Return "error", "warning" or "notice"."""

    @property
    def object(self) -> str:
        """Return what it is about."""

    @property
    def message(self) -> str:
        """Return what is wrong."""


def line(finding: Found) -> str:
    """Return one line that says how bad it is, where, and what."""
    return f"{finding.severity:<7}  {one_line(finding.object)}: {one_line(finding.message)}"


def verdict(findings: Sequence[Found]) -> str:
    """Return how many findings there are of each severity, or that there are none."""
    if not findings:
        return "Nothing is wrong."
    counts = [
        figures.count(number, severity)
        for severity in ("error", "warning", "notice")
        if (number := sum(one.severity == severity for one in findings))
    ]
    return f"Found: {', '.join(counts)}"
