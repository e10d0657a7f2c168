"""What the owner of a session pays for tokens: prices of its own, in `model_config["cost"]`.

Owns their shape: USD per million tokens, `{"input": 3, "output": 15, "cached_input": 0.3}`, the
last one optional. Invariant: a price is known or None, never a guess; a shape that is not this one,
as an import may bring it, is no price, and then neither is that of a list.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from decimal import Decimal
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from state_store import Usage

COST_SHAPE = (
    "a mapping with 'input', 'output' and, if wanted, 'cached_input', in USD per million tokens"
)
_MILLION = 1_000_000
_HIGHEST = 1_000_000_000  # so that no sum is beyond what the database and JSON can carry


@dataclass(frozen=True, slots=True, kw_only=True)
class Rates:
    """USD per million tokens."""

    input: Decimal
    output: Decimal
    cached_input: Decimal

    def price(self, usage: Usage) -> Decimal | None:
        """Return what one answer costs, in USD; None when its usage is unknown or impossible."""
        read, written, cached = usage.input_tokens, usage.output_tokens, usage.cached_input_tokens
        if read is None or written is None or (cached or 0) > read:
            return None
        fresh = read - (cached or 0)
        paid = fresh * self.input + (cached or 0) * self.cached_input + written * self.output
        return paid / _MILLION


def rates_of(cost: object) -> Rates | None:
    """Return the prices that *cost* states; None unless it is of their shape."""
    if not isinstance(cost, Mapping) or not {"input", "output"} <= set(cost) <= _NAMES:
        return None
    given = {"cached_input": cost["input"], **cost}
    if not all(_is_price(one) for one in given.values()):
        return None
    return Rates(**{name: Decimal(str(one)) for name, one in given.items()})


def _is_price(value: object) -> bool:
    return type(value) in {int, float} and 0 <= value <= _HIGHEST  # type: ignore[operator]  # a number, by then


_NAMES = set(Rates.__dataclass_fields__)
