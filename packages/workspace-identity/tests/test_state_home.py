"""The state home: which one it is, what it must not be, and who may read it."""

from __future__ import annotations

import os
import stat
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from workspace_identity import (
    StateHomeUnusable,
    UnsafeWorkspace,
    Verdict,
    forget,
    open_workspace,
    relink,
    resolve_state_home,
)

if TYPE_CHECKING:
    from collections.abc import Iterator


@pytest.fixture(params=[0o022, 0o000, 0o777], ids=["022", "000", "777"])
def umask(request: pytest.FixtureRequest) -> Iterator[int]:
    """Run the test under a umask."""
    former = os.umask(request.param)
    yield request.param
    os.umask(former)


def modes(top: Path) -> dict[str, int]:
    """Return the permission bits of everything under *top*, itself included."""
    paths = [top, *top.rglob("*")]
    return {str(path.relative_to(top)): stat.S_IMODE(path.lstat().st_mode) for path in paths}


def test_everything_is_private_whatever_the_umask(
    project: Path, state_home: Path, umask: int, as_plain_user: None
) -> None:
    """C34: directories 0700, files 0600, after every operation that writes."""
    first = open_workspace(project)
    project.rename(project.with_name("moved"))
    open_workspace(project.with_name("moved"))
    forget(first.id)
    relink(first.id, project.with_name("moved"))
    for top in (state_home, project.with_name("moved") / ".tinyagent"):
        for name, mode in modes(top).items():
            assert mode == (0o700 if (top / name).is_dir() else 0o600), name
    assert (state_home / "registry.lock").is_file()
    assert (state_home / "registry.jsonl").is_file()


def test_files_are_private_from_the_moment_they_exist(
    project: Path, tmp_path: Path, state_home: Path
) -> None:
    """C34: no file or directory is created wider and narrowed afterwards; seen by an audit hook."""
    script = tmp_path / "watch.py"
    script.write_text(
        "import os, sys\n"
        "os.umask(0)\n"
        "wide = []\n"
        "def watch(event, arguments):\n"
        "    if event == 'os.mkdir' and arguments[1] & 0o077:\n"
        "        wide.append(arguments)\n"
        "real = os.open\n"
        "def opened(path, flags, mode=0o777, *, dir_fd=None):\n"
        "    if flags & os.O_CREAT and mode & 0o077:\n"
        "        wide.append((path, mode))\n"
        "    return real(path, flags, mode, dir_fd=dir_fd)\n"
        "os.open = opened\n"
        "sys.addaudithook(watch)\n"
        "from workspace_identity import open_workspace\n"
        "open_workspace(sys.argv[1])\n"
        "sys.exit(repr(wide) if wide else 0)\n"
    )
    done = subprocess.run(
        [sys.executable, str(script), str(project)], check=False, capture_output=True, text=True
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert state_home.is_dir()


def test_a_state_home_made_by_others_keeps_its_mode(project: Path, state_home: Path) -> None:
    """Naming a shared directory must not lock others out of it; what we make inside is private."""
    state_home.mkdir(mode=0o755)
    open_workspace(project)
    found = modes(state_home)
    assert found.pop(".") == 0o755
    assert all(not mode & 0o077 for mode in found.values())


def test_the_argument_comes_before_the_environment_and_that_before_the_home() -> None:
    """One order of precedence, and an empty value is none."""
    environ = {"TINYAGENT_STATE_HOME": "/env", "HOME": "/user"}
    assert resolve_state_home("/given", environ=environ) == Path("/given")
    assert resolve_state_home(environ=environ) == Path("/env")
    assert resolve_state_home(environ={"HOME": "/user"}) == Path("/user/.tinyagent")
    empty = {"HOME": "/user", "TINYAGENT_STATE_HOME": ""}
    assert resolve_state_home(environ=empty) == Path("/user/.tinyagent")
    assert resolve_state_home("~/x", environ=environ) == Path("/user/x")


def test_a_relative_state_home_becomes_absolute(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is meant from the directory where the program was started."""
    monkeypatch.chdir(tmp_path)
    assert resolve_state_home("state") == tmp_path / "state"
    assert not (tmp_path / "state").exists()


def test_a_relative_state_home_in_a_directory_that_is_gone_is_a_typed_error(
    project: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The message says what it is relative to."""
    (tmp_path / "gone").mkdir()
    monkeypatch.chdir(tmp_path / "gone")
    (tmp_path / "gone").rmdir()
    with pytest.raises(StateHomeUnusable, match="relative to the current directory"):
        open_workspace(project, state_home="state")


def test_a_state_home_that_is_no_path_is_a_typed_error() -> None:
    """NUL cannot be in a path."""
    with pytest.raises(StateHomeUnusable):
        resolve_state_home("a\0b")


@pytest.mark.parametrize("inside", ["", "state", "deep/er/state"])
def test_a_workspace_that_is_or_contains_the_state_home_is_refused(
    project: Path, inside: str
) -> None:
    """Tools of an agent must not reach the database; the hint names `--workspace`."""
    with pytest.raises(UnsafeWorkspace) as caught:
        open_workspace(project, state_home=project / inside)
    assert "--workspace" in caught.value.hint
    assert isinstance(caught.value, ValueError)
    assert list(project.iterdir()) == []


def test_the_user_home_is_refused_while_the_state_home_is_in_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Starting in `~` is the usual way to meet this; the state home need not exist yet."""
    monkeypatch.delenv("TINYAGENT_STATE_HOME")
    (tmp_path / "user-home").mkdir()
    with pytest.raises(UnsafeWorkspace, match="contains the state home"):
        open_workspace(tmp_path / "user-home")
    assert list((tmp_path / "user-home").iterdir()) == []


def test_a_link_does_not_hide_that_the_state_home_is_inside(project: Path, tmp_path: Path) -> None:
    """Both are compared as real paths."""
    (project / "state").mkdir()
    (tmp_path / "link").symlink_to(project)
    (tmp_path / "state-link").symlink_to(project / "state")
    with pytest.raises(UnsafeWorkspace):
        open_workspace(tmp_path / "link", state_home=project / "state")
    with pytest.raises(UnsafeWorkspace):
        open_workspace(project, state_home=tmp_path / "state-link")


def test_the_root_of_the_filesystem_is_refused() -> None:
    """It contains everything."""
    with pytest.raises(UnsafeWorkspace, match="root of the filesystem"):
        open_workspace("/")


def test_the_state_of_a_workspace_is_no_workspace(project: Path) -> None:
    """Its tools could write the database of another one."""
    opened = open_workspace(project)
    for inside in (opened.paths.state_dir, opened.paths.journal_dir, opened.paths.state_dir.parent):
        with pytest.raises(UnsafeWorkspace):
            open_workspace(inside)


def test_a_project_beside_the_rooms_of_the_state_home_is_allowed(state_home: Path) -> None:
    """Only the state itself is out of bounds."""
    (state_home / "project").mkdir(parents=True)
    assert open_workspace(state_home / "project").verdict is Verdict.NEW


def test_a_state_home_that_cannot_be_written_is_a_typed_error(
    project: Path, state_home: Path, as_plain_user: None
) -> None:
    """The operating system's error is the cause, and the workspace is left without a marker."""
    state_home.mkdir(mode=0o500)
    with pytest.raises(StateHomeUnusable) as caught:
        open_workspace(project)
    assert isinstance(caught.value, OSError)
    assert isinstance(caught.value.__cause__, PermissionError)
    assert "TINYAGENT_STATE_HOME" in caught.value.hint
    assert list(project.iterdir()) == []


def test_a_message_about_the_state_home_names_no_temporary_file(
    project: Path, as_plain_user: None
) -> None:
    """It says which state home cannot be used, and what the operating system said."""
    first = open_workspace(project)
    first.paths.state_dir.chmod(0o500)
    with pytest.raises(StateHomeUnusable) as caught:
        relink(first.id, project)
    assert str(first.state_home) in str(caught.value)
    assert "Permission denied" in str(caught.value)
    assert ".tmp" not in str(caught.value)


def test_a_file_in_place_of_the_state_home_is_a_typed_error(
    project: Path, state_home: Path
) -> None:
    """The same when it is no directory at all."""
    state_home.write_text("")
    with pytest.raises(StateHomeUnusable):
        open_workspace(project)


def test_rooms_that_are_links_are_refused(project: Path, state_home: Path, tmp_path: Path) -> None:
    """A link could lead the database back into a workspace."""
    state_home.mkdir()
    (tmp_path / "elsewhere").mkdir()
    (state_home / "workspaces").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(StateHomeUnusable):
        open_workspace(project)


def test_a_state_home_behind_a_link_is_used_where_it_leads(project: Path, tmp_path: Path) -> None:
    """Moving all state to another disk and leaving a link is what people do."""
    elsewhere, link = tmp_path / "elsewhere", tmp_path / "link"
    elsewhere.mkdir()
    link.symlink_to(elsewhere)
    opened = open_workspace(project, state_home=link)
    assert opened.state_home == elsewhere
    assert open_workspace(project, state_home=elsewhere).id == opened.id


def test_a_state_home_whose_path_is_no_text_is_refused_before_anything_is_written(
    project: Path, tmp_path: Path
) -> None:
    """SQLite takes UTF-8 paths only, so this fails while nothing has happened yet."""
    with pytest.raises(StateHomeUnusable):
        open_workspace(project, state_home=os.fsdecode(os.fsencode(tmp_path) + b"/x\xff"))
    assert list(project.iterdir()) == []
