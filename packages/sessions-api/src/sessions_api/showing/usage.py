"""What runs used, as people read it: the sums, of what they are lower bounds, and by model.

Invariant: what a fork has inherited stands apart and is in no sum.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from sessions_api.showing import figures
from sessions_api.showing.terminal_text import one_line

if TYPE_CHECKING:
    from collections.abc import Iterator

    from state_store import Totals, UsageTotals


def usage_facts(totals: Totals) -> Iterator[tuple[str, str]]:
    """Yield what *totals* say, each under a short name."""
    yield "Tokens", _tokens(totals)
    yield "Cost", _cost(totals)
    if totals.inherited_tokens:
        inherited = figures.tokens(totals.inherited_tokens)
        priced = "" if totals.inherited_cost is None else f", {figures.cost(totals.inherited_cost)}"
        yield "Inherited", f"{inherited}{priced} from the parent, counted there"
    if len(totals.by_model) > 1:
        for one in totals.by_model:
            name = one_line(f"{one.provider or '?'} / {one.model or '?'}")
            yield "", f"{name}: {_tokens(one)}, {_cost(one)}"


def _tokens(totals: UsageTotals) -> str:
    if totals.unreported_count and not totals.total_tokens:
        return figures.UNKNOWN
    parts = f"{figures.tokens(totals.input_tokens)} in, {figures.tokens(totals.output_tokens)} out"
    if totals.cached_input_tokens:
        parts += f", {figures.tokens(totals.cached_input_tokens)} of the input cached"
    if totals.reasoning_tokens:
        parts += f", {figures.tokens(totals.reasoning_tokens)} of the output reasoning"
    at_least = ""
    if totals.unreported_count:
        runs = figures.count(totals.unreported_count, "run")
        at_least = f" or more: {runs} did not report all"
    return f"{figures.tokens(totals.total_tokens)} ({parts}){at_least}"


def _cost(totals: UsageTotals) -> str:
    known = figures.cost(totals.cost)
    if totals.cost is None or not totals.unpriced_count:
        return known
    return f"{known} or more: {figures.count(totals.unpriced_count, 'run')} had no price"
