"""Taking turns back, and bringing them back again. Nothing is deleted.

A turn is one typed input with everything that answered it: its run, the runs that it is a retry of
or that retried it, and the messages without a run behind it; where there is no run, a user's
message and what follows up to the next one. Turns stand in the order in which they last went on.

Invariant: what is undone carries the session's last seq of that time (`undone_after`). By it, and
by no clock, is told what was made since; a turn comes back only while nothing was.
"""

from __future__ import annotations

from contextlib import closing
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from state_store.clock import to_text
from state_store.errors import NothingToRedo, NothingToUndo
from state_store.sqlite import messages, sessions

if TYPE_CHECKING:
    from collections.abc import Iterator
    from datetime import datetime

    import apsw

    from state_store.records import Session

_LIVE_HEADS = """
SELECT m.seq, m.run_id FROM messages m LEFT JOIN runs r ON r.id = m.run_id
WHERE m.session_id = ? AND m.kind = 'original' AND CASE
    WHEN m.run_id IS NULL THEN m.role = 'user' AND m.undone_at IS NULL
    ELSE m.seq = r.first_seq AND r.undone_at IS NULL END
ORDER BY m.seq DESC
"""
# Up to the run that was retried first, and down to all that retried one of these. The plus keeps
# SQLite from reading all runs of the session for each: a run is found by its id.
_CHAIN = """
WITH RECURSIVE
    up (id) AS (SELECT ?1 UNION SELECT r.retry_of FROM up JOIN runs r ON r.id = up.id
        WHERE r.retry_of IS NOT NULL AND +r.session_id = ?2),
    chain (id) AS (SELECT id FROM up UNION SELECT r.id FROM chain JOIN runs r
        ON r.retry_of = chain.id WHERE +r.session_id = ?2)
SELECT r.id, r.first_seq FROM chain JOIN runs r ON r.id = chain.id WHERE +r.session_id = ?2
ORDER BY r.first_seq
"""
_FOLLOWING = """
SELECT seq, run_id, role FROM messages WHERE session_id = ? AND seq > ? AND kind = 'original'
ORDER BY seq
"""
_NEWEST = """
SELECT seq FROM messages WHERE session_id = ? AND kind = 'original' ORDER BY seq DESC LIMIT 1
"""
_REDOABLE = """
SELECT first_seq, id, undone_after FROM runs WHERE session_id = ?1 AND undone_at IS NOT NULL
    AND undone_after >= ?2
UNION ALL
SELECT seq, NULL, undone_after FROM messages WHERE session_id = ?1 AND undone_at IS NOT NULL
    AND undone_after >= ?2 AND role = 'user'
"""
# A stand-in that was made since covers the place, and says nothing of what would come back to it.
_STANDS_IN = """
SELECT 1 FROM messages WHERE session_id = ?1 AND seq > ?3 AND kind <> 'original'
AND ?2 BETWEEN covers_first AND covers_last
"""
_SET_RUN = (
    "UPDATE runs SET undone_at = ?1, undone_after = ?2 WHERE id = ?3"
    " AND (undone_at IS NULL) = (?1 IS NOT NULL) AND (?1 IS NOT NULL OR undone_after >= ?4)"
)
_SET_MESSAGE = (
    "UPDATE messages SET undone_at = ?1, undone_after = ?2 WHERE session_id = ?3 AND seq = ?4"
    " AND (undone_at IS NULL) = (?1 IS NOT NULL) AND (?1 IS NOT NULL OR undone_after >= ?5)"
)
_LAST_STATUS = """
SELECT status FROM runs WHERE session_id = ? AND undone_at IS NULL ORDER BY first_seq DESC LIMIT 1
"""


@dataclass(frozen=True, slots=True, eq=False)
class Turn:
    """One typed input: the runs that answered it, or the message that has none.

    `heads` are (seq of the user's message, run id or None), in order.
    """

    heads: tuple[tuple[int, str | None], ...]

    @property
    def place(self) -> int:
        """Where it last went on."""
        return self.heads[-1][0]


def undo(connection: apsw.Connection, session_id: str, count: int, now: datetime) -> Session:
    """Mark the last *count* live turns undone, or as many as there are."""
    turns: list[Turn] = []
    seen: set[tuple[int, str | None]] = set()
    with closing(connection.execute(_LIVE_HEADS, (session_id,))) as heads:
        for seq, run_id in heads:
            if (seq, run_id) not in seen:
                if len(turns) == count:
                    break
                turns.append(_turn_of(connection, session_id, seq, run_id))
                seen.update(turns[-1].heads)
    if not turns:
        raise NothingToUndo(session_id)
    last_seq = messages.last_seq(connection, session_id)
    for turn in turns:
        _set(connection, session_id, turn, mark=(to_text(now), last_seq), since=None)
    return _settled(connection, session_id, now)


def redo(connection: apsw.Connection, session_id: str, count: int, now: datetime) -> Session:
    """Bring back the first *count* turns that can be, or as many as there are."""
    newest: Any = connection.execute(_NEWEST, (session_id,)).get or 0
    undone: Any = connection.execute(_REDOABLE, (session_id, newest)).fetchall()
    turns: dict[tuple[int, str | None], Turn] = {}
    coming: dict[Turn, list[tuple[int, int]]] = {}  # of an earlier attempt nothing may come back
    for seq, run_id, after in undone:
        if (seq, run_id) not in turns:
            turn = _turn_of(connection, session_id, seq, run_id)
            turns |= dict.fromkeys(turn.heads, turn)
        coming.setdefault(turns[seq, run_id], []).append((seq, after))
    possible = sorted(
        (
            turn
            for turn, places in coming.items()
            if not any(connection.execute(_STANDS_IN, (session_id, *one)).get for one in places)
        ),
        key=lambda turn: turn.place,
    )
    if not possible:
        raise NothingToRedo(session_id)
    for turn in possible[:count]:
        _set(connection, session_id, turn, mark=(None, None), since=newest)
    return _settled(connection, session_id, now)


def _turn_of(connection: apsw.Connection, session_id: str, seq: int, run_id: str | None) -> Turn:
    if run_id is None:
        return Turn(((seq, None),))
    chain: Any = connection.execute(_CHAIN, (run_id, session_id)).fetchall()
    return Turn(tuple((first_seq, one) for one, first_seq in chain))


def _set(
    connection: apsw.Connection,
    session_id: str,
    turn: Turn,
    *,
    mark: tuple[str | None, int | None],
    since: int | None,
) -> None:
    """Put *mark* on what is live of a turn, or take it off what was undone after *since*."""
    for seq, run_id in turn.heads:
        loose = list(_without_a_run(connection, session_id, seq, run_id))
        if run_id is None:
            loose.insert(0, seq)
        else:
            connection.execute(_SET_RUN, (*mark, run_id, since))
        connection.executemany(_SET_MESSAGE, [(*mark, session_id, one, since) for one in loose])


def _without_a_run(
    connection: apsw.Connection, session_id: str, seq: int, run_id: str | None
) -> Iterator[int]:
    """Yield the messages without a run that follow the input at *seq*, up to the next input."""
    with closing(connection.execute(_FOLLOWING, (session_id, seq))) as following:
        for number, its_run_id, role in following:
            if its_run_id is None and role != "user":
                yield int(number)
            elif its_run_id is None or its_run_id != run_id:
                return


def _settled(connection: apsw.Connection, session_id: str, now: datetime) -> Session:
    status = connection.execute(_LAST_STATUS, (session_id,)).get
    columns = {"status": "failed" if status == "failed" else "idle"}
    return sessions.update(connection, session_id, columns, now=to_text(now))
