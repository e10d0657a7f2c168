"""Whatever an import takes is sound: mutated archives are refused, or are sessions like others."""

from __future__ import annotations

import random
from contextlib import suppress
from dataclasses import fields, replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from state_store import ImportInvalid, SqliteStore
from state_store.sqlite import consistency
from state_store.testing.contract.importing import brought_in, facts, rich, whole
from state_store.testing.scale import Scale

if TYPE_CHECKING:
    from state_store.testing.contract.importing import Whole

ODD: tuple[Any, ...] = (
    *(None, 0, 1, 2, 5, 8, -1, 1 << 40, True, "", "x", (), (1, 3), ("x", 3), {}, {"a": 1}),
    *("user", "assistant", "tool", "original", "summary", "ok", "unknown", "idle", "running"),
    *("completed", "failed", "pending", datetime(2026, 1, 1, tzinfo=UTC)),
)


def mutated(given: Whole, source: random.Random) -> Whole:
    """Return *given* with up to three things about it changed, lost, doubled or moved."""
    session, *others = given
    lists: list[list[Any]] = [list(records) for records in others]
    for _ in range(source.randint(1, 3)):
        records: list[Any] = source.choice([[session], *lists])
        place = source.randrange(len(records))
        field = source.choice(fields(records[place])).name
        match source.randrange(8):
            case 0 if len(records) > 1:
                del records[place]
            case 1:
                records.insert(source.randrange(len(records)), records[place])
            case 2:
                records.append(records.pop(place))
            case 3 | 4:
                value = getattr(source.choice(records), field)
                records[place] = replace(records[place], **{field: value})
            case _:
                records[place] = replace(records[place], **{field: source.choice(ODD)})
        session = records[0] if records not in lists else session
    messages, runs, executions = map(tuple, lists)
    return session, messages, runs, executions


def require_sound(store: SqliteStore) -> None:
    """See that no two rows contradict each other."""
    with store._database.read() as connection:
        for search in consistency.SEARCHES:
            assert [one.message for one in search(connection) if one.severity == "error"] == []


def test_what_an_import_takes_is_sound_and_goes_out_and_in_again(workspace_id: str) -> None:
    """It can be undone, forked, searched and deleted; what is refused has written nothing."""
    seed = Scale.from_environment().seed
    print({"seed": seed})  # noqa: T201 - what a failure shows
    source = random.Random(seed)
    with SqliteStore.in_memory(workspace_id=workspace_id) as store:
        parent = rich(store)
        fork = store.fork_session(parent).id
        store.undo(fork)
        given = [whole(store, one) for one in (parent, fork)]
    taken = refused = 0
    while min(taken, refused) < 40:
        with SqliteStore.in_memory(workspace_id=workspace_id) as store:
            try:
                session_id = brought_in(store, mutated(source.choice(given), source)).session.id
            except ImportInvalid:
                refused += 1
                assert store.list().items == ()
                continue
            taken += 1
            require_sound(store)
            again = brought_in(store, whole(store, session_id), "again").session.id
            assert facts(whole(store, again)) == facts(whole(store, session_id))
            for step in (store.undo, store.undo, store.redo, store.redo):
                with suppress(LookupError):
                    step(session_id)
            store.fork_session(session_id)
            assert list(store.export_messages(session_id)) is not None
            require_sound(store)
            store.delete(session_id)
            require_sound(store)
