"""What every theme of the contract stands on: how a test gets a store.

Invariant: a test meets a store through `open_store` alone, and closes all that it opens; the
fixture `store` does so by itself.
"""

from __future__ import annotations

from contextlib import closing
from typing import TYPE_CHECKING, Protocol

import pytest

if TYPE_CHECKING:
    from collections.abc import Iterator

    from state_store.clock import Clock
    from state_store.protocol import SessionStore


class OpenStore(Protocol):
    """Opens the test's store; called again, it opens another one on the same data."""

    def __call__(self, *, clock: Clock = ...) -> SessionStore:
        """Return the open store. *clock* is where it reads the time."""


class Contract:
    """Base of the themes. A subclass gives the fixture `open_store`."""

    @pytest.fixture
    def open_store(self) -> OpenStore:
        """Return how this engine opens a store of the running test."""
        raise NotImplementedError("give the fixture open_store")

    @pytest.fixture
    def store(self, open_store: OpenStore) -> Iterator[SessionStore]:
        """Return an open store without sessions, closed after the test."""
        with closing(open_store()) as opened:
            yield opened
