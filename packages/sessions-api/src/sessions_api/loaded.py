"""A stored session together with what the caller needs to go on with it, which is not stored.

Invariant: `runtime` is the caller's own and goes nowhere: no column, journal or export has a field
for it, `save` does not look at it, and it does not show when the state is printed.
"""

from __future__ import annotations

from collections.abc import Mapping  # noqa: TC003 - record types resolve at run time
from dataclasses import dataclass, field
from typing import Any

from state_store import SessionState


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadedState(SessionState):
    """What `sessions.load` returns: a `SessionState` and, in `runtime`, what the caller gave it.

    `runtime` holds what belongs to this process and not to the history: endpoint, headers, keys.
    The stored endpoint stays in `settings`; it says where the history went, and is never mixed
    with a key of now.
    """

    runtime: Mapping[str, Any] = field(default_factory=dict, repr=False, compare=False)
