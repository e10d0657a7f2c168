from __future__ import annotations

import contextlib
import hashlib
import json
import os
import resource
import stat
import subprocess
import sys
import threading
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from run_journal import (
    EventInvalid,
    FindingKind,
    Head,
    Journal,
    RunStarted,
    SessionDeleted,
    SessionRenamed,
    Severity,
    StoreOpened,
    WorkspaceDecided,
    WorkspaceVerdict,
    id_of,
    name_of,
    session_file_name,
)
from run_journal.sink import Sink

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import SimpleNamespace


def test_a_line_has_its_members_in_the_documented_order(
    journal: Journal, ids: SimpleNamespace
) -> None:
    """Format version 1, byte for byte."""
    head = journal.write(
        RunStarted(session_id=ids.session, run_id=ids.run, provider=name_of("offline")),
        duration_ms=7,
    )
    line = journal.path_for(ids.session).read_bytes()
    unsealed = (
        '{"v":1,"seq":1,"ts":"2026-01-02T03:04:05.000006Z","event":"run.started",'
        f'"workspace_id":"{ids.workspace}","session_id":"{ids.session}","run_id":"{ids.run}",'
        '"phase":"setup","duration_ms":7,"provider":"offline","model":null,"retry_of":null,'
        '"message_bytes":null}'
    )
    chain = hashlib.sha256(f"{'0' * 64}{unsealed}".encode()).hexdigest()
    assert line == f'{unsealed[:-1]},"chain":"{chain}"}}\n'.encode()
    assert head == Head(1, chain)


def test_every_session_has_its_file_and_the_rest_goes_to_the_workspace(
    journal: Journal, ids: SimpleNamespace
) -> None:
    """A deletion is told in the workspace's file, where every session_id is null."""
    journal.write(SessionRenamed(session_id=ids.session))
    journal.write(SessionRenamed(session_id=ids.other_session))
    journal.write(StoreOpened())
    journal.write(WorkspaceDecided(verdict=WorkspaceVerdict.MOVED))
    journal.write(SessionDeleted(session_id=ids.session, run_count=3))
    expected = hashlib.sha256(ids.session.encode()).hexdigest()[:32] + ".jsonl"
    assert session_file_name(ids.session) == expected
    names = {expected, session_file_name(ids.other_session), "workspace.jsonl"}
    assert {path.name for path in journal.directory.iterdir()} == names
    lines = [json.loads(line) for line in journal.path_for(None).read_text("ascii").splitlines()]
    assert [line["event"] for line in lines] == [
        "store.opened",
        "workspace.moved",
        "session.deleted",
    ]
    assert [line["session_id"] for line in lines] == [None, None, None]
    assert lines[-1]["deleted_session_id"] == ids.session


def test_files_are_0600_and_directories_0700_whatever_the_umask(
    tmp_path: Path, ids: SimpleNamespace
) -> None:
    """C34 for the journal: the widest and the narrowest umask give the same rights."""
    for umask in (0o000, 0o022, 0o777):
        top = tmp_path / f"umask-{umask:03o}"
        old = os.umask(umask)
        try:
            with Journal(top / "logs" / "w", workspace_id=ids.workspace) as journal:
                assert journal.write(SessionRenamed(session_id=ids.session)) is not None
                path = journal.path_for(ids.session)
                with path.open("ab") as file:
                    file.write(b"torn")
                assert journal.write(SessionRenamed(session_id=ids.session)) is not None
        finally:
            os.umask(old)
        assert len(list(top.rglob("*.jsonl*"))) == 2
        for found in (top, *top.rglob("*")):
            mode = stat.S_IMODE(found.stat().st_mode)
            assert mode == (0o700 if found.is_dir() else 0o600)


def test_a_journal_file_is_never_open_to_others_between_its_making_and_its_first_line(
    journal: Journal, ids: SimpleNamespace
) -> None:
    """An existing file with wider rights is narrowed before anything is written to it."""
    journal.directory.mkdir(parents=True)
    path = journal.path_for(ids.session)
    path.touch(0o644)
    path.chmod(0o644)
    journal.write(SessionRenamed(session_id=ids.session))
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


def test_nothing_is_wider_than_it_should_be_even_for_a_moment(
    tmp_path: Path, ids: SimpleNamespace
) -> None:
    """C34: an audit hook watches how directories are made and what a file was before its chmod."""
    code = (
        "import os, pathlib, stat, sys, run_journal\n"
        "wide = []\n"
        "def watch(event, arguments):\n"
        "    if event == 'os.mkdir' and arguments[1] != 0o700:\n"
        "        wide.append(event)\n"
        "    if event == 'os.chmod' and os.stat(arguments[0]).st_mode & 0o077:\n"
        "        wide.append(event)\n"
        "journal = run_journal.Journal(pathlib.Path(sys.argv[1]), workspace_id=sys.argv[2])\n"
        "os.umask(0)\n"
        "sys.addaudithook(watch)\n"
        "for session_id in sys.argv[3:]:\n"
        "    assert journal.write(run_journal.SessionRenamed(session_id=session_id))\n"
        "assert not wide, wide\n"
    )
    arguments = [tmp_path / "a" / "b", ids.workspace, ids.session, ids.other_session]
    subprocess.run([sys.executable, "-c", code, *arguments], check=True)


def _make_symlink(path: Path) -> None:
    target = path.with_name("target")
    target.touch()
    path.symlink_to(target)


def _make_fifo(path: Path) -> None:
    os.mkfifo(path)


def _make_directory(path: Path) -> None:
    path.mkdir()


def _make_device(path: Path) -> None:
    path.symlink_to("/dev/full")


@pytest.mark.parametrize("make", [_make_symlink, _make_fifo, _make_directory, _make_device])
def test_what_is_no_regular_file_is_a_counted_failure(
    journal: Journal, ids: SimpleNamespace, make: Callable[[Path], None]
) -> None:
    """Never followed, never waited for, never an exception; other files go on."""
    journal.directory.mkdir(parents=True)
    make(journal.path_for(ids.session))
    assert journal.write(SessionRenamed(session_id=ids.session)) is None
    assert journal.failed_count == 1
    assert journal.write(SessionRenamed(session_id=ids.other_session)) is not None
    target = journal.directory / "target"
    assert not target.exists() or target.read_bytes() == b""


def test_a_file_that_is_replaced_while_it_is_open_costs_lines_and_no_exception(
    journal: Journal, ids: SimpleNamespace
) -> None:
    """The old file has no name any more; what took its place is not written to."""
    journal.write(SessionRenamed(session_id=ids.session))
    path = journal.path_for(ids.session)
    path.unlink()
    _make_symlink(path)
    assert journal.write(SessionRenamed(session_id=ids.session)) is None
    assert journal.write(SessionRenamed(session_id=ids.session)) is None
    assert journal.failed_count == 2
    path.unlink()
    assert journal.write(SessionRenamed(session_id=ids.session)) is not None


def test_a_directory_that_cannot_be_made_is_a_counted_failure(
    tmp_path: Path, ids: SimpleNamespace
) -> None:
    """A file stands where a directory should be: root is refused as well."""
    (tmp_path / "logs").touch()
    with Journal(tmp_path / "logs" / "w", workspace_id=ids.workspace) as journal:
        assert journal.write(SessionRenamed(session_id=ids.session)) is None
        assert journal.failed_count == 1


def test_a_removed_directory_is_made_again(journal: Journal, ids: SimpleNamespace) -> None:
    """The line that finds out is lost and counted, the next one is written."""
    journal.write(SessionRenamed(session_id=ids.session))
    journal.path_for(ids.session).unlink()
    journal.directory.rmdir()
    assert journal.write(SessionRenamed(session_id=ids.session)) is None
    head = journal.write(SessionRenamed(session_id=ids.session))
    assert head is not None
    assert head.seq == 1


def test_a_newer_format_is_not_written_to(journal: Journal, ids: SimpleNamespace) -> None:
    """A file that a later version wrote stays as it is."""
    journal.write(SessionRenamed(session_id=ids.session))
    path = journal.path_for(ids.session)
    older = path.read_bytes()
    newer = older + older.replace(b'{"v":1,"seq":1,', b'{"v":2,"seq":2,')
    path.write_bytes(newer)
    assert journal.write(SessionRenamed(session_id=ids.session)) is None
    assert path.read_bytes() == newer
    (finding,) = journal.verify(ids.session).findings
    assert (finding.severity, finding.kind) == (Severity.ERROR, FindingKind.FORMAT_NEWER)
    assert "Upgrade" in finding.hint


def _open_count(directory: Path) -> int:
    """Return how many descriptors of this process belong to files of *directory*."""
    files = {(status.st_dev, status.st_ino) for status in map(os.stat, directory.iterdir())}
    count = 0
    for number in Path("/dev/fd").iterdir():
        with contextlib.suppress(OSError):  # the one that listed them is gone
            status = os.fstat(int(number.name))
            count += (status.st_dev, status.st_ino) in files
    return count


def test_only_so_many_files_are_open(directory: Path, ids: SimpleNamespace) -> None:
    """The least recently used is closed first; a file that comes back goes on where it was."""
    sessions = [id_of(f"019b7d2e-0000-7000-8000-{n:012x}") for n in range(40)]
    with Journal(directory, workspace_id=ids.workspace, max_open_files=3) as journal:
        for _ in range(3):
            for session in sessions:
                assert journal.write(SessionRenamed(session_id=session)) is not None
        assert _open_count(directory) == 3
        assert all(journal.verify(session).head.seq == 3 for session in sessions)
    assert _open_count(directory) == 0


MANY = """
import os, pathlib, resource, select, sys, run_journal
root, workspace_id, soft, count = sys.argv[1:]
_, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
resource.setrlimit(resource.RLIMIT_NOFILE, (int(soft), hard))
journal = run_journal.Journal(pathlib.Path(root) / "logs", workspace_id=workspace_id)
sessions = [run_journal.id_of(f"019b7d2e-0000-7000-8000-{n:012x}") for n in range(1200)]
event_of = run_journal.SessionRenamed

def numbers():
    files = {os.stat(path).st_ino for path in journal.directory.iterdir()}
    for name in os.listdir("/dev/fd"):
        try:
            if os.fstat(int(name)).st_ino in files:
                yield int(name)
        except OSError:
            pass

for session in sessions[: int(count)]:
    assert journal.write(event_of(session_id=session)), session
"""


def _run_with_limit(
    tmp_path: Path, ids: SimpleNamespace, soft: int, then: str, *, count: int = 1200
) -> None:
    """Let a program that may open *soft* files write to *count* journals, and then do the rest."""
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if hard != resource.RLIM_INFINITY and hard < soft:
        pytest.skip(f"this system lets nobody open {soft} files")
    arguments = [sys.executable, "-c", MANY + then, tmp_path, ids.workspace, str(soft), str(count)]
    done = subprocess.run(arguments, capture_output=True, text=True, check=False)
    assert done.stderr == ""
    assert done.returncode == 0


def test_a_quarter_of_what_a_process_may_open_stays_open(
    tmp_path: Path, ids: SimpleNamespace
) -> None:
    """The program has the rest to itself."""
    _run_with_limit(tmp_path, ids, 200, "assert len(list(numbers())) == 50")


def test_many_open_files_leave_the_program_the_numbers_that_it_can_wait_for(
    tmp_path: Path, ids: SimpleNamespace
) -> None:
    """`select` refuses a descriptor above 1,023, so a thousand of ours must not take those."""
    then = (
        "assert len(list(numbers())) == 1024\n"
        "assert min(numbers()) >= 1024\n"
        "own, _ = os.pipe()\n"
        "assert select.select([own], [], [], 0) == ([], [], [])\n"
        "assert not any(os.get_inheritable(number) for number in numbers())\n"
    )
    _run_with_limit(tmp_path, ids, 4096, then)


def test_a_program_that_has_used_up_its_descriptors_loses_no_line(
    tmp_path: Path, ids: SimpleNamespace
) -> None:
    """Half of the journal's are given up for the next file, and not taken again."""
    then = (
        "others = []\n"
        "while True:\n"
        "    try:\n"
        "        others.append(os.open(root, os.O_RDONLY))\n"
        "    except OSError:\n"
        "        break\n"
        "for session in sessions:\n"
        "    assert journal.write(event_of(session_id=session)), session\n"
        "assert journal.failed_count == 0\n"
        "assert len(list(numbers())) == 15\n"
        "assert [journal.verify(one).head.seq for one in sessions[29:31]] == [2, 1]\n"
    )
    _run_with_limit(tmp_path, ids, 200, then, count=30)


def test_a_file_that_was_closed_to_make_room_is_looked_at_anew_when_it_is_another(
    directory: Path, ids: SimpleNamespace
) -> None:
    """What is remembered of it holds for that file alone, even when the new one is as long."""
    with Journal(directory, workspace_id=ids.workspace, max_open_files=1) as journal:
        journal.write(SessionRenamed(session_id=ids.session))
        path = journal.path_for(ids.session)
        size = path.stat().st_size
        journal.write(SessionRenamed(session_id=ids.other_session))
        path.rename(directory / "moved")
        with Journal(directory, workspace_id=ids.workspace) as another:
            another.write(SessionRenamed(session_id=ids.session))
        assert path.stat().st_size == size
        assert journal.write(SessionRenamed(session_id=ids.session)) is not None
        assert journal.verify(ids.session).findings == ()


def test_a_deleted_session_leaves_no_file_and_none_comes_back(
    journal: Journal, directory: Path, ids: SimpleNamespace
) -> None:
    """C41 for the journal: its file and set-aside tails go; a late line does not revive it."""
    with Journal(directory, workspace_id=ids.workspace) as late:
        late.write(SessionRenamed(session_id=ids.session))
        with journal.path_for(ids.session).open("ab") as file:
            file.write(b"torn")
        journal.write(SessionRenamed(session_id=ids.session))
        assert len(list(directory.iterdir())) == 2
        assert journal.delete(ids.session)
        assert list(directory.iterdir()) == []
        for _ in range(2):
            assert late.write(SessionRenamed(session_id=ids.session)) is None
            assert journal.write(SessionRenamed(session_id=ids.session)) is None
        assert (late.failed_count, journal.failed_count) == (2, 2)
        assert list(directory.iterdir()) == []
    assert not journal.delete(ids.session)


def test_deleting_a_journal_leaves_the_lines_of_a_copy_that_shares_its_file(
    journal: Journal, ids: SimpleNamespace, tmp_path: Path
) -> None:
    """A backup that is made of hard links keeps what it has."""
    journal.write(SessionRenamed(session_id=ids.session))
    backup = tmp_path / "backup.jsonl"
    backup.hardlink_to(journal.path_for(ids.session))
    before = backup.read_bytes()
    assert journal.delete(ids.session)
    assert backup.read_bytes() == before


def test_threads_share_a_journal(journal: Journal, ids: SimpleNamespace) -> None:
    """Eight threads, two files: no gap, no broken chain, every head given out once."""
    heads: list[Head | None] = []

    def work() -> None:
        for n in range(50):
            session = (ids.session, ids.other_session)[n % 2]
            heads.append(journal.write(SessionRenamed(session_id=session)))

    threads = [threading.Thread(target=work) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(set(heads)) == 400
    for session in (ids.session, ids.other_session):
        report = journal.verify(session)
        assert report.ok
        assert report.head.seq == 200


def test_what_comes_after_close_is_a_counted_failure(
    journal: Journal, ids: SimpleNamespace
) -> None:
    """A late event of a background thread harms nothing."""
    journal.close()
    journal.close()
    assert journal.write(SessionRenamed(session_id=ids.session)) is None
    assert journal.failed_count == 1


def test_a_journal_wants_a_workspace_and_at_least_one_open_file(tmp_path: Path) -> None:
    """Wrong arguments are errors at once, not failed lines later."""
    with pytest.raises(EventInvalid, match="workspace_id"):
        Journal(tmp_path, workspace_id="mine")
    with Journal(tmp_path, workspace_id="0b130872-b0ac-414d-b8a9-10386c0258cd") as journal:
        assert journal.workspace_id == id_of("0b130872-b0ac-414d-b8a9-10386c0258cd")
    with pytest.raises(ValueError, match="max_open_files"):
        Journal(tmp_path, workspace_id="0b130872-b0ac-414d-b8a9-10386c0258cd", max_open_files=0)


def test_two_threads_that_begin_at_once_share_one_lock(directory: Path) -> None:
    """The second one must not close what the first one has just opened."""
    sink = Sink(directory, max_open=1, lock_timeout_s=1, repair_body=lambda *_: "")
    locks: list[object] = []

    class Overtaken(dict[int, Any]):
        """Where a thread looks in vain, and another one is faster."""

        def get(self, key: int, default: object = None) -> Any:
            if key not in self and not locks:
                locks.append(None)
                thread = threading.Thread(target=lambda: locks.append(sink.counting()))
                thread.start()
                thread.join()
                return None
            return super().get(key, default)

    sink._processes = Overtaken()
    assert sink.counting() is locks[1]
