from __future__ import annotations

import inspect
import pickle
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import state_store
from state_store import AsyncSqliteStore, SqliteStore, StateStoreError, errors
from state_store.protocol import SessionStore

if TYPE_CHECKING:
    from collections.abc import Callable

    RunPython = Callable[..., str]

ERRORS: list[StateStoreError] = [
    errors.StateStoreError("something"),
    errors.StoreUnavailable(Path("/p"), "why", hint="do"),
    errors.StoreFull(Path("/p"), "why", hint="do"),
    errors.WalUnsupported("/p", "why", hint="do"),
    errors.StoreMissing("/p"),
    errors.StoreBusy("/p", waited_ms=5),
    errors.SessionBusy("an-id", pid=7, host="h", since="2026"),
    errors.SessionBusy("an-id", pid=None, host=None, since=None),
    errors.StoreDamaged("/p", "why", backup_path="/b"),
    errors.StoreDamaged("/p", "why"),
    errors.StoreNewer("/p", found=9, supported=1),
    errors.StoreForeign("/p", "why"),
    errors.StoreLost("/p", backup_path="/b"),
    errors.StoreInUse("/p", work="upgrade", holders=((1, "host", "2026"),)),
    errors.StoreOutdated("/p", found=1, needed=2),
    errors.UpgradeFailed("/p", "why", step="0002", found=1, wanted=2, backup_path="/b"),
    errors.BackupUnusable("/b", "why"),
    errors.StoreClosed(),
    errors.StoreForked(opened_by=1, used_by=2),
    errors.SessionNotFound("an-id"),
    errors.SessionWasDeleted("an-id", deleted_at="2026"),
    errors.SessionExists("an-id"),
    errors.RunExists("an-id"),
    errors.IdInvalid(kind="run"),
    errors.RunNotFound("a-run"),
    errors.RunNotPending("a-run", status="failed"),
    errors.HistoryConflict("an-id", seq=3),
    errors.BoundaryInvalid("an-id", seq=3, before=2, after=None),
    errors.BoundaryInvalid("an-id", seq=3, before=None, after=None),
    errors.NothingToUndo("an-id"),
    errors.NothingToRedo("an-id"),
    errors.ImportInvalid(record="run", number=2, field="usage"),
    errors.CursorInvalid(listing="sessions"),
]
BUILT_IN = {
    "StoreUnavailable": OSError,
    "StoreMissing": FileNotFoundError,
    "StoreBusy": TimeoutError,
    "SessionBusy": TimeoutError,
    "StoreInUse": TimeoutError,
    "BackupUnusable": ValueError,
    "StoreClosed": RuntimeError,
    "StoreForked": RuntimeError,
    "SessionNotFound": LookupError,
    "SessionExists": ValueError,
    "RunNotFound": LookupError,
    "HistoryConflict": ValueError,
    "BoundaryInvalid": ValueError,
    "NothingToUndo": LookupError,
    "NothingToRedo": LookupError,
    "ImportInvalid": ValueError,
    "CursorInvalid": ValueError,
}


def error_types() -> dict[str, type[StateStoreError]]:
    """Return every error of the package by name."""
    return {
        name: found
        for name, found in vars(errors).items()
        if isinstance(found, type) and issubclass(found, StateStoreError)
    }


def test_the_public_names_are_a_sorted_list_of_all_there_are() -> None:
    """What the package's `__init__` imports is what it exports, and nothing is missing."""
    assert state_store.__all__ == sorted(state_store.__all__)
    assert len(set(state_store.__all__)) == len(state_store.__all__)
    public = {
        name
        for name, found in vars(state_store).items()
        if not name.startswith("_") and not inspect.ismodule(found)
    }
    assert public == set(state_store.__all__)


def test_every_error_is_exported_and_in_the_drawn_tree() -> None:
    """The tree in the docstring is the tree."""
    drawn = errors.__doc__ or ""
    for name in error_types():
        assert name in state_store.__all__
        assert f" {name}" in drawn, name


@pytest.mark.parametrize("error", ERRORS, ids=lambda error: type(error).__name__)
def test_an_error_survives_pickling(error: StateStoreError) -> None:
    """With its type, its words, its facts and what to do next."""
    for protocol in range(pickle.HIGHEST_PROTOCOL + 1):
        revived = pickle.loads(pickle.dumps(error, protocol))  # noqa: S301 - our own bytes
        assert type(revived) is type(error)
        assert str(revived) == str(error)
        assert vars(revived) == vars(error)
        assert revived.args == error.args
    assert type(error) is StateStoreError or error.hint


def test_every_error_is_tried_above() -> None:
    """A new one is added to the list."""
    assert {type(error) for error in ERRORS} == set(error_types().values())


@pytest.mark.parametrize(("name", "expected"), BUILT_IN.items())
def test_an_error_is_the_built_in_that_a_caller_expects(
    name: str, expected: type[Exception]
) -> None:
    """So that code which knows nothing of this package can handle it."""
    assert issubclass(error_types()[name], expected)


def test_importing_the_package_loads_only_what_it_needs(run_python: RunPython) -> None:
    """No other SQLite, no test tool, no event loop, none of its neighbours' libraries."""
    loaded = set(run_python("say(*sorted(sys.modules))").split())
    unwanted = {"pytest", "loguru", "pydantic", "sqlite3", "_sqlite3", "asyncio", "hypothesis"}
    assert not loaded & (unwanted | {"run_journal", "workspace_identity", "sessions_api"})
    assert not {name for name in loaded if name.startswith("state_store.testing")}
    assert "apsw" in loaded


def test_both_faces_have_every_method_of_the_protocol() -> None:
    """Same names, same parameters; a method more would be missing from the other face."""

    def methods(face: type) -> set[str]:
        return {name for name in dir(face) if not name.startswith("_")}

    protocol = methods(SessionStore)
    assert protocol | {"open", "in_memory"} == methods(SqliteStore)
    assert methods(SqliteStore) | {"recovered", "upgraded"} == methods(AsyncSqliteStore)
    for name in sorted(protocol - {"export_messages", "close"}):
        core, face = getattr(SqliteStore, name), getattr(AsyncSqliteStore, name)
        assert inspect.iscoroutinefunction(face), name
        assert inspect.signature(face) == inspect.signature(core), name
        assert inspect.signature(core) == inspect.signature(getattr(SessionStore, name)), name
        assert face.__doc__ == core.__doc__


def test_a_store_is_what_the_protocol_says(workspace_id: str) -> None:
    """For the type checker: this function is the proof."""

    def use(store: SessionStore) -> int:
        return len(store.list().items)

    with SqliteStore.in_memory(workspace_id=workspace_id) as store:
        assert use(store) == 0
