"""What can go wrong with a workspace, as types.

    WorkspaceIdentityError
    ├── UnsafeWorkspace (ValueError)        this directory must not be a workspace
    ├── WorkspaceMissing (OSError)          there is no directory to open
    ├── MarkerDamaged (ValueError)          the marker cannot be read and nothing can replace it
    ├── UnknownWorkspace (LookupError)      no workspace has this id
    ├── RegistryBusy (TimeoutError)         another process holds the registry
    └── StateHomeUnusable (OSError)         the state home cannot be read or written

Each carries its facts as attributes and `hint`, one line that says what to do next. All survive
pickling. No message holds the content of a marker or of a record.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path


class WorkspaceIdentityError(Exception):
    """The root of everything this package raises on purpose."""

    hint: str

    def __init__(self, message: str, *, hint: str) -> None:
        super().__init__(message)
        self.hint = hint

    def __reduce__(
        self,
    ) -> tuple[
        Callable[..., WorkspaceIdentityError],
        tuple[type[WorkspaceIdentityError], tuple[object, ...], dict[str, object]],
    ]:
        """Rebuild from class, arguments and attributes: the initialisers are keyword-only."""
        return _rebuild, (type(self), self.args, dict(self.__dict__))


def _rebuild(
    error_type: type[WorkspaceIdentityError],
    arguments: tuple[object, ...],
    attributes: dict[str, object],
) -> WorkspaceIdentityError:
    error = error_type.__new__(error_type, *arguments)
    error.args = arguments
    error.__dict__.update(attributes)
    return error


class UnsafeWorkspace(WorkspaceIdentityError, ValueError):
    """The directory, or its marker, is one that must not be used; nothing was touched."""

    path: Path
    hazard: str

    def __init__(self, message: str, *, hint: str, path: Path, hazard: str) -> None:
        super().__init__(message, hint=hint)
        self.path = path
        self.hazard = hazard


class WorkspaceMissing(WorkspaceIdentityError, OSError):
    """The path is not a directory that can be opened."""

    path: Path

    def __init__(self, message: str, *, hint: str, path: Path) -> None:
        super().__init__(message, hint=hint)
        self.path = path


class MarkerDamaged(WorkspaceIdentityError, ValueError):
    """The marker exists, cannot be read, and no record says what it should be."""

    path: Path
    problem: str

    def __init__(self, message: str, *, hint: str, path: Path, problem: str) -> None:
        super().__init__(message, hint=hint)
        self.path = path
        self.problem = problem


class UnknownWorkspace(WorkspaceIdentityError, LookupError):
    """The state home knows no workspace of this id."""

    workspace_id: str

    def __init__(self, message: str, *, hint: str, workspace_id: str) -> None:
        super().__init__(message, hint=hint)
        self.workspace_id = workspace_id


class RegistryBusy(WorkspaceIdentityError, TimeoutError):
    """The registry's lock was not free in time; nothing was decided."""

    lock_path: Path
    waited_s: float
    holder_pid: int | None

    def __init__(
        self, message: str, *, hint: str, lock_path: Path, waited_s: float, holder_pid: int | None
    ) -> None:
        super().__init__(message, hint=hint)
        self.lock_path = lock_path
        self.waited_s = waited_s
        self.holder_pid = holder_pid


class StateHomeUnusable(WorkspaceIdentityError, OSError):
    """The state home cannot be used; the operating system's error, if any, is the cause."""

    state_home: Path

    def __init__(self, message: str, *, hint: str, state_home: Path) -> None:
        super().__init__(message, hint=hint)
        self.state_home = state_home
