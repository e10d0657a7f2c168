"""How much of a contract about crashes and crowds is run: a sample, or much more.

The environment says so, because it is a matter of the run and not of the engine:
`STATE_STORE_LONG=1` for the long run, one variable for each count to change it, and
`STATE_STORE_SEED` to have the same chances again. Invariant: every count is named in `Scale`, and
a sample runs the same code as the long run.
"""

from __future__ import annotations

import os
import secrets
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Self

if TYPE_CHECKING:
    from collections.abc import Mapping


@dataclass(frozen=True, slots=True, kw_only=True)
class Scale:
    """The counts of a run; the defaults are the sample's.

    The variable of `kill_count` is `STATE_STORE_KILL_COUNT`, and so on. `owner_count` owners meet
    in each of `owner_rounds`: half of them are killed, an eighth is stopped. `chances` of a whole
    are taken of crash points during the recovery from a crash; 1.0 is every one.
    """

    seed: int
    kill_count: int = 60
    crowd_kill_count: int = 48
    owner_rounds: int = 1
    owner_count: int = 32
    opener_rounds: int = 1
    opener_count: int = 64
    chances: float = 0.03

    @property
    def long(self) -> bool:
        """Whether more than the sample is asked for."""
        return any(
            getattr(self, one.name) > one.default for one in fields(self) if one.name != "seed"
        )

    @classmethod
    def from_environment(cls, environment: Mapping[str, str] = os.environ) -> Self:
        """Return what the environment asks for."""
        values: dict[str, float] = {"seed": secrets.randbits(32)}
        if environment.get("STATE_STORE_LONG", "0") not in ("", "0"):
            values |= LONG
        for one in fields(cls):
            given = environment.get(f"STATE_STORE_{one.name.upper()}")
            if given is not None:
                values[one.name] = float(given) if one.name == "chances" else int(given)
        return cls(**values)  # type: ignore[arg-type]  # each value is what its field takes


# What two idle cores do in some minutes; the README's claims were measured with larger counts.
LONG = {
    "kill_count": 5_000,
    "crowd_kill_count": 800,
    "owner_rounds": 16,
    "owner_count": 64,
    "opener_rounds": 80,
    "opener_count": 64,
    "chances": 0.3,
}
