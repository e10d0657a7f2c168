"""Where a store lies, whose it is, and how it is opened: what all that open it have to agree on."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path  # noqa: TC003 - a field's type resolves at run time
from typing import Self

from state_store.clock import Clock, utc_now
from state_store.progress import Progress, silent
from state_store.sqlite import filesystem
from state_store.sqlite.schema import SCHEMA, Schema

BUSY_TIMEOUT_MS = 5_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """One store's place. Make it with `at`, which resolves the paths."""

    path: Path
    owners_dir: Path
    workspace_id: str
    clock: Clock
    busy_timeout_ms: int
    schema: Schema
    progress: Progress

    @classmethod
    def at(
        cls,
        path: Path,
        *,
        workspace_id: str,
        owners_dir: Path | None = None,
        clock: Clock = utc_now,
        busy_timeout_ms: int = BUSY_TIMEOUT_MS,
        allow_network_filesystem: bool = False,
        schema: Schema = SCHEMA,
        progress: Progress = silent,
    ) -> Self:
        """Resolve the paths, and refuse a filesystem that cannot carry a store.

        Another name of the file, or another working directory, must not make an owner look dead.
        """
        path = path.resolve()
        if not allow_network_filesystem:
            filesystem.require_local(path)
        return cls(
            path=path,
            owners_dir=path.parent / "owners" if owners_dir is None else owners_dir.resolve(),
            workspace_id=workspace_id,
            clock=clock,
            busy_timeout_ms=busy_timeout_ms,
            schema=schema,
            progress=progress,
        )
