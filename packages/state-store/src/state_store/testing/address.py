"""Where a store under test is, said so that any process can open it.

A contract about processes cannot hand an open store around: it hands around an address. Invariant:
everything in an address is text, and opening it twice, here or elsewhere, opens the same data.

Must not: import the engine before it is asked to open; addresses are made in processes that only
start others.
"""

from __future__ import annotations

import importlib
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, cast

if TYPE_CHECKING:
    from collections.abc import Callable

    from state_store.protocol import SessionStore


@dataclass(frozen=True, slots=True, kw_only=True)
class StoreAddress:
    """An engine's own function to open a store for writing, and the place to give it.

    `factory` is "module:function", importable wherever the tests are; it takes `location` and
    returns the open store, made when there is none. It may give the runs that opening recovered
    as an attribute `recovered`. `inspection`, of the same form, takes `location` when nobody has
    the store open and raises when the data at rest is damaged.
    """

    factory: str
    location: str
    inspection: str | None = None

    def open(self) -> SessionStore:
        """Open the store in this process."""
        return cast("SessionStore", named(self.factory)(self.location))

    def inspect(self) -> None:
        """Raise when the data at rest is damaged; no-op for an engine that cannot tell."""
        if self.inspection is not None:
            named(self.inspection)(self.location)


def named(name: str) -> Callable[..., Any]:
    """Return the function that "module:function" names."""
    module, _, function = name.partition(":")
    return cast("Callable[..., Any]", getattr(importlib.import_module(module), function))
