"""Many processes at once: one directory gets one id, and the lock ends with its holder."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from workspace_identity import RegistryBusy, list_workspaces, open_workspace
from workspace_identity.lock import registry_lock

if TYPE_CHECKING:
    from pathlib import Path

PROCESS_COUNT = 32

# Every process waits until the pipe is closed, so that all of them start in the same moment.
OPENER = """
import os, sys
from workspace_identity import open_workspace
for number in range(int(sys.argv[1])):
    if os.fork() == 0:
        sys.stdin.read()
        homes = sys.argv[3:]
        home = homes[number % len(homes)]
        os.write(1, (open_workspace(sys.argv[2], state_home=home).id + "\\n").encode())
        os._exit(0)
failed = [status for _, status in (os.wait() for _ in range(int(sys.argv[1]))) if status]
sys.exit(f"{len(failed)} failed" if failed else 0)
"""


def open_at_once(project: Path, *homes: Path) -> list[str]:
    """Open *project* in 32 processes at once; return the ids they saw."""
    arguments = [str(PROCESS_COUNT), str(project), *map(str, homes)]
    with subprocess.Popen(
        [sys.executable, "-c", OPENER, *arguments],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as opener:
        out, err = opener.communicate("")
    assert opener.returncode == 0, err
    return out.split()


@pytest.mark.parametrize("round_", range(3))
def test_one_new_directory_opened_at_once_has_one_id(
    project: Path, state_home: Path, round_: int
) -> None:
    """32 processes, one UUID, one record, one decision in the history."""
    ids = open_at_once(project, state_home)
    assert len(ids) == PROCESS_COUNT
    assert len(set(ids)) == 1
    assert [record.id for record in list_workspaces()] == [ids[0]]
    assert len((state_home / "registry.jsonl").read_bytes().splitlines()) == 1


def test_two_state_homes_at_once_agree_on_the_marker(project: Path, tmp_path: Path) -> None:
    """No lock is shared here: `link` alone lets one creator win, and the others read its id."""
    ids = open_at_once(project, tmp_path / "home-1", tmp_path / "home-2")
    assert len(ids) == PROCESS_COUNT
    assert len(set(ids)) == 1
    assert [path.name for path in (project / ".tinyagent").iterdir()] == ["workspace-id"]


def test_a_registry_that_stays_locked_is_a_typed_error(project: Path, state_home: Path) -> None:
    """The error names the holder and how long it waited; nothing was decided."""
    state_home.mkdir()
    with registry_lock(state_home), pytest.raises(RegistryBusy) as caught:
        open_workspace(project, lock_timeout_s=0.05)
    assert caught.value.holder_pid == os.getpid()
    assert caught.value.waited_s >= 0.05
    assert isinstance(caught.value, TimeoutError)
    assert list(project.iterdir()) == []


def test_the_lock_of_a_killed_process_is_free(project: Path, state_home: Path) -> None:
    """SIGKILL leaves no stale lock."""
    state_home.mkdir()
    hold = (
        "import sys, pathlib\n"
        "from workspace_identity.lock import registry_lock\n"
        "with registry_lock(pathlib.Path(sys.argv[1])):\n"
        "    print('held', flush=True)\n"
        "    sys.stdin.read()\n"
    )
    with subprocess.Popen(
        [sys.executable, "-c", hold, str(state_home)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as holder:
        assert holder.stdout is not None
        assert holder.stdout.readline() == "held\n"
        with pytest.raises(RegistryBusy):
            open_workspace(project, lock_timeout_s=0)
        holder.send_signal(signal.SIGKILL)
        holder.wait()
        assert open_workspace(project, lock_timeout_s=5).id
