"""Opening directories that were harmed: marker or record lost, read-only, not to be read."""

from __future__ import annotations

import shutil
from typing import TYPE_CHECKING

import pytest

from workspace_identity import MarkerDamaged, Verdict, open_workspace

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path


def marker_of(root: Path) -> Path:
    """Return the path of a workspace's marker."""
    return root / ".tinyagent" / "workspace-id"


@pytest.mark.parametrize(
    "damage",
    [
        lambda marker: marker.unlink(),
        lambda marker: shutil.rmtree(marker.parent),
        lambda marker: marker.write_bytes(b""),
        lambda marker: marker.write_bytes(b"33333333-3333-4333-8333-333333333333\n"),
    ],
    ids=["file-removed", "directory-removed", "emptied", "another-id"],
)
def test_a_lost_or_wrong_marker_is_healed_from_the_record(
    project: Path, damage: Callable[[Path], None]
) -> None:
    """Path and place are enough to know a workspace whose marker was harmed."""
    first = open_workspace(project)
    damage(marker_of(project))
    healed = open_workspace(project)
    assert (healed.id, healed.verdict, healed.row) == (first.id, Verdict.HEALED, 3)
    assert healed.notice is not None
    assert f"tinyagent workspace forget {first.id}" in healed.notice
    assert marker_of(project).read_text() == first.id + "\n"


def test_a_lost_record_is_taken_from_the_history(project: Path, tmp_path: Path) -> None:
    """A damaged record does not let a copy take the history of its original."""
    first = open_workspace(project)
    first.paths.record.write_bytes(b"{")
    copy = tmp_path / "copy"
    shutil.copytree(project, copy)
    assert open_workspace(copy).verdict is Verdict.COPIED
    assert open_workspace(project).id == first.id


def test_a_read_only_directory_keeps_its_identity_in_the_registry(
    project: Path, as_plain_user: None
) -> None:
    """Row 14: no marker, the same id while the place holds, and a marker once it is writable."""
    project.chmod(0o500)
    first = open_workspace(project)
    assert (first.verdict, first.row) == (Verdict.UNMARKED, 14)
    assert not marker_of(project).exists()
    second = open_workspace(project)
    assert (second.id, second.verdict) == (first.id, Verdict.UNMARKED)
    project.chmod(0o700)
    third = open_workspace(project)
    assert (third.id, third.verdict) == (first.id, Verdict.HEALED)
    assert marker_of(project).read_text() == first.id + "\n"


def test_a_read_only_copy_gets_an_id_of_its_own(
    project: Path, tmp_path: Path, as_plain_user: None
) -> None:
    """C22, row 14: the original's marker inside a read-only copy does not make it the original."""
    first = open_workspace(project)
    copy = tmp_path / "copy"
    shutil.copytree(project, copy)
    (copy / ".tinyagent").chmod(0o500)
    opened = open_workspace(copy)
    assert opened.verdict is Verdict.UNMARKED
    assert opened.id != first.id
    assert open_workspace(copy).id == opened.id


def test_an_unreadable_marker_without_a_record_is_a_typed_error(
    project: Path, state_home: Path, as_plain_user: None
) -> None:
    """What the marker claims is not thrown away because it cannot be read just now."""
    open_workspace(project, state_home=state_home.with_name("other"))
    marker_of(project).chmod(0)
    with pytest.raises(MarkerDamaged) as caught:
        open_workspace(project)
    assert caught.value.path == project
    assert caught.value.hint
