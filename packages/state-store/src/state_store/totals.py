"""The records of what runs used together.

Owns the shapes alone. Invariant: a number is a sum over what was reported; how many runs reported
nothing stands beside it, so that no sum is taken for more than a lower bound.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class UsageTotals:
    """What some runs used together.

    `total_tokens` is input plus output. `unreported_count` of the `run_count` runs lack one of
    these, so that the sums are lower bounds; `unpriced_count` have no cost. `cost` is in USD, and
    None when no run had a price.
    """

    input_tokens: int
    output_tokens: int
    cached_input_tokens: int
    reasoning_tokens: int
    total_tokens: int
    cost: float | None
    run_count: int
    unreported_count: int
    unpriced_count: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelTotals(UsageTotals):
    """What the runs with one provider and model used; None where a run does not say."""

    provider: str | None
    model: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Totals(UsageTotals):
    """What the runs of a session, or of all, used; `by_model` in order of provider and model.

    `inherited_tokens` and `inherited_cost` are a fork's from its parent, in no sum here.
    """

    by_model: tuple[ModelTotals, ...]
    inherited_tokens: int = 0
    inherited_cost: float | None = None
