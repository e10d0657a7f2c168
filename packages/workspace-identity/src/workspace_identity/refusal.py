"""Refusing: row 1 of the decision table as typed errors that say what to do next.

A refusal writes nothing at all. Opening refuses whatever row 1 names; `relink` takes a marker that
merely cannot be read, because it writes another one.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from workspace_identity.errors import MarkerDamaged, UnsafeWorkspace
from workspace_identity.marker import MarkerState
from workspace_identity.notices import shown
from workspace_identity.state_home import STATE_HOME_VARIABLE
from workspace_identity.table import Verdict

if TYPE_CHECKING:
    from workspace_identity.decision import Decision, Evidence

_ANOTHER_DIRECTORY = (
    "Name a project directory with --workspace DIR (-w), "
    f"or keep state elsewhere with {STATE_HOME_VARIABLE}."
)
_ANOTHER_MARKER = (
    "Look at it, and remove it if it is not yours to keep; "
    "or name another directory with --workspace DIR (-w)."
)


def require_accepted(decision: Decision, evidence: Evidence) -> None:
    """Raise UnsafeWorkspace or MarkerDamaged if the decision is to refuse."""
    if decision.verdict is not Verdict.REFUSED:
        return
    require_safe(evidence)
    raise MarkerDamaged(
        f"Cannot read the marker of {shown(evidence.path)}: {evidence.marker.problem}.",
        hint="Make it readable for you, or remove it to start with an empty history.",
        path=Path(evidence.path),
        problem=evidence.marker.problem,
    )


def require_safe(evidence: Evidence) -> None:
    """Raise UnsafeWorkspace if the directory or its marker must not be used."""
    if evidence.hazard is not None:
        raise _unsafe(evidence, evidence.hazard, hint=_ANOTHER_DIRECTORY)
    if evidence.marker.state is MarkerState.UNSAFE:
        raise _unsafe(evidence, evidence.marker.problem, hint=_ANOTHER_MARKER)


def _unsafe(evidence: Evidence, hazard: str, *, hint: str) -> UnsafeWorkspace:
    return UnsafeWorkspace(
        f"Cannot use {shown(evidence.path)} as a workspace: {hazard}.",
        hint=hint,
        path=Path(evidence.path),
        hazard=hazard,
    )
