"""The decision: which workspace a directory is, as one pure function over evidence.

The law: moving keeps the id and the history; a copy whose original still exists gets a new id; two
directories that both exist never share one writable history; nothing here deletes history. The
rows are numbered as in the README's table, and the first that matches wins. This module reads no
file and knows no clock.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import StrEnum
from typing import TYPE_CHECKING

from workspace_identity.marker import Marker, MarkerState
from workspace_identity.place import Place, same_place

if TYPE_CHECKING:
    from workspace_identity.record import Record


COPIED_IN_DOUBT = 12
MOVED_WITHOUT_ITS_PLACE = 13


class Verdict(StrEnum):
    """What a directory turned out to be."""

    REFUSED = "refused"
    KNOWN = "known"
    HEALED = "healed"
    NEW = "new"
    FOREIGN = "foreign"
    ADOPTED = "adopted"
    MOVED = "moved"
    COPIED = "copied"
    RESTORED = "restored"
    UNMARKED = "unmarked"


class Original(StrEnum):
    """What stands today at the path that the record of the marker's id names."""

    THIS = "this"  # the very directory that is being opened, under another name
    RECORDED = "recorded"  # the recorded place
    CARRIES_MARKER = "carries_marker"  # another place with the same id in its marker
    ANOTHER = "another"  # another project
    GONE = "gone"
    UNKNOWN = "unknown"  # it cannot be judged now


@dataclass(frozen=True, slots=True, kw_only=True)
class Evidence:
    """All that the decision may rest on. What an earlier row made needless stays at its default.

    `record_here` is a record with this path and this place, `claimed` the record of the marker's
    id; `original` and `original_place` say what is found at the path of `claimed`.
    """

    path: str
    place: Place
    marker: Marker
    hazard: str | None = None
    record_here: Record | None = None
    claimed: Record | None = None
    original: Original | None = None
    original_place: Place | None = None
    original_problem: str = ""
    tracked: bool = False
    writable: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class Decision:
    """A verdict and what follows from it.

    `workspace_id` is None where a new one has to be made. `row` is the row of the decision table.
    `writes_marker` and `writes_record` say what has to be written; `known` writes nothing.
    """

    row: int
    verdict: Verdict
    reason: str
    workspace_id: str | None = None
    previous_path: str | None = None
    writes_marker: bool = False
    writes_record: bool = True

    @property
    def writes_nothing(self) -> bool:
        """Whether the decision is in force already."""
        return not self.writes_marker and not self.writes_record


def decide(evidence: Evidence) -> Decision:
    """Decide what the directory is. Total: every evidence has exactly one decision."""
    decision = _by_identity(evidence)
    if decision.writes_marker and not evidence.writable:
        return _unmarked(evidence, decision)
    return decision


def _by_identity(evidence: Evidence) -> Decision:
    marker, here = evidence.marker, evidence.record_here
    if evidence.hazard is not None:
        return _refused(1, evidence.hazard)
    if marker.state is MarkerState.UNSAFE:
        return _refused(1, marker.problem)
    if here is not None and marker.workspace_id == here.workspace_id:
        return _known(2, here, "path, place and marker are those of the record")
    if here is not None:
        return Decision(
            row=3,
            verdict=Verdict.HEALED,
            workspace_id=here.workspace_id,
            reason=f"path and place are those of the record, the marker is {_state(marker)}",
            writes_marker=True,
        )
    if marker.state is MarkerState.UNREADABLE:
        return _refused(4, marker.problem)
    if marker.workspace_id is None:
        return _new(4, Verdict.NEW, f"the marker is {marker.state} and no record has this place")
    if evidence.claimed is not None:
        return _by_claim(evidence, marker.workspace_id, evidence.claimed)
    if evidence.tracked:
        return _new(5, Verdict.FOREIGN, "the marker is tracked by git and no record has its id")
    return Decision(
        row=6,
        verdict=Verdict.ADOPTED,
        workspace_id=marker.workspace_id,
        reason="the marker is valid and no record has its id",
    )


def _by_claim(evidence: Evidence, workspace_id: str, claimed: Record) -> Decision:
    original, there = evidence.original, claimed.path
    elsewhere = evidence.path != there
    if elsewhere and same_place(evidence.place, claimed.place):
        if original is Original.THIS:
            return _known(7, claimed, "the recorded path leads to this very directory")
        if not _loses_the_tie(evidence, claimed):
            return _kept(8, Verdict.MOVED, workspace_id, "the recorded place has this path", there)
    if not elsewhere or original is Original.THIS:
        return _kept(11, Verdict.RESTORED, workspace_id, "the recorded path is another place now")
    match original:
        case Original.RECORDED:
            return _new(9, Verdict.COPIED, "the recorded path still is the recorded place", there)
        case Original.CARRIES_MARKER:
            return _new(10, Verdict.COPIED, "the recorded path carries the same marker", there)
        case Original.GONE:
            return _moved(workspace_id, "the recorded path is gone", there)
        case Original.ANOTHER:
            return _moved(workspace_id, "the recorded path is another project", there)
        case _:
            reason = f"the recorded path cannot be judged: {evidence.original_problem}"
            return _new(COPIED_IN_DOUBT, Verdict.COPIED, reason, there)


def _loses_the_tie(evidence: Evidence, claimed: Record) -> bool:
    """Say whether two live directories look like the recorded place and the other one is it.

    A snapshot of a filesystem repeats inodes and birth times; only the device tells them apart.
    """
    if evidence.original is not Original.RECORDED or evidence.original_place is None:
        return False
    is_this = evidence.place.device == claimed.place.device
    is_that = evidence.original_place.device == claimed.place.device
    return is_that or not is_this


def _unmarked(evidence: Evidence, decision: Decision) -> Decision:
    here = evidence.record_here
    if here is None:
        return replace(
            decision,
            row=14,
            verdict=Verdict.UNMARKED,
            reason=f"{decision.reason}; the directory is read-only",
            writes_marker=False,
        )
    return Decision(
        row=14,
        verdict=Verdict.UNMARKED,
        workspace_id=here.workspace_id,
        reason="path and place are those of the record, the directory is read-only",
        writes_record=here.marked,
    )


def _state(marker: Marker) -> str:
    return "another workspace's" if marker.state is MarkerState.VALID else marker.state.value


def _refused(row: int, reason: str) -> Decision:
    return Decision(row=row, verdict=Verdict.REFUSED, reason=reason, writes_record=False)


def _known(row: int, record: Record, reason: str) -> Decision:
    return Decision(
        row=row,
        verdict=Verdict.KNOWN,
        workspace_id=record.workspace_id,
        reason=reason,
        writes_record=False,
    )


def _new(row: int, verdict: Verdict, reason: str, previous_path: str | None = None) -> Decision:
    return Decision(
        row=row,
        verdict=verdict,
        reason=reason,
        previous_path=previous_path,
        writes_marker=True,
    )


def _moved(workspace_id: str, reason: str, previous_path: str) -> Decision:
    return _kept(MOVED_WITHOUT_ITS_PLACE, Verdict.MOVED, workspace_id, reason, previous_path)


def _kept(
    row: int, verdict: Verdict, workspace_id: str, reason: str, previous_path: str | None = None
) -> Decision:
    return Decision(
        row=row,
        verdict=verdict,
        workspace_id=workspace_id,
        reason=reason,
        previous_path=previous_path,
    )
