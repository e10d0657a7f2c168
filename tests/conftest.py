"""Fixtures of the tests that cross packages: a workspace, a state home, and real processes."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

# Test folders are not packages, so what the tests share is found by its folder.
sys.path.insert(0, str(Path(__file__).parent))

from typing import TYPE_CHECKING

from processes import Place

if TYPE_CHECKING:
    from collections.abc import Iterator


@pytest.fixture
def place(tmp_path: Path) -> Iterator[Place]:
    """Make a workspace beside a state home that does not exist yet; processes end with the test."""
    made = Place(tmp_path)
    yield made
    made.end_all()
