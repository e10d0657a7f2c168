"""What every contract about processes stands on: addresses, and a scale.

Invariant: a test meets the engine in processes that it starts, by the addresses that the fixture
`new_address` makes, and its chances come from the seed of the fixture `scale`.
"""

from __future__ import annotations

from collections.abc import Callable

import pytest

from state_store.testing.address import StoreAddress
from state_store.testing.scale import Scale

NewAddress = Callable[[], StoreAddress]
JOB_TIMEOUT_S = 3600.0  # for one job of a long run; a sample is held by the time-out of its test


class ProcessContract:
    """Base of the contracts about processes. A subclass gives the fixture `new_address`."""

    @pytest.fixture
    def new_address(self) -> NewAddress:
        """Return what makes the address of a store that is not there yet."""
        raise NotImplementedError("give the fixture new_address")

    @pytest.fixture
    def scale(self) -> Scale:
        """Return how much is run; by default what the environment asks for."""
        return Scale.from_environment()
