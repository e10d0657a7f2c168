from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import apsw
import pytest

from state_store import SqliteStore, StoreUnavailable, WalUnsupported
from state_store.sqlite import filesystem
from state_store.sqlite.beside import at_rest
from state_store.testing.turns import turn

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    OpenDisk = Callable[..., SqliteStore]

MOUNTS = rb"""22 27 0:21 / /proc rw,relatime - proc proc rw
27 1 254:0 / / rw,relatime - ext4 /dev/vda rw,discard
31 27 0:30 / /home rw,nosuid shared:7 master:1 - nfs4 server:/home rw,vers=4.2
32 31 8:17 / /home/ann/local rw - xfs /dev/sdb1 rw
33 27 0:41 / /mnt/with\040blank\134and\011tab rw - cifs //server/share rw
34 27 0:42 / /mnt/twice rw - ext4 /dev/sdc1 rw
35 34 0:43 / /mnt/twice rw - 9p host rw,trans=virtio
36 27 0:44 / /mnt/ssh rw - fuse.sshfs ann@server:/ rw
37 27 0:45 / /mnt/caf\303\251 rw - virtiofs shared rw
a line that is none of this
38 27
"""


@pytest.mark.parametrize(
    ("path", "kind"),
    [
        ("/", "ext4"),
        ("/home", "nfs4"),
        ("/home/ann/state.sqlite3", "nfs4"),
        ("/home/ann/local/state.sqlite3", "xfs"),
        ("/homeless", "ext4"),
        ("/mnt/with blank\\and\ttab/x", "cifs"),
        ("/mnt/twice/x", "9p"),
        ("/mnt/ssh/x/y", "fuse.sshfs"),
        ("/mnt/café", "virtiofs"),
        ("/proc/self", "proc"),
    ],
)
def test_the_mount_table_tells_the_filesystem_of_a_path(path: str, kind: str) -> None:
    """The deepest mount point, the last of several on one; names are unescaped."""
    assert filesystem.kind_in(MOUNTS, Path(path)) == kind


def test_a_mount_table_that_says_nothing_gives_no_filesystem(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nor does one that is not there, as on macOS."""
    assert filesystem.kind_in(b"", tmp_path) is None
    assert filesystem.kind_of(tmp_path)
    monkeypatch.setattr(filesystem, "MOUNTS", tmp_path / "none")
    assert filesystem.kind_of(tmp_path) is None
    filesystem.require_local(tmp_path)


@pytest.mark.parametrize(
    "kind",
    ["nfs", "nfs4", "cifs", "smb3", "9p", "virtiofs", "fuse", "fuse.sshfs", "vboxsf", "ceph"],
)
@pytest.mark.parametrize("writing", [True, False])
def test_a_shared_filesystem_is_refused_before_anything_is_made_on_it(
    open_disk: OpenDisk,
    path: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    kind: str,
    *,
    writing: bool,
) -> None:
    """The message names the filesystem and the way out (C15)."""
    claim_to_be(kind, tmp_path, monkeypatch)
    with pytest.raises(WalUnsupported, match=f"a {kind} filesystem") as refused:
        open_disk(writing=writing)
    assert isinstance(refused.value, StoreUnavailable)
    assert str(path) in str(refused.value)
    assert "move the state home" in str(refused.value.hint)
    assert "TINYAGENT_STATE_HOME" in str(refused.value.hint)
    assert not path.parent.exists()


@pytest.mark.parametrize("kind", ["ext4", "xfs", "btrfs", "zfs", "overlay", "tmpfs", "apfs"])
def test_a_local_filesystem_is_used(
    open_disk: OpenDisk, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    """Also one that nobody has heard of yet: SQLite's own answer comes after."""
    claim_to_be(kind, tmp_path, monkeypatch)
    store = open_disk()
    turn(store, store.create_session().id)


def test_a_shared_filesystem_is_used_when_the_caller_says_so(
    open_disk: OpenDisk, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The explicit way round; WAL is asserted all the same (C15)."""
    claim_to_be("nfs4", tmp_path, monkeypatch)
    store = open_disk(allow_network_filesystem=True)
    turn(store, store.create_session().id)
    assert open_disk(allow_network_filesystem=True, writing=False).list().items


def claim_to_be(kind: str, directory: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the mount table say that a filesystem of this *kind* carries *directory*."""
    table = directory / "mountinfo"
    table.write_text(
        "27 1 254:0 / / rw,relatime - ext4 /dev/vda rw\n"
        f"31 27 0:30 / {directory} rw - {kind} somewhere rw\n"
    )
    monkeypatch.setattr(filesystem, "MOUNTS", table)


class NoSharedMemory(apsw.VFS):
    """A filesystem on which SQLite has no shared memory, so that it answers `delete`."""

    def __init__(self) -> None:
        super().__init__("no-shared-memory", base="unix-dotfile", makedefault=True)


class NoLocks(apsw.VFS):
    """A filesystem whose locks fail, as SQLite finds when it asks for one in WAL mode."""

    def __init__(self, code: int) -> None:
        super().__init__("no-locks", base="unix", makedefault=True)
        self.code = code

    def xOpen(self, name: str | apsw.URIFilename | None, flags: list[int]) -> apsw.VFSFile:  # noqa: N802 - apsw's name
        """Open a file without locks."""
        return FileWithoutLocks(self.code, name, flags)


class FileWithoutLocks(apsw.VFSFile):
    """A file that cannot be locked."""

    def __init__(self, code: int, name: str | apsw.URIFilename | None, flags: list[int]) -> None:
        super().__init__("unix", name, flags)
        self.code = code

    def xLock(self, level: int) -> None:  # noqa: ARG002, N802 - apsw's name and argument
        """Fail."""
        raise apsw.exception_for(self.code)


@pytest.fixture
def mounted() -> Iterator[list[apsw.VFS]]:
    """Return a list; the filesystems in it are in force until the test ends."""
    found: list[apsw.VFS] = []
    yield found
    for vfs in found:
        vfs.unregister()


def test_a_filesystem_on_which_sqlite_has_no_log_is_refused(
    open_disk: OpenDisk, path: Path, mounted: list[apsw.VFS], tmp_path: Path
) -> None:
    """It answers journal_mode=delete; nothing half-made stays, and nobody believes in WAL (C15)."""
    mounted.append(NoSharedMemory())
    with pytest.raises(WalUnsupported, match="journal_mode=delete") as refused:
        open_disk()
    assert f"{filesystem.kind_of(tmp_path)} filesystem" in str(refused.value)
    assert "move the state home" in str(refused.value.hint)
    assert {one.name for one in path.parent.iterdir()} == at_rest(path) - {path.name}


def test_an_existing_database_on_a_filesystem_without_a_log_is_not_written(
    open_disk: OpenDisk, path: Path, mounted: list[apsw.VFS]
) -> None:
    """A state home that was moved there: a typed error that is no damage, the bytes as before."""
    store = open_disk()
    session_id = store.create_session().id
    store.close()
    before = path.read_bytes()
    mounted.append(NoSharedMemory())
    with pytest.raises(StoreUnavailable) as refused:
        open_disk()
    assert refused.value.path == str(path)
    reader = open_disk(writing=False)
    assert [one.id for one in reader.list().items] == [session_id]
    reader.close()
    assert path.read_bytes() == before


@pytest.mark.parametrize("writing", [True, False])
@pytest.mark.parametrize("code", [apsw.SQLITE_PROTOCOL, apsw.SQLITE_IOERR_LOCK])
def test_locks_that_do_not_work_are_said_as_such(
    open_disk: OpenDisk,
    path: Path,
    mounted: list[apsw.VFS],
    tmp_path: Path,
    code: int,
    *,
    writing: bool,
) -> None:
    """And not as "locking protocol (15)" (C15)."""
    open_disk().close()
    before = path.read_bytes()
    mounted.append(NoLocks(code))
    with pytest.raises(WalUnsupported, match="locks do not work") as refused:
        open_disk(writing=writing)
    assert f"{filesystem.kind_of(tmp_path)} filesystem" in str(refused.value)
    assert path.read_bytes() == before
