"""The registry: listing, undoing decisions, damaged records, the history of decisions."""

from __future__ import annotations

import json
import shutil
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import TYPE_CHECKING

import pytest

from workspace_identity import (
    StateHomeUnusable,
    UnknownWorkspace,
    UnsafeWorkspace,
    Verdict,
    forget,
    list_workspaces,
    open_workspace,
    relink,
)

if TYPE_CHECKING:
    from pathlib import Path

START = datetime(2026, 1, 1, tzinfo=UTC)


def actions(state_home: Path) -> list[str]:
    """Return the actions of the history, oldest first."""
    lines = (state_home / "registry.jsonl").read_text().splitlines()
    return [json.loads(line)["action"] for line in lines]


def test_workspaces_are_listed_the_last_seen_first(tmp_path: Path) -> None:
    """The order is that of use, whatever the order of making."""
    for day, name in enumerate(["a", "b", "c"]):
        (tmp_path / name).mkdir()
        open_workspace(tmp_path / name, clock=partial(START.__add__, timedelta(days=day)))
    open_workspace(tmp_path / "a", clock=lambda: START + timedelta(days=9))
    listed = list_workspaces()
    assert [record.path.name for record in listed if record.path] == ["a", "c", "b"]
    assert listed[0].created_at == START
    assert [record.problem for record in listed] == [None] * 3


def test_an_empty_registry_lists_nothing_and_is_not_created(state_home: Path) -> None:
    """Reading makes no state home."""
    assert list_workspaces() == []
    assert not state_home.exists()


DAMAGE = {
    "empty": b"",
    "half": b'{"format": 1, "workspace_id"',
    "list": b"[]",
    "no-format": b"{}",
    "newer": b'{"format": 2}',
    "other-id": b'{"format": 1, "workspace_id": "x"}',
    "deep": b"[" * 30000,
    "not-utf8": b"\xff\xfe\x00",
}

# A whole record with one wrong field.
NONSENSE = {
    "no-path": {"path": None},
    "relative-path": {"path": "project"},
    "nul-in-path": {"path": "/a\0b"},
    "path-that-is-no-text": {"path": "/\ud800"},
    "time-of-another-zone": {"created_at": "2026-01-01T00:00:00.000000+05:00"},
    "time-out-of-range": {"last_seen_at": "9999-12-31T23:59:59.000000-23:59"},
    "time-cut-short": {"last_seen_at": "2026-01-01"},
    "no-place": {"place": {"device": 1, "inode": "2", "birth_ns": None}},
}


@pytest.mark.parametrize("content", DAMAGE.values(), ids=DAMAGE.keys())
def test_a_damaged_record_is_listed_as_damaged(project: Path, content: bytes) -> None:
    """Its history is still there, so it is neither skipped nor fatal."""
    opened = open_workspace(project)
    opened.paths.record.write_bytes(content)
    (listed,) = list_workspaces()
    assert (listed.id, listed.path) == (opened.id, None)
    assert listed.problem
    assert opened.id not in listed.problem


@pytest.mark.parametrize("fields", NONSENSE.values(), ids=NONSENSE.keys())
def test_a_record_with_a_wrong_field_is_not_half_believed(
    project: Path, fields: dict[str, object]
) -> None:
    """It is damaged as a whole: the history stands in, and the record is written anew."""
    opened = open_workspace(project)
    whole = json.loads(opened.paths.record.read_bytes())
    opened.paths.record.write_text(json.dumps(whole | fields))
    assert list_workspaces()[0].problem
    again = open_workspace(project)
    assert (again.id, again.verdict) == (opened.id, Verdict.KNOWN)
    assert list_workspaces()[0].path == project


@pytest.mark.parametrize("line", [b"[" * 30000, b'{"v": 1', b"\xff", b"7", b""])
def test_a_line_of_the_history_that_is_no_decision_is_passed_over(
    project: Path, state_home: Path, line: bytes
) -> None:
    """Whatever stands there, the line that stands in for the lost record is found."""
    opened = open_workspace(project)
    history = state_home / "registry.jsonl"
    history.write_bytes(line + b"\n" + history.read_bytes() + line + b"\n")
    opened.paths.record.write_bytes(b"{}")
    again = open_workspace(project)
    assert (again.id, again.verdict) == (opened.id, Verdict.KNOWN)


@pytest.mark.parametrize("year", [1, 999, 1970, 9999])
def test_a_clock_that_is_far_off_costs_no_record(project: Path, year: int) -> None:
    """The time is for people: neither moving nor opening depends on it, before or after."""
    first = open_workspace(project, clock=lambda: datetime(year, 1, 2, tzinfo=UTC))
    assert open_workspace(project).verdict is Verdict.KNOWN
    moved = open_workspace(
        project.rename(project.with_name("moved")), clock=lambda: datetime(year, 1, 1, tzinfo=UTC)
    )
    assert (moved.id, moved.verdict) == (first.id, Verdict.MOVED)
    assert [record.problem for record in list_workspaces()] == [None]


def test_a_record_of_a_newer_version_is_never_overwritten(project: Path) -> None:
    """An old program must not decide what it does not understand."""
    opened = open_workspace(project)
    opened.paths.record.write_bytes(b'{"format": 2}')
    with pytest.raises(StateHomeUnusable, match="format 2"):
        open_workspace(project)
    assert opened.paths.record.read_bytes() == b'{"format": 2}'


def test_forgetting_gives_the_directory_a_new_id_and_keeps_the_history(
    project: Path, state_home: Path
) -> None:
    """What the registry took for one workspace becomes another; `relink` still finds the first."""
    first = open_workspace(project)
    first.paths.database.write_bytes(b"history")
    gone = forget(first.id)
    assert (gone.id, gone.path) == (first.id, project)
    second = open_workspace(project)
    assert (second.verdict, second.id == first.id) == (Verdict.NEW, False)
    assert first.paths.database.read_bytes() == b"history"
    assert {record.id for record in list_workspaces()} == {first.id, second.id}
    back = relink(first.id, project)
    assert (back.id, back.paths) == (first.id, first.paths)
    again = open_workspace(project)
    assert (again.id, again.verdict) == (first.id, Verdict.KNOWN)
    assert actions(state_home) == ["new", "forgotten", "new", "relinked", "forgotten"]


def test_forgetting_works_where_the_marker_cannot_be_removed(
    project: Path, as_plain_user: None
) -> None:
    """A read-only directory keeps its marker, and all the same begins anew; `relink` undoes it."""
    first = open_workspace(project)
    (project / ".tinyagent").chmod(0o500)
    forget(first.id)
    assert (project / ".tinyagent" / "workspace-id").read_text() == first.id + "\n"
    second = open_workspace(project)
    assert (second.verdict, second.id == first.id) == (Verdict.UNMARKED, False)
    assert open_workspace(project).id == second.id
    assert relink(first.id, project).id == first.id
    assert open_workspace(project).id == first.id


def test_a_forgotten_directory_begins_anew_wherever_it_is(project: Path, tmp_path: Path) -> None:
    """It was moved and not opened, so `forget` did not find its marker: the place tells it."""
    first = open_workspace(project)
    project.rename(tmp_path / "moved")
    forget(first.id)
    opened = open_workspace(tmp_path / "moved")
    assert (opened.verdict, opened.id == first.id) == (Verdict.NEW, False)
    assert relink(first.id, tmp_path / "moved").id == first.id
    assert open_workspace(tmp_path / "moved").id == first.id


def test_a_forgotten_workspace_that_comes_back_elsewhere_is_adopted(
    project: Path, tmp_path: Path
) -> None:
    """C21: the copy was forgotten, the true original turns up: its history is still there."""
    first = open_workspace(project)
    first.paths.database.write_bytes(b"history")
    project.rename(tmp_path / "moved")
    shutil.copytree(tmp_path / "moved", tmp_path / "copy")
    assert open_workspace(tmp_path / "copy").id == first.id
    forget(first.id)
    opened = open_workspace(tmp_path / "moved")
    assert (opened.id, opened.verdict) == (first.id, Verdict.ADOPTED)
    assert opened.paths.database.read_bytes() == b"history"
    assert open_workspace(tmp_path / "copy").id != first.id


def test_forgetting_undoes_a_move_that_was_a_copy(project: Path, tmp_path: Path) -> None:
    """C22: after `forget` the directory starts anew, as the notice of row 13 promises."""
    first = open_workspace(project)
    shutil.copytree(project, tmp_path / "copy")
    shutil.rmtree(project)
    assert open_workspace(tmp_path / "copy").id == first.id
    forget(first.id)
    assert open_workspace(tmp_path / "copy").id != first.id


def test_forgetting_leaves_a_directory_alone_that_is_another_one_now(
    project: Path, tmp_path: Path
) -> None:
    """Only the recorded place loses its marker."""
    first = open_workspace(project)
    project.rename(tmp_path / "moved")
    shutil.copytree(tmp_path / "moved", project)
    forget(first.id)
    assert (project / ".tinyagent" / "workspace-id").exists()


def test_relinking_undoes_a_copy_that_was_a_move(project: Path, tmp_path: Path) -> None:
    """C21: the moved directory gets its history back; the id it had meanwhile loses it."""
    first = open_workspace(project)
    copy = tmp_path / "copy"
    shutil.copytree(project, copy)
    second = open_workspace(copy)
    linked = relink(first.id, copy)
    assert (linked.id, linked.previous_path) == (first.id, project)
    assert open_workspace(copy).id == first.id
    assert open_workspace(project).verdict is Verdict.COPIED
    (left,) = [record for record in list_workspaces() if record.id == second.id]
    assert (left.path, left.problem) == (None, "it has no record")


@pytest.mark.parametrize(
    "workspace_id",
    ["11111111-1111-4111-8111-111111111111", "../..", "", "x\ny", "{}", "\udcff"],
)
def test_an_id_that_nobody_has_is_a_typed_error(project: Path, workspace_id: str) -> None:
    """It is checked before it becomes part of any path."""
    open_workspace(project)
    for attempt in (lambda: forget(workspace_id), lambda: relink(workspace_id, project)):
        with pytest.raises(UnknownWorkspace) as caught:
            attempt()
        assert isinstance(caught.value, LookupError)
        assert "\n" not in str(caught.value)


def test_relinking_refuses_what_opening_refuses(project: Path, state_home: Path) -> None:
    """A person cannot make the state home a workspace either."""
    first = open_workspace(project)
    with pytest.raises(UnsafeWorkspace):
        relink(first.id, state_home)


def test_relinking_says_of_an_unsafe_marker_what_opening_says(
    project: Path, tmp_path: Path
) -> None:
    """The hint is about the marker, not about the directory."""
    first = open_workspace(project)
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / ".tinyagent").symlink_to(project / ".tinyagent")
    told = []
    for attempt in (partial(open_workspace), partial(relink, first.id)):
        with pytest.raises(UnsafeWorkspace) as caught:
            attempt(tmp_path / "other")
        told.append((str(caught.value), caught.value.hint))
    assert told[0] == told[1]
    assert "remove it" in told[0][1]


def test_a_cut_line_of_the_history_damages_no_other(project: Path, state_home: Path) -> None:
    """After a crash in the middle of a line the next one starts on its own."""
    open_workspace(project)
    with (state_home / "registry.jsonl").open("ab") as history:
        history.write(b'{"v": 1, "ts": "20')
    project.rename(project.with_name("moved"))
    open_workspace(project.with_name("moved"))
    lines = (state_home / "registry.jsonl").read_bytes().splitlines()
    assert len(lines) == 3
    assert json.loads(lines[-1])["action"] == "moved"


def test_the_history_says_from_where_to_where_and_why(project: Path, state_home: Path) -> None:
    """C21: a move is audited with both paths, the verdict and the evidence."""
    first = open_workspace(project, clock=lambda: START)
    project.rename(project.with_name("moved"))
    open_workspace(project.with_name("moved"), clock=lambda: START)
    line = json.loads((state_home / "registry.jsonl").read_text().splitlines()[-1])
    assert line["ts"] == "2026-01-01T00:00:00.000000Z"
    assert line["workspace_id"] == line["marker_id"] == first.id
    assert (line["previous_path"], line["path"]) == (
        str(project),
        str(project.with_name("moved")),
    )
    assert line["reason"].startswith("row 8: ")
    evidence = line["evidence"]
    assert evidence.pop("recorded_place") == line["place"]
    assert evidence == {
        "marker": "valid",
        "recorded_path": str(project),
        "original": "gone",
        "original_place": None,
        "tracked": False,
        "writable": True,
    }
