"""Hostile and damaged markers: read within bounds, never through links, judged by one pattern."""

from __future__ import annotations

import os
import socket
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from workspace_identity import (
    MarkerState,
    UnsafeWorkspace,
    Verdict,
    is_workspace_id,
    open_workspace,
)
from workspace_identity.directory import Directory
from workspace_identity.marker import parse_marker, read_marker, write_marker

if TYPE_CHECKING:
    import uuid
    from collections.abc import Callable
    from pathlib import Path

ID = "11111111-1111-4111-8111-111111111111"

NEAR_IDS = {
    "nil": "00000000-0000-0000-0000-000000000000",
    "version-1": "11111111-1111-1111-8111-111111111111",
    "version-7": "11111111-1111-7111-8111-111111111111",
    "variant-c": "11111111-1111-4111-c111-111111111111",
    "upper-case": "AAAAAAAA-1111-4111-8111-111111111111",
    "braces": "{" + ID + "}",
    "urn": "urn:uuid:" + ID,
    "no-hyphens": ID.replace("-", ""),
    "hyphens-elsewhere": "1111-11111111-4111-8111-111111111111",
    "underscores": ID.replace("-", "_"),
    "plus-sign": "+" + ID[1:],
    "full-width-digits": ID.replace("1", "\uff11"),
    "space-before": " " + ID,
    "space-after": ID + " ",
    "tab-after": ID + "\t",
    "two-newlines": ID + "\n\n",
    "newline-before": "\n" + ID,
    "carriage-return-alone": ID + "\r",
    "two-carriage-returns": ID + "\r\r\n",
    "two-ids": ID + "\n" + ID,
    "nul-after": ID + "\0",
    "byte-order-mark": "\ufeff" + ID,
    "path": "../../../../etc/aaaa-4aaa-8aaa-aaaaaaaaaaaa",
    "short": ID[:-1],
    "long": ID + "1",
    "empty": "",
    "newline": "\n",
}


@pytest.mark.parametrize("text", NEAR_IDS.values(), ids=NEAR_IDS.keys())
def test_what_merely_looks_like_an_id_is_damaged(text: str) -> None:
    """Near-UUIDs that `uuid.UUID` or a lenient reader would take are no ids here."""
    assert parse_marker(text.encode()).state is MarkerState.DAMAGED
    assert not is_workspace_id(text)


@pytest.mark.parametrize("ending", [b"", b"\n", b"\r\n"], ids=["none", "lf", "crlf"])
def test_one_line_ending_is_allowed(ending: bytes) -> None:
    """An editor or a Windows checkout may add or change the newline."""
    marker = parse_marker(ID.encode() + ending)
    assert (marker.state, marker.workspace_id) == (MarkerState.VALID, ID)


@given(st.uuids(version=4))
def test_every_version_4_uuid_is_an_id(value: uuid.UUID) -> None:
    """What `uuid4` makes is always accepted, in its canonical text alone."""
    assert is_workspace_id(str(value))
    assert not is_workspace_id(str(value) + "\n")


@given(st.text(max_size=80) | st.binary(max_size=80))
def test_whatever_a_marker_holds_is_judged_without_an_error(content: str | bytes) -> None:
    """Reading is total, and an id it returns is one by the strict pattern."""
    raw = content if isinstance(content, bytes) else content.encode("utf-8", "surrogatepass")
    marker = parse_marker(raw)
    assert (marker.workspace_id is not None) == (marker.state is MarkerState.VALID)
    if isinstance(content, str):
        assert not is_workspace_id(content) or marker.workspace_id == content


def test_a_huge_marker_is_damaged_and_not_read(project: Path) -> None:
    """A sparse file of 1 GB costs 65 bytes of reading and is replaced."""
    (project / ".tinyagent").mkdir()
    with (project / ".tinyagent" / "workspace-id").open("wb") as huge:
        huge.write(ID.encode() + b"\n")
        huge.truncate(1 << 30)
    opened = open_workspace(project)
    assert opened.verdict is Verdict.NEW
    assert opened.evidence.marker.state is MarkerState.DAMAGED
    assert (project / ".tinyagent" / "workspace-id").stat().st_size == 37


def look(top: Path) -> dict[Path, tuple[int, int, int]]:
    """Return inode, mode and change time of everything under *top*."""
    found = {path: path.lstat() for path in top.rglob("*")}
    return {path: (at.st_ino, at.st_mode, at.st_ctime_ns) for path, at in found.items()}


def _fifo(project: Path) -> None:
    (project / ".tinyagent").mkdir()
    os.mkfifo(project / ".tinyagent" / "workspace-id")


def _socket(project: Path) -> None:
    (project / ".tinyagent").mkdir()
    bound = socket.socket(socket.AF_UNIX)
    os.chdir(project / ".tinyagent")  # a socket's path is short, that of `tmp_path` is not
    bound.bind("workspace-id")
    os.chdir("/")
    bound.close()


def _symlinked_marker(project: Path) -> None:
    (project / ".tinyagent").mkdir()
    (project.parent / "elsewhere").write_text(ID + "\n")
    (project / ".tinyagent" / "workspace-id").symlink_to(project.parent / "elsewhere")


def _dangling_marker(project: Path) -> None:
    (project / ".tinyagent").mkdir()
    (project / ".tinyagent" / "workspace-id").symlink_to(project.parent / "nowhere")


def _symlinked_directory(project: Path) -> None:
    (project.parent / "elsewhere").mkdir()
    (project.parent / "elsewhere" / "workspace-id").write_text(ID + "\n")
    (project / ".tinyagent").symlink_to(project.parent / "elsewhere")


def _file_for_directory(project: Path) -> None:
    (project / ".tinyagent").write_text("")


def _directory_for_file(project: Path) -> None:
    (project / ".tinyagent" / "workspace-id").mkdir(parents=True)


@pytest.mark.parametrize(
    "prepare",
    [
        _fifo,
        _socket,
        _symlinked_marker,
        _dangling_marker,
        _symlinked_directory,
        _file_for_directory,
        _directory_for_file,
    ],
)
@pytest.mark.timeout(10)
def test_a_marker_that_is_no_plain_file_is_refused_untouched(
    project: Path,
    state_home: Path,
    prepare: Callable[[Path], None],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Links, FIFOs and the like are neither followed, nor waited for, nor replaced."""
    monkeypatch.chdir(project)
    prepare(project)
    before = look(project.parent)
    with pytest.raises(UnsafeWorkspace) as caught:
        open_workspace(project)
    assert ".tinyagent" in caught.value.hazard
    assert look(project.parent) == before
    assert not state_home.exists()


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a file to another user")
@pytest.mark.parametrize("name", [".tinyagent", ".tinyagent/workspace-id"])
def test_a_marker_of_another_user_is_refused(project: Path, name: str) -> None:
    """Somebody else must not choose which history this user writes to."""
    open_workspace(project)
    os.chown(project / name, 12345, 12345)
    with pytest.raises(UnsafeWorkspace, match="another user"):
        open_workspace(project)


def test_a_marker_is_created_by_exactly_one_writer(project: Path) -> None:
    """Creation fails when there is one already, and leaves no temporary file behind."""
    with Directory.open(project) as root:
        write_marker(root, ID, replace=False)
        with pytest.raises(FileExistsError):
            write_marker(root, ID.replace("1", "2").replace("-2222-8", "-4222-8"), replace=False)
        assert read_marker(root).workspace_id == ID
    assert [path.name for path in (project / ".tinyagent").iterdir()] == ["workspace-id"]
