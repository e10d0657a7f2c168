"""The decision table as pure tests: every row, the order of the rows, and the laws behind them."""

from __future__ import annotations

import re
from dataclasses import replace
from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from workspace_identity import Evidence, Marker, MarkerState, Original, Place, Verdict, decide
from workspace_identity.notices import notice_for
from workspace_identity.record import Record
from workspace_identity.table import TABLE as ROWS
from workspace_identity.table import HistoryFate, MarkerFate

ID = "11111111-1111-4111-8111-111111111111"
OTHER_ID = "22222222-2222-4222-9222-222222222222"
HERE, THERE = "/w/here", "/w/there"
PLACE = Place(device=1, inode=10, birth_ns=100)
ELSEWHERE = Place(device=1, inode=11, birth_ns=200)
NOW = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)
VALID = Marker(state=MarkerState.VALID, workspace_id=ID)
ABSENT = Marker(state=MarkerState.ABSENT)
DAMAGED = Marker(state=MarkerState.DAMAGED, problem="it does not hold one workspace id")
UNREADABLE = Marker(state=MarkerState.UNREADABLE, problem="Permission denied")
UNSAFE = Marker(state=MarkerState.UNSAFE, problem="it is a symbolic link")


def record(path: str, place: Place, workspace_id: str = ID, *, marked: bool = True) -> Record:
    """Return a record of the registry."""
    return Record(
        workspace_id=workspace_id,
        path=path,
        place=place,
        marked=marked,
        created_at=NOW,
        last_seen_at=NOW,
    )


def found(marker: Marker = VALID, **facts: object) -> Evidence:
    """Return evidence about HERE at PLACE."""
    return replace(Evidence(path=HERE, place=PLACE, marker=marker), **facts)  # type: ignore[arg-type]  # the table below names real fields


CLAIM_HERE = record(HERE, ELSEWHERE)
CLAIM_THERE = record(THERE, ELSEWHERE)
CLAIM_SAME_PLACE = record(THERE, PLACE)
OWN = record(HERE, PLACE)
OWN_OTHER = record(HERE, PLACE, OTHER_ID)

TABLE = [
    ("root", found(hazard="it is the root"), 1, Verdict.REFUSED, None),
    ("unsafe-marker", found(UNSAFE), 1, Verdict.REFUSED, None),
    ("unsafe-with-record", found(UNSAFE, record_here=OWN), 1, Verdict.REFUSED, None),
    ("known", found(claimed=OWN, record_here=OWN), 2, Verdict.KNOWN, ID),
    ("no-marker", found(ABSENT, record_here=OWN), 3, Verdict.HEALED, ID),
    ("damaged-marker", found(DAMAGED, record_here=OWN), 3, Verdict.HEALED, ID),
    ("unreadable-marker", found(UNREADABLE, record_here=OWN), 3, Verdict.HEALED, ID),
    ("other-marker", found(record_here=OWN_OTHER), 3, Verdict.HEALED, OTHER_ID),
    (
        "other-marker-with-live-original",
        found(record_here=OWN_OTHER, claimed=CLAIM_THERE, original=Original.RECORDED),
        3,
        Verdict.HEALED,
        OTHER_ID,
    ),
    ("new", found(ABSENT), 4, Verdict.NEW, None),
    ("new-damaged", found(DAMAGED), 4, Verdict.NEW, None),
    ("unreadable-and-unknown", found(UNREADABLE), 1, Verdict.REFUSED, None),
    ("foreign", found(tracked=True), 5, Verdict.FOREIGN, None),
    ("adopted", found(), 6, Verdict.ADOPTED, ID),
    (
        "alias",
        found(claimed=CLAIM_SAME_PLACE, original=Original.THIS),
        7,
        Verdict.KNOWN,
        ID,
    ),
    ("moved", found(claimed=CLAIM_SAME_PLACE, original=Original.GONE), 8, Verdict.MOVED, ID),
    (
        "moved-old-path-reused",
        found(claimed=CLAIM_SAME_PLACE, original=Original.ANOTHER),
        8,
        Verdict.MOVED,
        ID,
    ),
    (
        "moved-with-its-unmounted-disk",
        found(claimed=CLAIM_SAME_PLACE, original=Original.UNKNOWN),
        8,
        Verdict.MOVED,
        ID,
    ),
    (
        "snapshot-of-the-original",
        found(
            claimed=replace(CLAIM_SAME_PLACE, place=replace(PLACE, device=2)),
            original=Original.RECORDED,
            original_place=replace(PLACE, device=2),
        ),
        9,
        Verdict.COPIED,
        None,
    ),
    (
        "original-beside-a-snapshot",
        found(
            claimed=CLAIM_SAME_PLACE,
            original=Original.RECORDED,
            original_place=replace(PLACE, device=2),
        ),
        8,
        Verdict.MOVED,
        ID,
    ),
    ("copied", found(claimed=CLAIM_THERE, original=Original.RECORDED), 9, Verdict.COPIED, None),
    (
        "copied-original-restored",
        found(claimed=CLAIM_THERE, original=Original.CARRIES_MARKER),
        10,
        Verdict.COPIED,
        None,
    ),
    ("restored", found(claimed=CLAIM_HERE), 11, Verdict.RESTORED, ID),
    (
        "restored-seen-through-an-alias",
        found(claimed=CLAIM_THERE, original=Original.THIS),
        11,
        Verdict.RESTORED,
        ID,
    ),
    ("in-doubt", found(claimed=CLAIM_THERE, original=Original.UNKNOWN), 12, Verdict.COPIED, None),
    ("gone", found(claimed=CLAIM_THERE, original=Original.GONE), 13, Verdict.MOVED, ID),
    ("reused", found(claimed=CLAIM_THERE, original=Original.ANOTHER), 13, Verdict.MOVED, ID),
    ("read-only-new", found(ABSENT, writable=False), 14, Verdict.UNMARKED, None),
    ("read-only-foreign", found(tracked=True, writable=False), 14, Verdict.UNMARKED, None),
    (
        "read-only-copy",
        found(claimed=CLAIM_THERE, original=Original.RECORDED, writable=False),
        14,
        Verdict.UNMARKED,
        None,
    ),
    (
        "read-only-again",
        found(ABSENT, record_here=replace(OWN, marked=False), writable=False),
        14,
        Verdict.UNMARKED,
        ID,
    ),
    ("read-only-known", found(record_here=OWN, writable=False), 2, Verdict.KNOWN, ID),
    (
        "read-only-moved",
        found(claimed=CLAIM_SAME_PLACE, original=Original.GONE, writable=False),
        8,
        Verdict.MOVED,
        ID,
    ),
]


@pytest.mark.parametrize(
    ("evidence", "row", "verdict", "workspace_id"),
    [row[1:] for row in TABLE],
    ids=[row[0] for row in TABLE],
)
def test_every_row_of_the_table_decides_as_written(
    evidence: Evidence, row: int, verdict: Verdict, workspace_id: str | None
) -> None:
    """Each kind of evidence meets its row, its verdict and the id that is kept (None: a new one).

    Covers the decisions of C21 (moved), C22 (copied) and C24 (one directory, two spellings).
    """
    decision = decide(evidence)
    assert (decision.row, decision.verdict, decision.workspace_id) == (row, verdict, workspace_id)


def test_the_table_covers_all_fourteen_rows() -> None:
    """No row of the decision is without a test."""
    assert {row[2] for row in TABLE} == set(range(1, 15))


@pytest.mark.parametrize("evidence", [row[1] for row in TABLE], ids=[row[0] for row in TABLE])
def test_only_known_and_settled_verdicts_write_nothing(evidence: Evidence) -> None:
    """Whatever changes or makes an identity is recorded; what is in force already is not."""
    decision = decide(evidence)
    settled = decision.verdict in (Verdict.KNOWN, Verdict.REFUSED)
    still_unmarked = decision.row == 14 and decision.workspace_id is not None
    assert decision.writes_nothing == (settled or still_unmarked)


markers = st.sampled_from([VALID, ABSENT, DAMAGED, UNREADABLE, UNSAFE])
places = st.sampled_from(
    [
        PLACE,
        ELSEWHERE,
        replace(PLACE, device=2),
        replace(PLACE, birth_ns=None),
        replace(PLACE, birth_ns=999),
    ]
)
claims = st.builds(record, st.sampled_from([HERE, THERE]), places)


@st.composite
def all_evidence(draw: st.DrawFn) -> Evidence:
    """Return any evidence, sensible or not."""
    return Evidence(
        path=HERE,
        place=draw(places),
        marker=draw(markers),
        hazard=draw(st.sampled_from([None, "it is the state home"])),
        record_here=draw(st.sampled_from([None, OWN, OWN_OTHER, replace(OWN, marked=False)])),
        claimed=draw(st.none() | claims),
        original=draw(st.none() | st.sampled_from(Original)),
        original_place=draw(st.none() | places),
        tracked=draw(st.booleans()),
        writable=draw(st.booleans()),
    )


@given(all_evidence())
def test_every_evidence_has_one_decision_and_a_reason(evidence: Evidence) -> None:
    """The function is total, and no decision contradicts itself."""
    decision = decide(evidence)
    assert decision == decide(evidence)
    assert decision.reason
    assert 1 <= decision.row <= 14
    if decision.writes_marker:
        assert evidence.writable
        assert decision.writes_record
    if decision.verdict is Verdict.REFUSED:
        assert decision.writes_nothing
        assert decision.workspace_id is None


@given(all_evidence())
def test_what_follows_from_a_decision_is_what_its_row_says(evidence: Evidence) -> None:
    """Verdict, marker and history come out as the documented table has them."""
    decision = decide(evidence)
    row = ROWS[decision.row]
    assert decision.verdict is row.verdict
    assert decision.writes_marker == row.writes_marker
    keeps_id = decision.workspace_id is not None
    match row.history:
        case HistoryFate.KEPT | HistoryFate.MOVED:
            assert keeps_id
        case HistoryFate.CLOSED | HistoryFate.BESIDE:
            assert not keeps_id
        case HistoryFate.EMPTY:
            assert keeps_id == (row.marker is MarkerFate.KEPT)
        case HistoryFate.WHILE_IN_PLACE:
            assert keeps_id == (evidence.record_here is not None)


@pytest.mark.parametrize("evidence", [row[1] for row in TABLE], ids=[row[0] for row in TABLE])
def test_people_are_told_in_one_line_where_the_table_says_so(evidence: Evidence) -> None:
    """A notice starts a sentence, and ends with the command that undoes the decision."""
    decision = decide(evidence)
    if decision.verdict is Verdict.REFUSED:
        return
    notice = notice_for(decision, evidence)
    would_be = decide(replace(evidence, writable=True)) if decision.writes_record else decision
    assert (notice is not None) == ROWS[would_be.row].notice
    if notice is not None:
        assert notice[0].isupper()
        assert notice.isprintable()
        assert re.search(r": tinyagent workspace (relink|forget) [0-9a-f-]{36}$", notice)
        assert (decision.previous_path or HERE) in notice


def test_the_notice_of_a_wrong_marker_says_whose_it_is() -> None:
    """Row 3: after an `rsync` from another workspace people see where the marker came from."""
    evidence = found(record_here=OWN_OTHER, claimed=CLAIM_THERE, original=Original.RECORDED)
    notice = notice_for(decide(evidence), evidence)
    assert notice is not None
    assert f"was that of {THERE};" in notice


@given(all_evidence())
def test_a_directory_beside_its_living_original_never_keeps_its_id(evidence: Evidence) -> None:
    """C22: the claim of a marker is not enough while another directory still is that workspace."""
    evidence = replace(evidence, record_here=None, original=Original.RECORDED)
    if evidence.claimed is None or evidence.claimed.path == HERE:
        return
    decision = decide(evidence)
    if decision.workspace_id is not None:
        assert decision.row == 8, "only the recorded place itself, found under another name, may"
