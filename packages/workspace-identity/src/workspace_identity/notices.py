"""What people are told: one line that names the other path and the command that undoes it.

Pure text. A decision that is exactly what anybody expects (known, new, moved with its place, copied
beside its original) has no notice. Control characters of a path never reach the line.
"""

from __future__ import annotations

import contextlib
from pathlib import Path
from typing import TYPE_CHECKING

from workspace_identity.decision import COPIED_IN_DOUBT, MOVED_WITHOUT_ITS_PLACE, Verdict
from workspace_identity.marker import MARKER_DIR, MARKER_NAME

if TYPE_CHECKING:
    from workspace_identity.decision import Decision, Evidence
    from workspace_identity.marker import Marker

_RELINK = "tinyagent workspace relink"
_FORGET = "tinyagent workspace forget"


def notice_for(decision: Decision, evidence: Evidence) -> str | None:
    """Return the notice of a decision, None if it needs none."""
    there = shown(decision.previous_path or "")
    match decision.verdict:
        case Verdict.HEALED:
            return (
                f"the marker of {shown(evidence.path)} was missing, damaged or another's; it is "
                f"workspace {decision.workspace_id} as recorded. "
                f"If not: {_FORGET} {decision.workspace_id}"
            )
        case Verdict.FOREIGN:
            return (
                f"{shown(evidence.path)} came with a marker committed to git, from another "
                "machine; it has an id of its own. "
                f"To take that one: {_RELINK} {evidence.marker.workspace_id}"
            )
        case Verdict.RESTORED:
            return (
                f"{shown(evidence.path)} was replaced by another directory with the same marker "
                f"(a restore or a fresh clone) and keeps its history. "
                f"If not: {_FORGET} {decision.workspace_id}"
            )
        case Verdict.MOVED if decision.row == MOVED_WITHOUT_ITS_PLACE:
            return (
                f"this workspace was at {there} and its history came along. "
                f"If it is a copy: {_FORGET} {decision.workspace_id}"
            )
        case Verdict.COPIED if decision.row == COPIED_IN_DOUBT:
            return (
                f"the marker says {there}, which cannot be judged now "
                f"({evidence.original_problem}); taken as a copy with an empty history. "
                f"If it was moved: {_RELINK} {evidence.marker.workspace_id}"
            )
        case _:
            return None


def hints_for(path: str, *, is_unignored: bool) -> tuple[str, ...]:
    """Return what is worth saying once, when a workspace gets its id."""
    hints = []
    if is_unignored:
        hints.append(
            f"git would commit {MARKER_DIR}/{MARKER_NAME}; it means nothing on other machines: "
            f"add {MARKER_DIR}/ to .gitignore"
        )
    parent = _parent_with_marker(path)
    if parent is not None:
        hints.append(
            f"{shown(parent)} is a workspace too; this is another one. "
            f"For that one: --workspace {shown(parent)}"
        )
    return tuple(hints)


def marker_problem(marker: Marker) -> str:
    """Return what is wrong with a marker, never what it holds."""
    return marker.problem or f"it is {marker.state}"


def shown(path: str) -> str:
    """Return *path* so that it stays on one line and has no power over a terminal."""
    return "".join(
        letter if letter.isprintable() else letter.encode("unicode_escape").decode("ascii")
        for letter in path
    )


def _parent_with_marker(path: str) -> str | None:
    for parent in Path(path).parents:
        with contextlib.suppress(OSError):  # a parent's marker may be another user's secret
            if (parent / MARKER_DIR / MARKER_NAME).is_file():
                return str(parent)
    return None
