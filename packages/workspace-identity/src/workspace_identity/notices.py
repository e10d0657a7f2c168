"""What people are told: one line that names the other path and the command that undoes it.

Pure text. Which rows have a notice says the decision table: a decision that is exactly what anybody
expects (known, new, moved with its place, copied beside its original) has none. Control characters
of a path never reach the line.
"""

from __future__ import annotations

import contextlib
from pathlib import Path
from typing import TYPE_CHECKING

from workspace_identity.decision import decide_as_writable
from workspace_identity.marker import MARKER_DIR, MARKER_NAME
from workspace_identity.table import TABLE, Verdict

if TYPE_CHECKING:
    from workspace_identity.decision import Decision, Evidence

_RELINK = "tinyagent workspace relink"
_FORGET = "tinyagent workspace forget"


def notice_for(decision: Decision, evidence: Evidence) -> str | None:
    """Return the notice of a decision, None if it needs none.

    A read-only directory gets, once, the notice that it would have got if it could be written.
    """
    if decision.verdict is Verdict.UNMARKED and decision.writes_record:
        decision = decide_as_writable(evidence)
    if not TABLE[decision.row].notice:
        return None
    here, there = shown(evidence.path), shown(decision.previous_path or "")
    kept, claimed = decision.workspace_id, evidence.marker.workspace_id
    match decision.verdict:
        case Verdict.HEALED:
            return (
                f"The marker of {here} was {_harm(evidence)}; it is workspace {kept}, as recorded. "
                f"If not: {_FORGET} {kept}"
            )
        case Verdict.FOREIGN:
            return (
                f"Git brought the marker of another machine to {here}, which got an id of its own. "
                f"To take that one: {_RELINK} {claimed}"
            )
        case Verdict.RESTORED:
            return (
                f"Another directory with the same marker stands at {there or here} now (restored, "
                f"cloned anew or synchronised) and goes on with the history. "
                f"If not: {_FORGET} {kept}"
            )
        case Verdict.MOVED:
            return (
                f"This workspace was at {there} and its history came along. "
                f"If it is a copy: {_FORGET} {kept}"
            )
        case _:
            return (
                f"The marker is that of {there}, which cannot be judged now "
                f"({shown(evidence.original_problem)}); this is taken for a copy and starts empty. "
                f"If it was moved: {_RELINK} {claimed}"
            )


def parent_hint(path: str) -> str | None:
    """Return the hint that a directory above *path* is a workspace too, None if none is."""
    parent = _parent_with_marker(path)
    if parent is None:
        return None
    return (
        f"This directory is a workspace of its own, and {shown(parent)} above it is another. "
        f"For that one: --workspace {shown(parent)}"
    )


def git_hint() -> str:
    """Return the hint that git would commit the marker."""
    return (
        f"Git would commit {MARKER_DIR}/{MARKER_NAME}, which means nothing on other machines: "
        f"add {MARKER_DIR}/ to .gitignore"
    )


def shown(path: str) -> str:
    """Return *path* so that it stays on one line and has no power over a terminal."""
    return "".join(
        letter if letter.isprintable() else letter.encode("unicode_escape").decode("ascii")
        for letter in path
    )


def _harm(evidence: Evidence) -> str:
    if evidence.marker.workspace_id is None:
        return str(evidence.marker.state)
    if evidence.claimed is None:
        return "that of a workspace that nobody here knows"
    return f"that of {shown(evidence.claimed.path)}"


def _parent_with_marker(path: str) -> str | None:
    for parent in Path(path).parents:
        with contextlib.suppress(OSError):  # a parent's marker may be another user's secret
            if (parent / MARKER_DIR / MARKER_NAME).is_file():
                return str(parent)
    return None
