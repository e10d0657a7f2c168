"""Processes that end in the middle: before each change that they make to the disk, one by one."""

from __future__ import annotations

import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from pathlib import Path

# A case prepares a world, changes it with one call, and says what must be true afterwards, however
# far that call came. The process dies before its first, second, third ... change of the disk until
# it gets through. All in one interpreter, because each death costs a fork and no more.
CRASHES = """
import os, pathlib, shutil, sys
from workspace_identity import forget, list_workspaces, open_workspace, relink
from workspace_identity.history import History

CHANGES = {"os.mkdir", "os.rename", "os.link", "os.remove", "os.rmdir", "os.chmod"}

class World:
    def __init__(self, root):
        self.home, self.project, self.other = root / "home", root / "project", root / "other"
        self.project.mkdir(parents=True)
        self.first = None

    def open(self, path):
        return open_workspace(path, state_home=self.home)

    def settle(self, path):
        opened = self.open(path)
        again = self.open(path)
        assert (again.id, again.verdict) == (opened.id, "known"), (opened, again)
        assert (path / ".tinyagent/workspace-id").read_text() == opened.id + "\\n"
        return opened

    def require_audited(self):
        for record in list_workspaces(state_home=self.home):
            history = History(self.home)
            last = history.last_record(record.id) or history.last_forgotten(record.id)
            assert last is not None
            assert record.path in (None, pathlib.Path(last.path)), "not in the history"

class New(World):
    def act(self):
        self.open(self.project)
    def check(self):
        opened = self.settle(self.project)
        assert [record.id for record in list_workspaces(state_home=self.home)] == [opened.id]
        self.require_audited()

class Known(World):
    def __init__(self, root):
        super().__init__(root)
        self.first = self.open(self.project)
        self.first.paths.database.write_text("history")
    def check_kept(self, path):
        opened = self.settle(path)
        assert opened.id == self.first.id
        assert opened.paths.database.read_text() == "history"
        self.require_audited()

class Moved(Known):
    def act(self):
        self.project.rename(self.other)
        self.open(self.other)
    def check(self):
        self.check_kept(self.other if self.other.exists() else self.project)

class MovedToAnotherDisk(Known):
    def __init__(self, root):
        super().__init__(root)
        shutil.copytree(self.project, self.other)
        shutil.rmtree(self.project)
    def act(self):
        self.open(self.other)
    def check(self):
        self.check_kept(self.other)

class Copied(Known):
    def __init__(self, root):
        super().__init__(root)
        shutil.copytree(self.project, self.other)
    def act(self):
        self.open(self.other)
    def check(self):
        assert self.settle(self.other).id != self.first.id
        self.check_kept(self.project)

class Restored(MovedToAnotherDisk):
    def __init__(self, root):
        super().__init__(root)
        shutil.copytree(self.other, self.project)
    def act(self):
        self.open(self.project)
    def check(self):
        self.check_kept(self.project)

class Healed(Known):
    def __init__(self, root):
        super().__init__(root)
        shutil.rmtree(self.project / ".tinyagent")
    def act(self):
        self.open(self.project)
    def check(self):
        self.check_kept(self.project)

class Relinked(Copied):
    def __init__(self, root):
        super().__init__(root)
        self.second = self.open(self.other)
    def act(self):
        relink(self.first.id, self.other, state_home=self.home)
    def check(self):
        assert self.settle(self.other).id in (self.first.id, self.second.id)
        relink(self.first.id, self.other, state_home=self.home)
        self.check_kept(self.other)
        assert self.settle(self.project).id != self.first.id
        listed = {record.id for record in list_workspaces(state_home=self.home)}
        assert {self.first.id, self.second.id} <= listed

class Forgotten(Known):
    def act(self):
        forget(self.first.id, state_home=self.home)
    def check(self):
        self.settle(self.project)
        forget(self.first.id, state_home=self.home)
        assert self.settle(self.project).id != self.first.id
        relink(self.first.id, self.project, state_home=self.home)
        self.check_kept(self.project)

def die_before(number, act):
    count = 0
    def watch(event, arguments):
        nonlocal count
        if event in CHANGES or event == "open" and arguments[2] & os.O_CREAT:
            count += 1
            if count == number:
                os._exit(9)
    sys.addaudithook(watch)
    act()
    os._exit(0)

case = globals()[sys.argv[2]]
number, status = 0, 9
while status == 9:
    number += 1
    world = case(pathlib.Path(sys.argv[1], str(number)))
    pid = os.fork()
    if pid == 0:
        try:
            die_before(number, world.act)
        finally:
            os._exit(1)
    status = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    try:
        world.check()
    except BaseException as error:
        error.add_note(f"died before change {number}")
        raise
assert status == 0, status
print(number - 1)
"""


@pytest.mark.parametrize(
    ("case", "least"),
    [
        ("New", 10),
        ("Moved", 4),
        ("MovedToAnotherDisk", 4),
        ("Copied", 7),
        ("Restored", 4),
        ("Healed", 7),
        ("Relinked", 6),
        ("Forgotten", 5),
    ],
)
def test_a_death_at_any_moment_leaves_what_the_next_open_puts_right(
    tmp_path: Path, case: str, least: int
) -> None:
    """Same id where a history is at stake, none shared, marker whole, settled at once.

    And no record says, in the end, what the registry's history of decisions does not say too.
    """
    done = subprocess.run(
        [sys.executable, "-c", CRASHES, str(tmp_path), case],
        check=False,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    assert int(done.stdout) >= least
