"""Hostile and damaged markers: read within bounds, never through links, judged by one pattern."""

from __future__ import annotations

import contextlib
import os
import socket
import stat
import time
import uuid
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from workspace_identity import (
    MarkerDamaged,
    MarkerState,
    UnsafeWorkspace,
    Verdict,
    WorkspaceIdentityError,
    inspect_workspace,
    is_workspace_id,
    open_workspace,
)
from workspace_identity.marker import parse_marker

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

ID = "11111111-1111-4111-8111-111111111111"

ACCEPTED_BY_UUID = {
    "nil": "00000000-0000-0000-0000-000000000000",
    "max": "ffffffff-ffff-ffff-ffff-ffffffffffff",
    "version-1": "11111111-1111-1111-8111-111111111111",
    "version-7": "11111111-1111-7111-8111-111111111111",
    "variant-ncs": "11111111-1111-4111-0111-111111111111",
    "variant-microsoft": "11111111-1111-4111-c111-111111111111",
    "upper-case": "AAAAAAAA-1111-4111-8111-111111111111",
    "one-upper-case-letter": "aaaaaaaA-1111-4111-8111-111111111111",
    "braces": "{" + ID + "}",
    "many-braces": "{{}{" + ID + "}}",
    "one-brace": ID + "}",
    "urn": "urn:uuid:" + ID,
    "uuid-in-the-middle": ID.replace("-4", "uuid:-4"),
    "no-hyphens": ID.replace("-", ""),
    "hyphens-elsewhere": "1111-11111111-4111-8111-111111111111",
    "hyphens-doubled": ID.replace("-", "--"),
    "hyphen-before": "-" + ID,
    "underscore-for-a-digit": ID.replace("11111111-", "1111_111-"),
    "plus-sign": "+" + ID[1:],
    "hexadecimal-prefix": "0x" + ID[2:],
    "space-for-the-first-digit": " " + ID[1:],
    "newline-for-the-last-digit": ID[:-1] + "\n",
    "full-width-digits": ID.replace("1", "\uff11"),
    "arabic-digits": ID.replace("1", "\u0661"),
    "one-foreign-digit": ID[:-1] + "\u0967",
}
NEAR_IDS = {
    **ACCEPTED_BY_UUID,
    "underscores": ID.replace("-", "_"),
    "space-before": " " + ID,
    "space-after": ID + " ",
    "tab-after": ID + "\t",
    "two-newlines": ID + "\n\n",
    "newline-before": "\n" + ID,
    "carriage-return-alone": ID + "\r",
    "two-carriage-returns": ID + "\r\r\n",
    "two-cr-lf": ID + "\r\n\r\n",
    "two-ids": ID + "\n" + ID,
    "nul-after": ID + "\0",
    "nul-and-newline": ID + "\0\n",
    "nul-before": "\0" + ID,
    "nul-inside": ID[:8] + "\0" + ID[9:],
    "byte-order-mark": "\ufeff" + ID,
    "utf-16": "".join(letter + "\0" for letter in ID),
    "next-line": ID + "\u0085",
    "line-separator": ID + "\u2028",
    "escape": "\x1b[31m" + ID,
    "comment": ID + " # mine",
    "path": "../../../../etc/aaaa-4aaa-8aaa-aaaaaaaaaaaa",
    "path-before": "../" + ID,
    "path-after": ID + "/..",
    "absolute": "/" + ID,
    "dot": ".",
    "truncated": ID[:-1],
    "truncated-in-the-middle": ID[:20],
    "one-digit": ID[:1],
    "long": ID + "1",
    "long-after-newline": ID + "\n1",
    "zeros": "\0" * 37,
    "empty": "",
    "newline": "\n",
}


def shortest_look(project: Path) -> float:
    """Return the seconds that deciding about *project* takes at least; writes nothing.

    The best of three, because a busy machine keeps anybody waiting now and then.
    """
    seconds = []
    for _ in range(3):
        started = time.monotonic()
        with contextlib.suppress(WorkspaceIdentityError):
            inspect_workspace(project)
        seconds.append(time.monotonic() - started)
    return min(seconds)


@pytest.mark.parametrize("text", NEAR_IDS.values(), ids=NEAR_IDS.keys())
def test_what_merely_looks_like_an_id_is_damaged(text: str) -> None:
    """Near-UUIDs that `uuid.UUID` or a lenient reader would take are no ids here."""
    assert parse_marker(text.encode()).state is MarkerState.DAMAGED
    assert not is_workspace_id(text)


@pytest.mark.parametrize("text", ACCEPTED_BY_UUID.values(), ids=ACCEPTED_BY_UUID.keys())
def test_the_list_of_near_ids_is_honest(text: str) -> None:
    """The standard library takes every one of these, which is why it is not asked."""
    assert len(str(uuid.UUID(text))) == len(ID)


@pytest.mark.parametrize("name", NEAR_IDS)
def test_a_near_id_opens_nobodys_history(tmp_path: Path, project: Path, name: str) -> None:
    """Whatever stands in the marker: no history but an empty one, no path outside, no damage."""
    owner = tmp_path / "owner"
    owner.mkdir()
    theirs = open_workspace(owner, new_id=lambda: ID)
    (project / ".tinyagent").mkdir()
    (project / ".tinyagent" / "workspace-id").write_bytes(NEAR_IDS[name].encode())
    (project / "code.py").write_text("pass\n")
    before = {path for path in tmp_path.rglob("*") if theirs.state_home not in path.parents}
    assert shortest_look(project) < 1
    opened = open_workspace(project)
    assert opened.verdict is Verdict.NEW
    assert opened.id != theirs.id
    assert is_workspace_id(opened.id)
    assert before == {path for path in tmp_path.rglob("*") if theirs.state_home not in path.parents}
    assert (project / "code.py").read_text() == "pass\n"
    assert sorted(path.name for path in (theirs.state_home / "workspaces").iterdir()) == sorted(
        [theirs.id, opened.id]
    )
    assert open_workspace(owner).id == theirs.id


@given(st.text(alphabet="0123456789abcdefABCDEF-_+ {}\n\uff11\u0661urnid:x", max_size=60))
def test_what_uuid_takes_is_an_id_only_in_its_canonical_text(text: str) -> None:
    """Stricter than the standard library, and never stricter than RFC 9562's canonical text."""
    try:
        value = uuid.UUID(text)
    except ValueError:
        assert not is_workspace_id(text)
    else:
        is_canonical = str(value) == text and value.version == 4
        assert is_workspace_id(text) == is_canonical


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
    assert shortest_look(project) < 1
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


def _fifo_for_directory(project: Path) -> None:
    os.mkfifo(project / ".tinyagent")


def _device(kind: int, major: int, minor: int) -> Callable[[Path], None]:
    def prepare(project: Path) -> None:
        (project / ".tinyagent").mkdir()
        try:
            os.mknod(
                project / ".tinyagent" / "workspace-id", kind | 0o600, os.makedev(major, minor)
            )
        except PermissionError:
            pytest.skip("only root can make a device")

    return prepare


# Numbers of Linux: /dev/zero never ends, /dev/tty may be anybody's terminal, (1, 0) is /dev/ram0.
DEVICES = {
    "zero": _device(stat.S_IFCHR, 1, 5),
    "null": _device(stat.S_IFCHR, 1, 3),
    "terminal": _device(stat.S_IFCHR, 5, 0),
    "block": _device(stat.S_IFBLK, 1, 0),
}


@pytest.mark.parametrize("name", DEVICES)
def test_a_device_in_place_of_the_marker_is_refused_untouched(
    project: Path, state_home: Path, name: str
) -> None:
    """Neither read without end nor taken for an empty marker."""
    DEVICES[name](project)
    before = look(project)
    assert shortest_look(project) < 1
    with pytest.raises((UnsafeWorkspace, MarkerDamaged)):
        open_workspace(project)
    assert look(project) == before
    assert not state_home.exists()


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
        _fifo_for_directory,
    ],
)
@pytest.mark.timeout(60)
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
    assert shortest_look(project) < 1
    with pytest.raises(UnsafeWorkspace) as caught:
        open_workspace(project)
    assert ".tinyagent" in caught.value.hazard
    assert str(caught.value)[0].isupper()
    assert caught.value.hint[0].isupper()
    assert look(project.parent) == before
    assert not state_home.exists()


@pytest.mark.parametrize("name", [".tinyagent", ".tinyagent/workspace-id"])
def test_a_marker_of_another_user_is_refused(project: Path, name: str) -> None:
    """Somebody else must not choose which history this user writes to."""
    open_workspace(project)
    try:
        os.chown(project / name, 12345, 12345)
    except PermissionError:
        pytest.skip("only root can give a file to another user")
    with pytest.raises(UnsafeWorkspace, match="another user"):
        open_workspace(project)
