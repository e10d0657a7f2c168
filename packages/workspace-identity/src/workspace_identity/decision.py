"""The decision: which workspace a directory is, as one pure function over evidence.

The law: moving keeps the id and the history; a copy whose original still exists gets a new id; two
directories that both exist never share one writable history; nothing here deletes history. Which
row applies is found here, the first that matches wins; what follows from it says `table`. This
module reads no file and knows no clock.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import StrEnum
from typing import TYPE_CHECKING

from workspace_identity.marker import Marker, MarkerState
from workspace_identity.place import Place, same_place
from workspace_identity.table import TABLE, Verdict

if TYPE_CHECKING:
    from workspace_identity.record import Record


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

    `record_here` is a record with this path, however it is spelt, and this place; `claimed` is the
    record of the marker's id. `original` and `original_place` say what is found at the path of
    `claimed`. `record_lost` is True where the record itself could not be used and the registry's
    history stands in for it.
    """

    path: str
    place: Place
    marker: Marker
    hazard: str | None = None
    record_here: Record | None = None
    claimed: Record | None = None
    record_lost: bool = False
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
    decision = decide_as_writable(evidence)
    if decision.writes_marker and not evidence.writable:
        return _unmarked(evidence, decision)
    return decision


def decide_as_writable(evidence: Evidence) -> Decision:
    """Decide as if a marker could be written, that is by the rows above the last."""
    marker, here = evidence.marker, evidence.record_here
    if evidence.hazard is not None:
        return _row(1, evidence.hazard)
    if marker.state is MarkerState.UNSAFE:
        return _row(1, marker.problem)
    if here is not None and marker.workspace_id == here.workspace_id:
        return _row(2, "path, place and marker are those of the record", here.workspace_id)
    if here is not None:
        reason = f"path and place are those of the record, the marker is {_state(marker)}"
        return _row(3, reason, here.workspace_id)
    if marker.state is MarkerState.UNREADABLE:
        return _row(1, marker.problem)
    if marker.workspace_id is None:
        return _row(4, f"the marker is {marker.state} and no record has this place")
    if evidence.claimed is not None:
        return _by_claim(evidence, marker.workspace_id, evidence.claimed)
    if evidence.tracked:
        return _row(5, "the marker is tracked by git and no record has its id")
    return _row(6, "the marker is valid and no record has its id", marker.workspace_id)


def _by_claim(evidence: Evidence, workspace_id: str, claimed: Record) -> Decision:
    original, there = evidence.original, claimed.path
    elsewhere = evidence.path != there
    if elsewhere and same_place(evidence.place, claimed.place):
        if original is Original.THIS:
            return _row(7, "the recorded path leads to this very directory", workspace_id)
        if not _loses_the_tie(evidence, claimed):
            return _row(8, "the recorded place has this path", workspace_id, there)
    if not elsewhere or original is Original.THIS:
        former = there if elsewhere else None
        return _row(11, "the recorded path is another place now", workspace_id, former)
    match original:
        case Original.RECORDED:
            return _row(9, "the recorded path still is the recorded place", None, there)
        case Original.CARRIES_MARKER:
            return _row(10, "the recorded path carries the same marker", None, there)
        case Original.GONE:
            return _row(13, "the recorded path is gone", workspace_id, there)
        case Original.ANOTHER:
            return _row(13, "the recorded path is another project", workspace_id, there)
        case _:
            reason = f"the recorded path cannot be judged: {evidence.original_problem}"
            return _row(12, reason, None, there)


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
        reason = f"{decision.reason}; the directory is read-only"
        return _row(14, reason, None, decision.previous_path)
    reason = "path and place are those of the record, the directory is read-only"
    # Once the record says that there is no marker, nothing is left to write.
    return replace(_row(14, reason, here.workspace_id), writes_record=here.marked)


def _state(marker: Marker) -> str:
    return "another workspace's" if marker.state is MarkerState.VALID else marker.state.value


def _row(
    number: int,
    reason: str,
    workspace_id: str | None = None,
    previous_path: str | None = None,
) -> Decision:
    row = TABLE[number]
    return Decision(
        row=number,
        verdict=row.verdict,
        reason=reason,
        workspace_id=workspace_id,
        previous_path=previous_path,
        writes_marker=row.writes_marker,
        writes_record=row.writes_record,
    )
