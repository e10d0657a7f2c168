"""Many processes at once: one directory gets one id, and the lock ends with its holder."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from scale import LONG, PROCESS_COUNT, ROUND_COUNT
from workspace_identity import RegistryBusy, list_workspaces, open_workspace
from workspace_identity.lock import registry_lock

# All rounds in one process, so that a round costs its forks and not a start of Python. Every child
# waits at a pipe until it is closed: all of them start in the same moment. Each opens the directory
# and reads the marker before and after; it answers with the id and what is wrong, if anything.
OPENERS = """
import json, os, pathlib, sys
from workspace_identity import is_workspace_id, open_workspace
root, process_count, round_count, *homes = sys.argv[1:]

def look(marker):
    try:
        return marker.read_bytes()
    except FileNotFoundError:
        return None

def child(number, project, home, gate, answers):
    os.read(gate, 1)
    marker = pathlib.Path(project, ".tinyagent", "workspace-id")
    before = look(marker)
    opened = open_workspace(project, state_home=home, lock_timeout_s=60)
    expected = opened.id.encode() + b"\\n"
    whole = before in (None, expected) and look(marker) == expected
    os.write(answers, f"{opened.id} {opened.verdict} {'whole' if whole else 'torn'}\\n".encode())

for number in range(int(round_count)):
    project = os.path.join(root, f"project-{number}")
    os.mkdir(project)
    gate, opener = os.pipe()
    told, answers = os.pipe()
    for process in range(int(process_count)):
        if os.fork() == 0:
            status = 1
            try:
                os.close(opener)
                child(number, project, homes[process % len(homes)], gate, answers)
                status = 0
            finally:
                os._exit(status)
    os.close(answers)
    os.close(gate)
    os.close(opener)
    with open(told) as lines:
        said = [line.split() for line in lines]
    failed = sum(os.wait()[1] != 0 for _ in range(int(process_count)))
    print(json.dumps({"project": project, "failed": failed, "said": said}), flush=True)
"""


def open_at_once(
    root: Path, *homes: Path, round_count: int
) -> list[tuple[Path, list[tuple[str, str, str]]]]:
    """Open a new directory in 64 processes at once; return, a round, what each of them saw."""
    arguments = [str(root), str(PROCESS_COUNT), str(round_count), *map(str, homes)]
    done = subprocess.run(
        [sys.executable, "-c", OPENERS, *arguments], check=True, capture_output=True, text=True
    )
    rounds = [json.loads(line) for line in done.stdout.splitlines()]
    assert len(rounds) == round_count
    assert [one["failed"] for one in rounds] == [0] * round_count, done.stderr
    return [(Path(one["project"]), [tuple(said) for said in one["said"]]) for one in rounds]


@pytest.mark.timeout(1800 if LONG else 120)
def test_a_new_directory_opened_by_64_processes_at_once_has_one_id(
    tmp_path: Path, state_home: Path
) -> None:
    """One UUID a round, one record, one decision in the history, and no torn or empty read."""
    rounds = open_at_once(tmp_path, state_home, round_count=ROUND_COUNT)
    ids = []
    for project, said in rounds:
        assert len(said) == PROCESS_COUNT
        assert len({workspace_id for workspace_id, _, _ in said}) == 1
        assert sorted(verdict for _, verdict, _ in said) == ["known"] * (PROCESS_COUNT - 1) + [
            "new"
        ]
        assert {state for _, _, state in said} == {"whole"}
        assert [path.name for path in (project / ".tinyagent").iterdir()] == ["workspace-id"]
        ids.append(said[0][0])
    assert len(set(ids)) == ROUND_COUNT
    assert sorted(record.id for record in list_workspaces()) == sorted(ids)
    assert len((state_home / "registry.jsonl").read_bytes().splitlines()) == ROUND_COUNT
    sys.stdout.write(f"{ROUND_COUNT} rounds of {PROCESS_COUNT} processes: one id each\n")


@pytest.mark.timeout(1800 if LONG else 120)
def test_two_state_homes_at_once_agree_on_the_marker(tmp_path: Path) -> None:
    """No lock is shared here: `link` alone lets one creator win, and the others read its id."""
    homes = tmp_path / "home-1", tmp_path / "home-2"
    for project, said in open_at_once(tmp_path, *homes, round_count=ROUND_COUNT):
        assert len(said) == PROCESS_COUNT
        assert len({workspace_id for workspace_id, _, _ in said}) == 1
        assert {state for _, _, state in said} == {"whole"}
        assert [path.name for path in (project / ".tinyagent").iterdir()] == ["workspace-id"]


def test_a_copy_opened_by_many_processes_at_once_has_one_new_id(
    project: Path, tmp_path: Path, state_home: Path
) -> None:
    """C22: the marker of a copy is replaced once, and nobody takes the original's history."""
    first = open_workspace(project)
    copy = tmp_path / "project-0"

    def opened() -> str:
        return open_workspace(copy).id

    shutil.copytree(project, copy)
    with ThreadPoolExecutor(8) as pool:
        ids = {answer.result() for answer in [pool.submit(opened) for _ in range(32)]}
    assert len(ids) == 1
    assert first.id not in ids
    assert open_workspace(project).id == first.id


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
