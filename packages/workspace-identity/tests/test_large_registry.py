"""Thousands of workspaces: the usual open does not notice them, and a scan is bearable."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import time
import uuid
from typing import TYPE_CHECKING

import pytest

from scale import WORKSPACE_COUNT
from workspace_identity import Verdict, list_workspaces, open_workspace
from workspace_identity.registry import Registry

if TYPE_CHECKING:
    from pathlib import Path

# What an open does to the filesystem, as the interpreter's audit events tell it.
WATCH = """
import json, os, sys
import workspace_identity
project, home = sys.argv[1:]
seen = {"files": [], "directories": [], "listings": [], "writes": []}
CHANGES = {"os.mkdir", "os.rename", "os.link", "os.remove", "os.rmdir", "os.chmod", "os.truncate"}

def watch(event, arguments):
    if event == "open":
        path, _, flags = arguments
        kind = "directories" if flags & os.O_DIRECTORY else "files"
        seen[kind].append(os.fsdecode(path))
        if flags & (os.O_WRONLY | os.O_RDWR | os.O_CREAT):
            seen["writes"].append(os.fsdecode(path))
    elif event in ("os.listdir", "os.scandir"):
        seen["listings"].append(str(arguments[0]))
    elif event in CHANGES:
        seen["writes"].append(event)

workspace_identity.open_workspace(project, state_home=home)  # what is imported on first use
sys.addaudithook(watch)
opened = workspace_identity.open_workspace(project, state_home=home)
print(json.dumps([opened.verdict, seen]))
"""


@pytest.fixture
def crowded(project: Path, state_home: Path) -> Path:
    """Fill the registry with workspaces at other paths; return the state home.

    Written as the package would, but without thousands of calls of fsync.
    """
    first = open_workspace(project)
    record = Registry(state_home).find(first.id)
    assert record is not None
    template = json.loads(first.paths.record.read_text())
    for number in range(1, WORKSPACE_COUNT):
        workspace_id = str(uuid.UUID(int=number << 90 | number, version=4))
        room = state_home / "workspaces" / workspace_id
        room.mkdir(mode=0o700)
        template["workspace_id"] = workspace_id
        template["path"] = f"/somewhere/with/a/usual/depth/project-{number}"
        template["place"] = {"device": 1, "inode": number, "birth_ns": number}
        (room / "workspace.json").write_text(json.dumps(template, indent=1) + "\n")
    return state_home


def watched(project: Path, state_home: Path) -> dict[str, list[str]]:
    """Open a known workspace in another process; return what that did to the filesystem."""
    done = subprocess.run(
        [sys.executable, "-c", WATCH, str(project), str(state_home)],
        check=True,
        capture_output=True,
        text=True,
    )
    verdict, said = json.loads(done.stdout)
    assert verdict == "known"
    seen: dict[str, list[str]] = said
    return seen


def test_the_usual_open_reads_two_small_files_and_writes_nothing(
    project: Path, state_home: Path
) -> None:
    """Marker and record, each in a directory that is held open; no listing, no write, no lock."""
    opened = open_workspace(project)
    said = watched(project, state_home)
    assert said == {
        "files": ["workspace-id", "workspace.json"],
        "directories": [str(project), ".tinyagent", str(opened.paths.state_dir)],
        "listings": [],
        "writes": [],
    }


def test_thousands_of_workspaces_change_nothing_about_the_usual_open(
    project: Path, crowded: Path
) -> None:
    """The same two files as with one workspace; only what is not known costs a scan.

    The time of a scan is told and not required: it depends on the machine.
    """
    assert watched(project, crowded)["files"] == ["workspace-id", "workspace.json"]
    started = time.perf_counter()
    assert len(list_workspaces()) == WORKSPACE_COUNT
    listed = time.perf_counter()
    shutil.rmtree(project / ".tinyagent")
    healed = open_workspace(project)
    opened = time.perf_counter()
    assert healed.verdict is Verdict.HEALED
    sys.stdout.write(
        f"{WORKSPACE_COUNT} workspaces: listed in {listed - started:.3f} s, "
        f"opened with a scan in {opened - listed:.3f} s\n"
    )


def test_a_scan_passes_over_what_cannot_be_read(project: Path, state_home: Path) -> None:
    """One damaged record among many keeps nobody from being found."""
    first = open_workspace(project)
    for number, content in enumerate([b"", b"{", b"[]", b"\xff"]):
        room = state_home / "workspaces" / str(uuid.UUID(int=number, version=4))
        room.mkdir()
        (room / "workspace.json").write_bytes(content)
    (state_home / "workspaces" / "a file of somebody else").touch()
    shutil.rmtree(project / ".tinyagent")
    assert open_workspace(project).id == first.id
    assert len(list_workspaces()) == 5


def test_a_damaged_record_of_a_known_workspace_is_written_anew(project: Path) -> None:
    """The registry's history stands in once; the next open reads two small files again."""
    first = open_workspace(project)
    first.paths.record.write_bytes(b"{")
    again = open_workspace(project)
    assert (again.id, again.verdict, again.evidence.record_lost) == (first.id, Verdict.KNOWN, True)
    assert not open_workspace(project).evidence.record_lost
    (listed,) = list_workspaces()
    assert (listed.path, listed.problem) == (project, None)
