"""Writing a marker: exactly one creator, never through a link, never half of one."""

from __future__ import annotations

import errno
import os
import uuid
from typing import TYPE_CHECKING

import pytest

from workspace_identity import (
    UnsafeWorkspace,
    Verdict,
    WorkspaceMissing,
    list_workspaces,
    open_workspace,
)
from workspace_identity.directory import Directory
from workspace_identity.marker import read_marker, write_marker

if TYPE_CHECKING:
    from pathlib import Path

ID = "11111111-1111-4111-8111-111111111111"


def test_a_filesystem_without_hard_links_gets_its_marker_by_renaming(
    project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """FAT and some network mounts: still whole or not at all, and never over another's."""

    def refuse(*_: object, **__: object) -> None:
        raise OSError(errno.EPERM, os.strerror(errno.EPERM))

    monkeypatch.setattr(os, "link", refuse)
    with Directory.open(project) as root:
        write_marker(root, ID, replace=False)
        with pytest.raises(FileExistsError):
            write_marker(root, str(uuid.uuid4()), replace=False)
        assert read_marker(root).workspace_id == ID
    assert [path.name for path in (project / ".tinyagent").iterdir()] == ["workspace-id"]


def test_a_link_swapped_in_after_the_look_is_replaced_and_not_followed(
    project: Path, tmp_path: Path
) -> None:
    """Between reading and writing somebody makes the marker a link: its target stays as it is."""
    target = tmp_path / "precious"
    target.write_text("precious")

    def swap() -> str:
        (project / ".tinyagent").mkdir()
        (project / ".tinyagent" / "workspace-id").symlink_to(target)
        return ID

    with pytest.raises(UnsafeWorkspace):
        open_workspace(project, new_id=swap)
    assert target.read_text() == "precious"


def test_a_link_swapped_in_for_the_directory_is_not_followed(project: Path, tmp_path: Path) -> None:
    """The same with `.tinyagent` itself: it is seen, and nothing is written where it leads."""
    (tmp_path / "elsewhere").mkdir()

    def swap() -> str:
        (project / ".tinyagent").symlink_to(tmp_path / "elsewhere")
        return ID

    with pytest.raises(UnsafeWorkspace):
        open_workspace(project, new_id=swap)
    assert list((tmp_path / "elsewhere").iterdir()) == []
    assert list_workspaces() == []


def test_a_directory_that_vanishes_while_it_is_decided_about_is_missing(project: Path) -> None:
    """It is not taken for a read-only one, and no record of it is left behind."""

    def vanish() -> str:
        project.rmdir()
        return ID

    with pytest.raises(WorkspaceMissing):
        open_workspace(project, new_id=vanish)
    assert list_workspaces() == []


def test_a_marker_directory_that_vanishes_while_it_is_written_is_made_again(
    project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`git clean` in the same moment: the workspace is writable, so it is not `unmarked`."""
    publish = Directory.publish
    vanished: list[str] = []

    def vanish_first(self: Directory, name: str, content: bytes, *, replace: bool) -> None:
        if name == "workspace-id" and not vanished:
            vanished.append(name)
            (project / ".tinyagent").rmdir()
        publish(self, name, content, replace=replace)

    monkeypatch.setattr(Directory, "publish", vanish_first)
    opened = open_workspace(project)
    assert vanished
    assert (opened.verdict, open_workspace(project).verdict) == (Verdict.NEW, Verdict.KNOWN)


def test_a_marker_is_created_by_exactly_one_writer(project: Path) -> None:
    """Creation fails when there is one already, and leaves no temporary file behind."""
    with Directory.open(project) as root:
        write_marker(root, ID, replace=False)
        with pytest.raises(FileExistsError):
            write_marker(root, ID.replace("1", "2").replace("-2222-8", "-4222-8"), replace=False)
        assert read_marker(root).workspace_id == ID
    assert [path.name for path in (project / ".tinyagent").iterdir()] == ["workspace-id"]
