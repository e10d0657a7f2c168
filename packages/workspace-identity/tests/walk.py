"""A world of directories beside a model of it that is small enough to be right by reading.

The model knows what no program can see: which directory is which, whatever its name. Its rule for
an open is the law of the package in a few lines, written independently of the code under test. A
step that both sides take differently, an id that two living directories share, or a history that
cannot be found again is an AssertionError.
"""

from __future__ import annotations

import shutil
import time
import uuid
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from workspace_identity import (
    Place,
    forget,
    inspect_workspace,
    list_workspaces,
    open_workspace,
    relink,
)
from workspace_identity.directory import Directory
from workspace_identity.place import place_of

if TYPE_CHECKING:
    import random
    from collections.abc import Callable
    from pathlib import Path

PATHS = ("a", "b", "c", "p/a", "p/b", "q/a", "q/c", "r/b")
PARENTS = ("p", "q", "r")
DAMAGED = "damaged"


@dataclass(slots=True)
class Node:
    """A directory of the model: who it is, and what its marker holds (None: no marker)."""

    token: int
    marker: str | None


@dataclass(frozen=True, slots=True)
class Seen:
    """The model's record of a workspace."""

    path: str
    token: int


@dataclass(slots=True)
class World:
    """Real directories below *root*, and the model of them."""

    root: Path
    chance: random.Random
    nodes: dict[str, Node] = field(default_factory=dict)
    seen: dict[str, Seen] = field(default_factory=dict)
    forgotten: dict[str, Seen] = field(default_factory=dict)
    backup: Seen | None = None
    backup_marker: str | None = None
    ids: set[str] = field(default_factory=set)
    places: dict[Place, int] = field(default_factory=dict)
    decision_count: int = 0
    rows: dict[int, int] = field(default_factory=dict)
    story: list[str] = field(default_factory=list)

    @property
    def home(self) -> Path:
        """Return the state home of this world."""
        return self.root / "home"

    def walk(self, step_count: int) -> None:
        """Take *step_count* steps at random, and look at everything at the end."""
        self.home.mkdir()
        for parent in PARENTS:
            (self.root / parent).mkdir()
        steps = [self.make, self.copy, self.move, self.move_parent, self.remove, self.back_up]
        steps += [self.restore, self.overwrite_marker, self.harm_marker, self.forget, self.relink]
        weights = [3, 4, 4, 2, 2, 2, 4, 1, 1, 0.4, 0.4]
        for _ in range(step_count):
            if self.chance.random() < 0.5 and self.nodes:
                self.open(self.chance.choice(sorted(self.nodes)))
            else:
                self.chance.choices(steps, weights)[0]()
        self.look_at_all()

    # What people do to directories.

    def make(self) -> None:
        """Make an empty directory."""
        path = self._free()
        if path is not None:
            self.story.append(f"mkdir {path}")
            self._born(path, None, lambda target: target.mkdir())

    def copy(self) -> None:
        """Copy a directory, marker and all."""
        source, target = self._any(), self._free()
        if source is not None and target is not None:
            self.story.append(f"cp -r {source} {target}")
            marker = self.nodes[source].marker
            self._born(target, marker, lambda to: shutil.copytree(self.root / source, to))

    def move(self) -> None:
        """Rename a directory."""
        source, target = self._any(), self._free()
        if source is not None and target is not None:
            self.story.append(f"mv {source} {target}")
            (self.root / source).rename(self.root / target)
            self.nodes[target] = self.nodes.pop(source)

    def move_parent(self) -> None:
        """Let two directories that hold others change names."""
        one, two = self.chance.sample(PARENTS, 2)
        self.story.append(f"mv {one} t; mv {two} {one}; mv t {two}")
        (self.root / one).rename(self.root / "t")
        (self.root / two).rename(self.root / one)
        (self.root / "t").rename(self.root / two)
        other = {one: two, two: one}
        moved = {}
        for path, node in self.nodes.items():
            parent, _, name = path.rpartition("/")
            moved[f"{other.get(parent, parent)}/{name}" if parent else name] = node
        self.nodes = moved

    def remove(self) -> None:
        """Remove a directory and all that is in it."""
        path = self._any()
        if path is not None:
            self.story.append(f"rm -r {path}")
            shutil.rmtree(self.root / path)
            del self.nodes[path]

    def back_up(self) -> None:
        """Copy a directory to where nobody opens it."""
        path = self._any()
        if path is not None:
            self.story.append(f"backup {path}")
            shutil.rmtree(self.root / "backup", ignore_errors=True)
            shutil.copytree(self.root / path, self.root / "backup")
            self.backup = Seen(path, self.nodes[path].token)
            self.backup_marker = self.nodes[path].marker

    def restore(self) -> None:
        """Put the backup back, or anywhere, in the place of what is there."""
        if self.backup is None:
            return
        path = self.backup.path if self.chance.random() < 0.6 else self.chance.choice(PATHS)
        self.story.append(f"restore {path}")
        shutil.rmtree(self.root / path, ignore_errors=True)
        self.nodes.pop(path, None)
        source = self.root / "backup"
        self._born(path, self.backup_marker, lambda to: shutil.copytree(source, to))

    def overwrite_marker(self) -> None:
        """Copy one directory's marker over another's, as `rsync` does."""
        source, target = self._any(), self._any()
        if source == target or source is None or target is None:
            return
        if self.nodes[source].marker is not None:
            self.story.append(f"rsync {source} {target}")
            (self.root / target / ".tinyagent").mkdir(exist_ok=True)
            shutil.copy2(self._marker(source), self._marker(target))
            self.nodes[target].marker = self.nodes[source].marker

    def harm_marker(self) -> None:
        """Remove a marker, as `git clean` does, or damage it."""
        path = self._any()
        if path is None or self.nodes[path].marker is None:
            return
        if self.chance.random() < 0.5:
            self.story.append(f"rm -r {path}/.tinyagent")
            shutil.rmtree(self.root / path / ".tinyagent")
            self.nodes[path].marker = None
        else:
            self.story.append(f"truncate {path}/.tinyagent/workspace-id")
            self._marker(path).write_bytes(b"1111")
            self.nodes[path].marker = DAMAGED

    # What they do to workspaces.

    def forget(self) -> None:
        """Take its directory from a workspace."""
        if not self.seen:
            return
        workspace_id = self.chance.choice(sorted(self.seen))
        self.story.append(f"forget {workspace_id}")
        forget(workspace_id, state_home=self.home)
        at = self.forgotten[workspace_id] = self.seen.pop(workspace_id)
        node = self.nodes.get(at.path)
        if node is not None and node.token == at.token and node.marker == workspace_id:
            node.marker = None
        self.decision_count += 1

    def relink(self) -> None:
        """Give a workspace another directory."""
        path = self._any()
        if not self.ids or path is None:
            return
        workspace_id = self.chance.choice(sorted(self.ids))
        self.story.append(f"relink {workspace_id} {path}")
        node = self.nodes[path]
        for other, at in list(self.seen.items()):
            if at == Seen(path, node.token) and other != workspace_id:
                self.forgotten[other] = self.seen.pop(other)
                self.decision_count += 1
        relink(workspace_id, self.root / path, state_home=self.home)
        node.marker = workspace_id
        self.seen[workspace_id] = Seen(path, node.token)
        self.forgotten.pop(workspace_id, None)
        self.decision_count += 1

    def open(self, path: str) -> None:
        """Open a directory, and compare with the model what comes of it."""
        node = self.nodes[path]
        row, expected = self.expect(path)
        self.story.append(f"open {path}: row {row}")
        seen_first = inspect_workspace(self.root / path, state_home=self.home)
        assert (seen_first.row, seen_first.id) == (row, expected)
        opened = open_workspace(self.root / path, state_home=self.home, new_id=self._new_id)
        assert opened.row == row
        if expected is None:
            assert opened.id not in self.ids, "a new id is one that nobody had"
            assert not opened.paths.database.exists(), "a new history is empty"
            opened.paths.database.write_text(opened.id)
        else:
            assert opened.id == expected
        assert opened.paths.database.read_text() == opened.id, "the history came along"
        self._require_single(opened.id, node.token)
        node.marker = opened.id
        self.ids.add(opened.id)
        if row not in (2, 7):
            self.seen[opened.id] = Seen(path, node.token)
            self.forgotten.pop(opened.id, None)
            self.decision_count += 1
        assert self._marker(path).read_text() == opened.id + "\n"
        self.rows[row] = self.rows.get(row, 0) + 1

    def expect(self, path: str) -> tuple[int, str | None]:
        """Say which row applies to *path* and which id it keeps, None for a new one."""
        node = self.nodes[path]
        here = [one for one, at in self.seen.items() if at == Seen(path, node.token)]
        if here:
            return (2 if node.marker == here[0] else 3), here[0]
        if node.marker is None or node.marker == DAMAGED:
            return 4, None
        at = self.seen.get(node.marker)
        if at is None:
            former = self.forgotten.get(node.marker)
            is_former = former is not None and former.token == node.token
            return (4, None) if is_former else (6, node.marker)
        if at.token == node.token:
            return 8, node.marker
        if at.path == path:
            return 11, node.marker
        there = self.nodes.get(at.path)
        if there is not None and there.token == at.token:
            return 9, None
        if there is not None and there.marker == node.marker:
            return 10, None
        return 13, node.marker

    # What must be true.

    def look_at_all(self) -> None:
        """Check that every history ever begun is there, listed, and every decision recorded."""
        listed = {record.id: record for record in list_workspaces(state_home=self.home)}
        assert set(listed) == self.ids, "no workspace is lost"
        for workspace_id in self.ids:
            assert listed[workspace_id].paths.database.read_text() == workspace_id
            at = self.seen.get(workspace_id)
            assert listed[workspace_id].path == (None if at is None else self.root / at.path)
        journal = self.home / "registry.jsonl"
        lines = journal.read_bytes().splitlines() if journal.exists() else []
        assert len(lines) == self.decision_count
        for path in sorted(self.nodes):
            self.open(path)
        held = [self.nodes[path].marker for path in self.nodes]
        assert len(set(held)) == len(held), "no two living directories have one history"

    def _new_id(self) -> str:
        """Return an id that follows from the seed: what is chosen among ids is repeated too."""
        return str(uuid.UUID(int=self.chance.getrandbits(128), version=4))

    def _require_single(self, workspace_id: str, token: int) -> None:
        """Nobody else who is still where the registry saw it last has this history."""
        at = self.seen.get(workspace_id)
        if at is not None and at.token != token:
            living = self.nodes.get(at.path)
            assert living is None or living.token != at.token

    def _born(self, path: str, marker: str | None, make: Callable[[Path], object]) -> None:
        """Make a directory that has a place of its own.

        Within one tick of the filesystem's clock a new directory can get the place of a removed
        one; nobody can tell those two apart, and the documents say so.
        """
        target, token = self.root / path, len(self.places)
        make(target)
        while (place := _place(target)) in self.places:
            shutil.rmtree(target)
            time.sleep(0.005)
            make(target)
        self.places[place] = token
        self.nodes[path] = Node(token=token, marker=marker)

    def _marker(self, path: str) -> Path:
        return self.root / path / ".tinyagent" / "workspace-id"

    def _any(self) -> str | None:
        return self.chance.choice(sorted(self.nodes)) if self.nodes else None

    def _free(self) -> str | None:
        free = [path for path in PATHS if path not in self.nodes]
        return self.chance.choice(free) if free else None


def _place(path: Path) -> Place:
    with Directory.open(path) as directory:
        return place_of(directory)
