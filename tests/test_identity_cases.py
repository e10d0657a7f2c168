"""Cases C21 to C24: conversations follow a directory that moved, and stay out of its copies."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from processes import Place, line_of

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

CHAT = "from sessions_api import Agent\nwith Agent('.', provider='offline') as agent:\n"


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Path]:
    """Mount another filesystem; skips where only root of another machine could."""
    if sys.platform != "linux" or os.geteuid() != 0:
        pytest.skip("mounting needs root on Linux")
    target = tmp_path / "disk"
    target.mkdir()
    done = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=16m", "none", str(target)],
        check=False,
        capture_output=True,
        text=True,
    )
    if done.returncode:
        pytest.skip(f"this system does not let the test mount: {done.stderr.strip()}")
    try:
        yield target
    finally:
        subprocess.run(["umount", "--lazy", str(target)], check=True)


def titles(place: Place, workspace: Path) -> list[str]:
    """Return the titles of the sessions of *workspace*, newest activity first."""
    listed = place.json("sessions", "list", cwd=workspace)["sessions"]
    return [one["title"] for one in listed]


def ask(place: Place, workspace: Path, *arguments: str) -> str:
    """Run one turn; return what was said on standard error."""
    done = place.tinyagent("run", *arguments, cwd=workspace)
    assert done.returncode == 0, done.stderr
    return done.stderr


def history(place: Place) -> str:
    """Return the registry's own history of decisions."""
    return (place.home / "registry.jsonl").read_text(encoding="utf-8")


def require_all_there(place: Place, moved: Path) -> None:
    """Check that both sessions of *moved* are listed, and go on by recency and by id."""
    assert titles(place, moved) == ["two", "one"]
    first = place.json("sessions", "list", cwd=moved)["sessions"][1]["id"]
    ask(place, moved, "three", "--continue")
    ask(place, moved, "four", "--resume", first)
    assert titles(place, moved) == ["one", "two"]
    shown = place.json("sessions", "show", first, cwd=moved)
    assert [one["content"] for one in shown["messages"] if one["role"] == "user"] == ["one", "four"]


@pytest.mark.parametrize("how", ["rename", "rename-a-parent"])
def test_c21_a_renamed_project_keeps_its_sessions(place: Place, how: str) -> None:
    """Listed, continued and resumed by id; audited once; nothing asked and nothing said."""
    old = place.root / "above" / "a"
    old.mkdir(parents=True)
    ask(place, old, "one")
    ask(place, old, "two")
    if how == "rename":
        new = old.rename(old.with_name("b"))
    else:
        new = old.parent.rename(place.root / "renamed") / "a"
    require_all_there(place, new)
    assert history(place).count('"moved"') == 1
    (workspace,) = place.json("workspace", "list")["workspaces"]
    assert workspace["path"] == str(new)


def test_c21_a_project_on_another_disk_keeps_its_sessions(place: Place, disk: Path) -> None:
    """`mv` copies and deletes there: a notice says from where, and how to undo it; then silence."""
    ask(place, place.workspace, "one")
    ask(place, place.workspace, "two")
    new = disk / "b"
    subprocess.run(["mv", str(place.workspace), str(new)], check=True)
    assert titles(place, new) == ["two", "one"]
    said = ask(place, new, "three", "--continue")
    assert str(place.workspace) in said
    assert re.search(r"tinyagent workspace forget [0-9a-f-]{36}", said)
    assert "workspace forget" not in ask(place, new, "four", "--continue")
    assert titles(place, new) == ["two", "one"]
    assert history(place).count('"moved"') == 1


def test_c22_a_copy_has_sessions_of_its_own_for_good(place: Place) -> None:
    """New ones of the copy never appear in the original; deleting that flips nothing back."""
    original, copy = place.workspace, place.root / "c"
    ask(place, original, "in the original")
    subprocess.run(["cp", "-r", str(original), str(copy)], check=True)
    assert titles(place, copy) == []
    ask(place, copy, "in the copy")
    assert titles(place, copy) == ["in the copy"]
    assert titles(place, original) == ["in the original"]
    ask(place, original, "more", "--resume", "latest")
    assert titles(place, original) == ["in the original"]
    shutil.rmtree(original)
    ask(place, copy, "again", "--continue")
    assert titles(place, copy) == ["in the copy"]


def test_c22_a_copy_that_is_opened_first_takes_nothing(place: Place) -> None:
    """Not even while a session of the original is open, and the original writes on."""
    original, copy = place.workspace, place.root / "c"
    held = place.script(
        "held",
        CHAT + "    agent.run('before')\n    print('ready', flush=True)\n    input()\n"
        "    agent.run('after')\n    print('done', flush=True)\n",
    )
    assert line_of(held) == "ready"
    shutil.copytree(original, copy)
    ask(place, copy, "in the copy")
    assert held.stdin is not None
    held.stdin.write("\n")
    held.stdin.flush()
    assert line_of(held) == "done"
    assert titles(place, copy) == ["in the copy"]
    assert titles(place, original) == ["before"]


def test_c23_names_that_differ_in_a_separator_are_five_histories(place: Place) -> None:
    """`data-analysis`, `data/analysis` and their like: each lists and continues its own."""
    names = ["data-analysis", "data/analysis", "data_analysis", "data.analysis", "data analysis"]
    for name in names:
        workspace = place.root / "t" / name
        workspace.mkdir(parents=True)
        ask(place, workspace, f"in {name}")
    for name in names:
        workspace = place.root / "t" / name
        assert titles(place, workspace) == [f"in {name}"]
        ask(place, workspace, "more", "--continue")
        assert titles(place, workspace) == [f"in {name}"]
    assert len(list(place.home.glob("workspaces/*/state.sqlite3"))) == len(names)


def test_c24_a_link_and_its_target_are_one_workspace(place: Place) -> None:
    """A session begun through a link is found at the target, and the other way round."""
    link = place.root / "link"
    link.symlink_to(place.workspace)
    ask(place, link, "by the link")
    assert titles(place, place.workspace) == ["by the link"]
    ask(place, place.workspace, "by the target", "--continue")
    assert titles(place, link) == ["by the link"]
    (listed,) = place.json("workspace", "list")["workspaces"]
    assert listed["path"] == str(place.workspace)


def test_c24_two_spellings_of_one_directory_are_one_workspace(place: Place, disk: Path) -> None:
    """A bind mount has two real paths, as a folder has where case does not count; one is kept."""
    first, second = disk / "zig", disk / "Zig"
    first.mkdir()
    second.mkdir()
    subprocess.run(["mount", "--bind", str(first), str(second)], check=True)
    try:
        ask(place, first, "by one name")
        assert titles(place, second) == ["by one name"]
        ask(place, second, "by the other", "--continue")
        assert titles(place, first) == ["by one name"]
        (listed,) = place.json("workspace", "list")["workspaces"]
        assert listed["path"] == str(first)
    finally:
        subprocess.run(["umount", "--lazy", str(second)], check=True)
