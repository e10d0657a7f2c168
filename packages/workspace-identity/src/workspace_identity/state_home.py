"""The state home: where everything about workspaces is kept, always outside of them.

It is `TINYAGENT_STATE_HOME`, or `~/.tinyagent`. Directories made here are 0700 from the moment they
exist, whatever the umask; a state home that somebody else made is used as it is and its mode is
left alone. Nothing here looks into a workspace.
"""

from __future__ import annotations

import contextlib
import os
import stat
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from workspace_identity.directory import PRIVATE_DIR_MODE
from workspace_identity.errors import StateHomeUnusable, WorkspaceIdentityError

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

STATE_HOME_VARIABLE = "TINYAGENT_STATE_HOME"
WORKSPACES_DIR = "workspaces"
LOGS_DIR = "logs"
RECORD_NAME = "workspace.json"

_HINT = f"Set {STATE_HOME_VARIABLE} to a directory on a local disk that you can write."


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkspacePaths:
    """Where the state of one workspace lives. Only `state_dir` and `journal_dir` surely exist."""

    state_dir: Path
    record: Path
    database: Path
    exports: Path
    owners: Path
    journal_dir: Path

    @classmethod
    def of(cls, state_home: Path, workspace_id: str) -> WorkspacePaths:
        """Return the paths of *workspace_id*, which must have been validated, in *state_home*."""
        state_dir = state_home / WORKSPACES_DIR / workspace_id
        return cls(
            state_dir=state_dir,
            record=state_dir / RECORD_NAME,
            database=state_dir / "state.sqlite3",
            exports=state_dir / "exports",
            owners=state_dir / "owners",
            journal_dir=state_home / LOGS_DIR / workspace_id,
        )


def resolve_state_home(
    state_home: str | os.PathLike[str] | None = None, *, environ: Mapping[str, str] | None = None
) -> Path:
    """Return the absolute path of the state home, links resolved; creates nothing.

    The argument comes first, then `TINYAGENT_STATE_HOME`, then `.tinyagent` in the user's home. An
    empty value counts as none, a leading `~` as the home, a relative path from the current
    directory. Raises StateHomeUnusable when the user's home cannot be found, the current directory
    that it is relative to is gone, or the path is no text (SQLite takes UTF-8 paths only).
    """
    variables = os.environ if environ is None else environ
    chosen = "" if state_home is None else os.fspath(state_home)
    chosen = chosen or variables.get(STATE_HOME_VARIABLE, "") or "~/.tinyagent"
    own_home = variables.get("HOME", "") if os.name == "posix" else ""
    if own_home and chosen.split("/", 1)[0] == "~":
        chosen = own_home + chosen[1:]
    try:
        path = Path(chosen).expanduser().absolute()
        os.fspath(path).encode()
        # What is written below it is opened without following links, so they are followed here.
        return Path(os.path.realpath(path))
    except (RuntimeError, ValueError) as error:  # no home, a NUL, or no valid text
        raise _unusable(chosen, "it is no path") from error
    except OSError as error:
        reason = f"it is relative to the current directory: {error.strerror or error}"
        raise _unusable(chosen, reason) from error


def _unusable(chosen: str, reason: str) -> StateHomeUnusable:
    return StateHomeUnusable(
        f"Cannot use {chosen!r} as the state home: {reason}.",
        hint=_HINT,
        state_home=Path(chosen),
    )


def prepare_state_home(state_home: Path) -> None:
    """Create the state home and its two rooms where they are missing, mode 0700, parents too."""
    with state_home_errors(state_home):
        make_private_dir(state_home)
        for room in (WORKSPACES_DIR, LOGS_DIR):
            make_private_dir(state_home / room)
            if not stat.S_ISDIR((state_home / room).lstat().st_mode):
                raise StateHomeUnusable(
                    f"Cannot use {state_home / room}: it is a symbolic link.",
                    hint="Replace the link by a directory; "
                    f"to move all state, set {STATE_HOME_VARIABLE}.",
                    state_home=state_home,
                )


def prepare_rooms(state_home: Path, paths: WorkspacePaths) -> None:
    """Make sure that the two directories of one workspace exist, mode 0700."""
    with state_home_errors(state_home):
        make_private_dir(paths.state_dir)
        make_private_dir(paths.journal_dir)


def make_private_dir(path: Path) -> None:
    """Create *path* and missing parents, each 0700 from the moment it exists."""
    if path.is_dir():
        return
    if path.parent != path:
        make_private_dir(path.parent)
    with contextlib.suppress(FileExistsError):
        path.mkdir(mode=PRIVATE_DIR_MODE)
        if stat.S_IMODE(path.lstat().st_mode) != PRIVATE_DIR_MODE:  # the umask took our own bits
            path.chmod(PRIVATE_DIR_MODE)


@contextlib.contextmanager
def state_home_errors(state_home: Path) -> Iterator[None]:
    """Turn what the operating system says about the state home into StateHomeUnusable."""
    try:
        yield
    except WorkspaceIdentityError:  # some of ours are an OSError too
        raise
    except OSError as error:
        # A name that is relative to a descriptor, often that of a temporary file, helps nobody.
        is_whole = isinstance(error.filename, str) and Path(error.filename).is_absolute()
        where = f" at {error.filename}" if is_whole else ""
        raise StateHomeUnusable(
            f"Cannot use the state home {state_home}: {error.strerror or error}{where}.",
            hint=_HINT,
            state_home=state_home,
        ) from error
