"""What runs used, added up from the runs that are stored.

Invariant: every run counts once, in the session where it ran: copies of it count nowhere. Where a
run reported nothing the sums are lower bounds, and it says of how many. Messages are not looked at.
"""

from __future__ import annotations

from dataclasses import fields
from typing import TYPE_CHECKING, Any

from state_store.sqlite import sessions
from state_store.totals import ModelTotals, Totals

if TYPE_CHECKING:
    import apsw

_SUMS = """
SELECT provider, model, coalesce(sum(input_tokens), 0), coalesce(sum(output_tokens), 0),
    coalesce(sum(cached_input_tokens), 0), coalesce(sum(reasoning_tokens), 0), sum(cost), count(*),
    sum(input_tokens IS NULL OR output_tokens IS NULL), sum(cost IS NULL)
FROM runs WHERE copied_from IS NULL AND status <> 'pending' {condition}
GROUP BY provider, model ORDER BY provider, model
"""
_ALL, _ONE = (_SUMS.format(condition=one) for one in ("", "AND session_id = ?"))


def of(connection: apsw.Connection, session_id: str | None) -> Totals:
    """Return the totals of one session, or of all."""
    session = None if session_id is None else sessions.get(connection, session_id)
    rows: Any = (
        connection.execute(_ALL) if session is None else connection.execute(_ONE, (session_id,))
    )
    by_model = tuple(
        ModelTotals(
            provider=row[0],
            model=row[1],
            input_tokens=row[2],
            output_tokens=row[3],
            cached_input_tokens=row[4],
            reasoning_tokens=row[5],
            total_tokens=row[2] + row[3],
            cost=row[6],
            run_count=row[7],
            unreported_count=row[8],
            unpriced_count=row[9],
        )
        for row in rows
    )
    counted = {one.name for one in fields(ModelTotals)} - {"provider", "model", "cost"}
    costs = [one.cost for one in by_model if one.cost is not None]
    return Totals(
        **{name: sum(getattr(one, name) for one in by_model) for name in counted},
        cost=sum(costs) if costs else None,
        by_model=by_model,
        inherited_tokens=0 if session is None else session.inherited_tokens,
        inherited_cost=None if session is None else session.inherited_cost,
    )
