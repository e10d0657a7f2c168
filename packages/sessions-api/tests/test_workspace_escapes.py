"""Every way out of a workspace that we know of, and that none of them is one."""

from __future__ import annotations

import fcntl
import os
import stat
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from confined import (
    STATE_FILE,
    UNSEEN,
    Surroundings,
    descriptor_count,
    make_surroundings,
    refused,
)
from sessions_api import ToolDefinitionInvalid, workspace_tools
from workspace_identity import UnsafeWorkspace, WorkspaceMissing

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path


@pytest.fixture
def around(tmp_path: Path) -> Surroundings:
    """Make a workspace with secrets around it."""
    return make_surroundings(tmp_path)


def link(target: str, *, then: str = "") -> Callable[[Surroundings], str]:
    """Return a way that goes over the symbolic link "way" to *target*, and then on."""

    def make(around: Surroundings) -> str:
        places = {"outside": around.outside, "home": around.home, "ws": around.ws}
        (around.ws / "way").symlink_to(target.format(**places))
        return f"way{then.format(outside=around.outside)}"

    return make


def plain(path: str) -> Callable[[Surroundings], str]:
    """Return a way that needs nothing but its text."""
    return lambda around: path.format(outside=around.outside, ws=around.ws, home=around.home)


def chain(around: Surroundings) -> str:
    """Go out by the third of three links."""
    (around.ws / "a").symlink_to("src/b")
    (around.ws / "src" / "b").symlink_to("../c")
    (around.ws / "c").symlink_to("../outside")
    return "a/secret.txt"


def up_from_a_linked_directory(around: Surroundings) -> str:
    """Climb in a link whose own place is deep, but whose target is not."""
    (around.ws / "src" / "deep").mkdir()
    (around.ws / "src" / "deep" / "top").symlink_to("../..")
    return "src/deep/top/../outside/secret.txt"


def hard_link(around: Surroundings) -> str:
    """Give the database a second name in the workspace."""
    (around.ws / "way").hardlink_to(around.home / STATE_FILE)
    return "way"


def link_to_hard_link(around: Surroundings) -> str:
    """Hide that behind a link inside the workspace."""
    (around.ws / "src" / "hard").hardlink_to(around.home / STATE_FILE)
    (around.ws / "way").symlink_to("src/hard")
    return "way"


WAYS: dict[str, Callable[[Surroundings], str]] = {
    "parent": plain("../outside/secret.txt"),
    "parent later": plain("src/../../outside/secret.txt"),
    "parent of the marker": plain("src/../.tinyagent/workspace-id"),
    "absolute": plain("{outside}/secret.txt"),
    "absolute, doubled slash": plain("/{outside}/secret.txt"),
    "absolute, by way of the workspace": plain("{ws}/../outside/secret.txt"),
    "proc root": plain("/proc/self/root{outside}/secret.txt"),
    "proc root from below": plain("../../../../../../../../proc/self/root{outside}/secret.txt"),
    "escaped dots": plain(r"\x2e\x2e/outside/secret.txt"),
    "escaped slash": plain(r"..\x2foutside\x2fsecret.txt"),
    "escaped absolute": plain(r"\x2f{outside}/secret.txt"),
    "link to a file": link("../outside/secret.txt"),
    "absolute link to a file": link("{outside}/secret.txt"),
    "link to a directory": link("../outside", then="/secret.txt"),
    "absolute link to a directory": link("{outside}", then="/secret.txt"),
    "link to the root": link("/", then="{outside}/secret.txt"),
    "link to proc root": link("/proc/self/root{outside}/secret.txt"),
    "link to proc cwd": link("/proc/self/cwd", then="/pyproject.toml"),
    "dangling link to a file": link("../outside/new.txt"),
    "dangling absolute link": link("{outside}/new.txt"),
    "dangling link to a directory": link("../outside/new", then="/new.txt"),
    "link to what only begins like the workspace": link("{ws}-other/new.txt"),
    "link to itself": link("way"),
    "directory link to itself": link("way", then="/x"),
    "link that grows": link("way/x", then="/x"),
    "link chain": chain,
    "up from a linked directory": up_from_a_linked_directory,
    "link to the state home": link("{home}", then=f"/{STATE_FILE}"),
    "link to the marker": link(".tinyagent", then="/workspace-id"),
    "link to the marker's file": link(".tinyagent/workspace-id"),
    "hard link into the state home": hard_link,
    "link to a hard link": link_to_hard_link,
    "marker": plain(".tinyagent/workspace-id"),
    "marker, new file": plain(".tinyagent/new"),
    "marker, written as a file": plain(".tinyagent"),
    "marker in capitals": plain(".TinyAgent/workspace-id"),
    "marker with a full-width letter": plain(".tinyagen\uff54/workspace-id"),
    "marker with an invisible mark": plain(".tiny\u200dagent/workspace-id"),
    "marker in capitals with one": plain(".TINY\u200dAGENT/workspace-id"),
    "marker with a dot that some systems drop": plain(".tinyagent./workspace-id"),
    "marker of a workspace inside": plain("src/.tinyagent/workspace-id"),
    "marker in directories to be made": plain("new/.tinyagent/workspace-id"),
    "out of directories to be made": plain("new/../../outside/secret.txt"),
    "nul": plain("src/main.py\0.txt"),
    "escaped nul": plain(r"src/main.py\x00"),
    "too long": plain("src/" * 2000 + "x"),
    "too deep": plain("d/" * 100 + "x"),
    "empty": plain(""),
    "the workspace itself": plain("."),
}


@pytest.mark.parametrize("way", WAYS)
def test_no_way_leads_to_reading_or_writing_outside(around: Surroundings, way: str) -> None:
    """Each is refused in words, nothing outside or of ours changes, and nothing is left behind."""
    if way == "too deep":
        (around.ws / ("d/" * 100)).mkdir(parents=True)
    path = WAYS[way](around)
    before, inside = around.snapshot(), sorted(around.ws.rglob("*"))
    tools = around.tools()
    for call, arguments in (("read_file", {}), ("write_file", {"content": "broken in"})):
        assert refused(tools[call], path=path, **arguments).endswith(".")
    assert around.snapshot() == before
    assert sorted(around.ws.rglob("*")) == inside


@pytest.mark.parametrize("way", WAYS)
def test_no_way_leads_to_listing_outside(around: Surroundings, way: str) -> None:
    """Not the directory that holds the secret, and not by a listing that goes deep."""
    path = WAYS[way](around)
    tools = around.tools()
    above = os.path.dirname(path)  # noqa: PTH120 - the text matters: a Path would tidy it up
    if above not in {"", "src"} and not above.startswith("src/main"):
        refused(tools["list_files"], path=above)
    listed = tools["list_files"](depth=16)
    for name in ("secret.txt", "workspace-id", "state.sqlite3", ".tinyagent"):
        assert name not in listed


def test_a_loop_of_links_is_said_to_be_one(around: Surroundings) -> None:
    """Not that something is missing: the model would look for it for ever."""
    (around.ws / "a").symlink_to("src/b")
    (around.ws / "src" / "b").symlink_to("../a")
    assert "loop of symbolic links" in refused(around.tools()["read_file"], path="a")


@pytest.mark.parametrize("kind", ["pipe", "socket", "device"])
def test_what_is_no_file_is_said_and_not_waited_for(around: Surroundings, kind: str) -> None:
    """A pipe without a writer would hold the run for ever; reading a device may do something."""
    path = around.ws / "odd"
    made = {"pipe": stat.S_IFIFO, "socket": stat.S_IFSOCK, "device": stat.S_IFCHR}[kind]
    try:
        os.mknod(path, made | 0o666, os.makedev(1, 5))
    except PermissionError:
        pytest.skip("only root may make a device")
    tools = around.tools()
    assert f"'odd' is not a file but a {kind}." in refused(tools["read_file"], path="odd")
    assert f"a {kind}" in refused(tools["write_file"], path="odd", content="x")
    assert "no directory" in refused(tools["list_files"], path="odd")
    assert "other odd" in tools["list_files"]().splitlines()
    assert stat.S_IFMT(path.lstat().st_mode) == made


def test_a_state_home_in_the_workspace_is_as_if_it_were_not_there(
    around: Surroundings, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The one the agent was given, the variable's and the user's own; also before they exist."""
    homes = {name: around.ws / "src" / name for name in ("given", "named", "user")}
    monkeypatch.setenv("TINYAGENT_STATE_HOME", str(homes["named"]))
    monkeypatch.setenv("HOME", str(homes["user"]))
    homes["user"] /= ".tinyagent"
    tools = around.tools(state_home=homes["given"])
    for exists in (False, True):
        for home in homes.values():
            if exists:
                (home / "workspaces").mkdir(parents=True)
                (home / "secret").write_text(UNSEEN)
            path = str(home.relative_to(around.ws))
            refused(tools["write_file"], path=f"{path}/new", content="x")
            refused(tools["write_file"], path=path, content="x")
            refused(tools["write_file"], path=f"{path.upper()}/new", content="x")
            refused(tools["read_file"], path=f"{path}/secret")
            refused(tools["list_files"], path=path)
            assert home.exists() == exists
    assert tools["list_files"](path="src").splitlines() == ["file 8 src/main.py", "dir src/user"]


def test_a_state_home_is_known_by_its_inode_whatever_its_name(around: Surroundings) -> None:
    """As one directory has two names on a case-insensitive filesystem, and after a move."""
    home = around.ws / "state"
    around.home.rename(home)
    tools = around.tools(state_home=home)
    moved = around.ws / "other"
    home.rename(moved)
    home.symlink_to(moved)  # its old name still leads to it
    before = descriptor_count()
    for path in ("other", "src/../other/workspaces"):
        refused(tools["list_files"], path=path)
    refused(tools["read_file"], path=f"other/{STATE_FILE}")
    refused(tools["write_file"], path="other/x", content="x")
    assert "other" not in tools["list_files"](depth=5)
    assert descriptor_count() == before


def test_a_hard_link_from_elsewhere_is_a_file_like_any_other(around: Surroundings) -> None:
    """Package managers link their files from a cache. A write cuts the link."""
    (around.ws / "linked.txt").hardlink_to(around.outside / "secret.txt")
    tools = around.tools()
    assert tools["read_file"](path="linked.txt") == UNSEEN
    tools["write_file"](path="linked.txt", content="mine")
    assert (around.outside / "secret.txt").read_text() == UNSEEN
    assert (around.ws / "linked.txt").read_text() == "mine"


@pytest.mark.parametrize("home", ["named", "user/.tinyagent"])
def test_a_hard_link_into_any_state_home_is_refused(
    around: Surroundings, monkeypatch: pytest.MonkeyPatch, home: str
) -> None:
    """Also into one that this agent does not use: another one's history is kept there."""
    monkeypatch.setenv("TINYAGENT_STATE_HOME", str(around.path / "named"))
    monkeypatch.setenv("HOME", str(around.path / "user"))
    kept = around.path / home / STATE_FILE
    kept.parent.mkdir(parents=True)
    kept.write_text(UNSEEN)
    (around.ws / "way").hardlink_to(kept)
    tools = around.tools()
    refused(tools["read_file"], path="way")
    refused(tools["write_file"], path="way", content="x")


@pytest.mark.parametrize("call", ["read_file", "write_file"])
def test_the_locks_of_a_database_survive_an_attempt_on_it(around: Surroundings, call: str) -> None:
    """Closing any descriptor on a file cancels this process's locks on it, so none is opened."""
    (around.ws / "way").hardlink_to(around.home / STATE_FILE)
    probe = (
        "import fcntl, sys\n"
        "try:\n"
        "    fcntl.lockf(open(sys.argv[1], 'r+'), fcntl.LOCK_EX | fcntl.LOCK_NB)\n"
        "except OSError:\n"
        "    print('locked')\n"
    )
    with (around.home / STATE_FILE).open("r+") as database:
        fcntl.lockf(database, fcntl.LOCK_EX | fcntl.LOCK_NB)
        arguments = {"content": "x"} if call == "write_file" else {}
        refused(around.tools()[call], path="way", **arguments)
        done = subprocess.run(
            [sys.executable, "-c", probe, str(around.home / STATE_FILE)],
            check=True,
            capture_output=True,
            text=True,
        )
    assert done.stdout == "locked\n"


def test_another_directory_in_place_of_the_workspace_is_not_the_workspace(
    around: Surroundings,
) -> None:
    """Swapped for a link, or made anew: what the tools were made for is gone."""
    tools = around.tools()
    around.ws.rename(around.path / "moved")
    for is_link in (False, True):
        if is_link:
            around.ws.symlink_to(around.outside)
        else:
            around.ws.mkdir()
        refused(tools["read_file"], path="secret.txt")
        refused(tools["write_file"], path="new.txt", content="x")
        refused(tools["list_files"])
        around.ws.unlink() if is_link else around.ws.rmdir()
    assert sorted(path.name for path in around.outside.iterdir()) == ["secret.txt"]


def test_refusals_leave_no_descriptor_open(around: Surroundings) -> None:
    """A chat of a thousand mistakes must not run out of them."""
    paths = [
        WAYS[way](around) for way in ("parent later", "marker", "hard link into the state home")
    ]
    tools = around.tools()
    before = descriptor_count()
    for path in (*paths, "src", "missing/x", "src/main.py/x"):
        refused(tools["read_file"], path=path)
        refused(tools["write_file"], path=path.replace("missing", "../x"), content="x")
        refused(tools["list_files"], path=f"{path}/none")
    tools["list_files"](depth=4, limit=1)
    assert descriptor_count() == before


@pytest.mark.parametrize("inside", ["", STATE_FILE, "workspaces", "workspaces/x"])
def test_a_state_home_is_no_workspace(around: Surroundings, inside: str) -> None:
    """Refused when the tools are made; so is what is no directory."""
    expected = WorkspaceMissing if inside == STATE_FILE else UnsafeWorkspace
    (around.path / "way").symlink_to(around.home)
    for root in (around.home / inside, around.path / "way" / inside):
        with pytest.raises(expected) as caught:
            workspace_tools(root, state_home=around.home)
        assert caught.value.hint
    with pytest.raises(UnsafeWorkspace):
        workspace_tools(around.ws / ".tinyagent", state_home=around.home)
    with pytest.raises(WorkspaceMissing):
        workspace_tools(around.ws / "none", state_home=around.home)


def test_a_system_that_cannot_confine_is_told_at_once(
    around: Surroundings, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Tools that cannot keep their promise are not made."""
    monkeypatch.setattr(os, "supports_dir_fd", os.supports_dir_fd - {os.readlink})
    with pytest.raises(ToolDefinitionInvalid, match="openat") as caught:
        workspace_tools(around.ws)
    assert caught.value.hint
