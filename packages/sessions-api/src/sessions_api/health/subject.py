"""What the checks look at: one workspace, as far as it can be got at.

Owns the order in which the parts become known: state home, identity, the store from outside, the
store from inside. Invariant: a part that cannot be had is None and the reason is told once, by
the check whose subject it is; the store is opened for reading alone, and only when that upgrades
and finishes nothing.
"""

from __future__ import annotations

from contextlib import ExitStack
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Self

from state_store import Maintenance, Progress, SqliteStore, StateStoreError, silent

if TYPE_CHECKING:
    from pathlib import Path

    from sessions_api.health.findings import Finding
    from state_store import Surroundings
    from workspace_identity import Inspection, WorkspacePaths

# As commands have it: whoever still has the store open then stays for longer.
_PATIENCE_MS = 2_000


@dataclass(slots=True, kw_only=True)
class Subject:
    """A workspace under examination. Use it as a context manager; it closes what it opened.

    `workspace` is the directory as it was named, for commands that people are told to type.
    `readable`: the schema is this program's, and nothing keeps the database from being read.
    `errors` are those that findings were made of.
    """

    workspace: str
    state_home: Path | None = None
    every_journal: bool = False
    progress: Progress = silent
    found: Inspection | None = None
    readable: bool = False
    errors: list[Exception] = field(default_factory=list)
    findings: list[Finding] = field(default_factory=list)
    _around: Surroundings | None = None
    _store: SqliteStore | None = None
    _open: ExitStack = field(default_factory=ExitStack)

    @property
    def paths(self) -> WorkspacePaths | None:
        """Where the workspace's state lies; None when it has no id yet, or none can be told."""
        return None if self.found is None else self.found.paths

    @property
    def maintenance(self) -> Maintenance | None:
        """The store from outside, on whatever filesystem."""
        if self.found is None or self.found.id is None or self.found.paths is None:
            return None
        return Maintenance(
            self.found.paths.database,
            workspace_id=self.found.id,
            owners_dir=self.found.paths.owners,
            busy_timeout_ms=_PATIENCE_MS,
            allow_network_filesystem=True,
            progress=self.progress,
        )

    @property
    def around(self) -> Surroundings | None:
        """What the store stands on, looked at once."""
        if self._around is None and (maintenance := self.maintenance) is not None:
            self._around = maintenance.look_around()
        return self._around

    @property
    def store(self) -> SqliteStore | None:
        """The store, open for reading; None when it cannot be read as it is."""
        if self._store is None and self.readable and self.found is not None and self.found.paths:
            try:
                self._store = SqliteStore.open(
                    self.found.paths.database,
                    workspace_id=self.found.id or "",
                    writing=False,
                    owners_dir=self.found.paths.owners,
                    busy_timeout_ms=_PATIENCE_MS,
                    allow_network_filesystem=True,
                )
            except (StateStoreError, OSError) as error:
                self.readable = False
                self.errors.append(error)
                return None
            self._open.callback(self._store.close)
        return self._store

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._open.close()
