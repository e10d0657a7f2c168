"""Where a history may be cut: behind whole exchanges, so that no part of one is left without it.

A run ends with its last message, and one that is under way has no end yet. Messages without a run
may be cut where no call waits for a result that comes later, and what follows is no answer.
Invariant: only live originals are looked at; undone ones and stand-ins are as if not there.

Calls and results are paired by position, as everywhere: a result answers the nearest preceding
unanswered call with its id.
"""

from __future__ import annotations

from bisect import bisect_left
from typing import TYPE_CHECKING, Any

from state_store.errors import BoundaryInvalid
from state_store.sqlite.rows import to_call_ids

if TYPE_CHECKING:
    import apsw

_ORIGINALS = """
SELECT m.seq, m.role, m.run_id, r.status = 'pending',
    CASE WHEN m.run_id IS NULL THEN m.tool_calls END, m.tool_call_id
FROM messages m LEFT JOIN runs r ON r.id = m.run_id
WHERE m.session_id = ? AND m.kind = 'original' AND m.undone_at IS NULL AND r.undone_at IS NULL
ORDER BY m.seq
"""
_ANSWERS = frozenset({"assistant", "tool"})


def require_boundary(connection: apsw.Connection, session_id: str, seq: int) -> None:
    """Raise BoundaryInvalid, with the nearest legal ones, unless *seq* is one."""
    legal = boundaries(connection, session_id)
    place = bisect_left(legal, seq)
    if place < len(legal) and legal[place] == seq:
        return
    raise BoundaryInvalid(
        session_id,
        seq=seq,
        before=legal[place - 1] if place else None,
        after=legal[place] if place < len(legal) else None,
    )


def boundaries(connection: apsw.Connection, session_id: str) -> list[int]:
    """Return the seqs behind which the session may be cut, in order."""
    found: list[int] = []
    unanswered: list[tuple[int, str]] = []
    asked_at = 0  # calls before this message are of an exchange that went on without their results
    last: tuple[int, str | None, bool] | None = None
    rows: Any = connection.execute(_ORIGINALS, (session_id,))
    for seq, role, run_id, is_pending, calls, call_id in rows:
        if last is not None and _ends(last, role, run_id):
            found.append(last[0])
        if run_id is None and role == "tool":
            _answer(unanswered, call_id or "", found)
        elif run_id is None:
            if role not in _ANSWERS:
                asked_at = seq
            unanswered += [(seq, one) for one in to_call_ids((calls,))]
        last = seq, run_id, bool(is_pending)
    if last is not None and not last[2]:
        is_waiting = last[1] is None and any(seq >= asked_at for seq, _ in unanswered)
        if not is_waiting:
            found.append(last[0])
    return found


def _ends(last: tuple[int, str | None, bool], role: str, run_id: str | None) -> bool:
    """Say whether the history may be cut between *last* and the message that follows it."""
    _, last_run_id, is_pending = last
    if last_run_id is not None:
        return run_id != last_run_id and not is_pending
    return run_id is not None or role not in _ANSWERS


def _answer(unanswered: list[tuple[int, str]], call_id: str, found: list[int]) -> None:
    """Pair a result with its call; between the two there is no boundary."""
    fitting = [one for one in unanswered if one[1] == call_id]
    if fitting:
        asked = max(fitting, key=lambda one: one[0])
        unanswered.remove(asked)
        while found and found[-1] >= asked[0]:
            found.pop()
