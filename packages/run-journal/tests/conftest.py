"""What the tests of the journal share: fixed ids, a clock, and a journal in tmp_path."""

from __future__ import annotations

import sys
from datetime import UTC, datetime
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING

import pytest
from hypothesis import HealthCheck, settings

# Test folders are not packages, so what the tests share is found by its folder.
sys.path.insert(0, str(Path(__file__).parent))

from run_journal import Journal

if TYPE_CHECKING:
    from collections.abc import Iterator

# A loaded machine is no fault of ours: a law is broken by what it says, not by how long it took.
settings.register_profile("laws", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("laws")

MOMENT = datetime(2026, 1, 2, 3, 4, 5, 6, tzinfo=UTC)


@pytest.fixture
def ids() -> SimpleNamespace:
    """Return one workspace, two sessions and two runs, the same in every test."""
    return SimpleNamespace(
        workspace="0b130872-b0ac-414d-b8a9-10386c0258cd",
        session="019b7d2e-0000-7000-8000-000000000001",
        other_session="019b7d2e-0000-7000-8000-000000000002",
        run="019b7d2e-0000-7000-8000-00000000000a",
        other_run="019b7d2e-0000-7000-8000-00000000000b",
    )


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    """Return a directory that is not there yet."""
    return tmp_path / "logs" / "workspace"


@pytest.fixture
def journal(directory: Path, ids: SimpleNamespace) -> Iterator[Journal]:
    """Return a journal whose clock stands still, and whose patience outlasts a loaded machine."""
    with Journal(
        directory, workspace_id=ids.workspace, clock=lambda: MOMENT, lock_timeout_s=60
    ) as journal:
        yield journal
