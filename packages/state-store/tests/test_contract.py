"""The contract over both faces, on disk and in memory."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from state_store import AsyncSqliteStore, SqliteStore
from state_store.testing import DurableStoreContract, OpenStore, SessionStoreContract, SyncFace

if TYPE_CHECKING:
    from pathlib import Path

    from state_store import SessionStore


class TestOnDisk(SessionStoreContract, DurableStoreContract):
    """`SqliteStore.open`."""

    @pytest.fixture
    def open_store(self, path: Path, workspace_id: str) -> OpenStore:
        """Open the test's file."""

        def opened(**options: Any) -> SessionStore:
            return SqliteStore.open(path, workspace_id=workspace_id, **options)

        return opened


class TestInMemory(SessionStoreContract):
    """`SqliteStore.in_memory`, which keeps nothing and so is no durable store."""

    @pytest.fixture
    def open_store(self, workspace_id: str) -> OpenStore:
        """Make a store of its own each time."""

        def opened(**options: Any) -> SessionStore:
            return SqliteStore.in_memory(workspace_id=workspace_id, **options)

        return opened


class TestAsyncOnDisk(SessionStoreContract, DurableStoreContract):
    """`AsyncSqliteStore.open` behind a synchronous face."""

    @pytest.fixture
    def open_store(self, path: Path, workspace_id: str) -> OpenStore:
        """Open the test's file."""

        def opened(**options: Any) -> SessionStore:
            return SyncFace.over(
                lambda: AsyncSqliteStore.open(path, workspace_id=workspace_id, **options)
            )

        return opened
