"""Imports: whole or not at all, under ids that are free, and nothing that is there is touched."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import pytest

from state_store.clock import new_id
from state_store.errors import ImportInvalid, NothingToRedo
from state_store.records import Imported, NewMessage, NewSession, Run
from state_store.testing.contract.basis import Contract
from state_store.testing.contract.branches import saying, with_a_tool
from state_store.testing.turns import (
    USAGE,
    assistant,
    begin,
    calling,
    contents,
    result,
    retry,
    session_with_turn,
    source,
    source_messages,
    turn,
    user,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

    from state_store.protocol import SessionStore
    from state_store.records import Message, Session, ToolExecution
    from state_store.testing.contract.basis import OpenStore

THEN = datetime(2019, 8, 7, 6, 5, 4, 321, tzinfo=UTC)
Whole = tuple["Session", tuple["Message", ...], tuple[Run, ...], tuple["ToolExecution", ...]]


def whole(store: SessionStore, session_id: str) -> Whole:
    """Return everything about a session, as an archive has it."""
    return (
        store.get_session(session_id),
        store.messages(session_id, view="all").items,
        store.runs(session_id).items,
        store.tool_executions(session_id),
    )


def brought_in(store: SessionStore, given: Whole, digest: str = "d") -> Imported:
    """Import everything about a session."""
    session, messages, runs, executions = given
    return store.import_session(
        session, messages=messages, runs=runs, executions=executions, digest=digest
    )


def rich(store: SessionStore) -> str:
    """Return a session with something of everything."""
    session_id = store.create_session(NewSession(title="t", metadata={"k": [1]})).id
    with_a_tool(store, session_id)
    failed = begin(store, session_id, "lost")
    store.fail_run(failed.id, "provider.error", usage=USAGE, cost=0.5)
    retry(store, failed, "again")
    store.summarize(session_id, "in short", through=5)
    turn(store, session_id, "taken back")
    store.undo(session_id)
    return session_id


def facts(given: Whole) -> Any:
    """Return what an import keeps of a session, whatever ids it gets."""
    session, messages, runs, executions = given
    ids = {run.id: number for number, run in enumerate(runs)}
    return (
        replace(session, id="", revision=0),
        [
            (replace(saying(one), imported_at=None), one.seq, one.run_id and ids[one.run_id])
            for one in messages
        ],
        [
            replace(
                run,
                id="",
                session_id="",
                owner="",
                journal_head=None,
                retry_of=None if run.retry_of is None else str(ids[run.retry_of]),
            )
            for run in runs
        ],
        [replace(one, session_id="", run_id=str(ids[one.run_id])) for one in executions],
    )


def source_run(session_id: str, *, seq: int, **fields: Any) -> Run:
    """Return a completed run as a file from elsewhere says it."""
    plain: dict[str, Any] = {
        "id": new_id(),
        "status": "completed",
        "error_type": None,
        "started_at": THEN,
        "finished_at": THEN,
        "owner": "",
        "usage": USAGE,
        "cost": None,
        "provider": None,
        "model": None,
        "retry_of": None,
        "undone_at": None,
        "journal_head": None,
        "journal_lost_count": 0,
    }
    return Run(session_id=session_id, first_seq=seq, **(plain | fields))


class ImportingContract(Contract):
    """A session from elsewhere is a session."""

    def test_what_was_exported_comes_back_as_it_was(self, store: SessionStore) -> None:
        """Into the place of the deleted one under a new id, beside it, or in another store."""
        given = whole(store, rich(store))
        beside = brought_in(store, given)
        assert (beside.outcome, beside.source_id) == ("renamed", given[0].id)
        assert facts(whole(store, beside.session.id)) == facts(given)
        assert whole(store, given[0].id) == given
        store.delete(given[0].id)
        again = brought_in(store, given, "other")
        assert again.outcome == "renamed"
        assert facts(whole(store, again.session.id)) == facts(given)
        assert store.redo(again.session.id).message_count == given[0].message_count

    def test_free_ids_are_kept(self, store: SessionStore, open_store: OpenStore) -> None:
        """Where neither session nor run is there, it is the same session."""
        del open_store
        session_id = new_id()
        runs: list[Run] = []
        messages: list[Message] = []
        for number in range(2):
            run = source_run(session_id, seq=2 * number + 1)
            runs.append(run)
            messages += source_messages(user(), assistant(), run_id=run.id)
        numbered = [replace(one, seq=seq) for seq, one in enumerate(messages, start=1)]
        made = store.import_session(
            source(session_id), messages=iter(numbered), runs=iter(runs), digest="d"
        )
        assert (made.outcome, made.session.id) == ("new", session_id)
        assert [one.id for one in store.runs(session_id).items] == [one.id for one in runs]
        assert (made.session.total_tokens, made.session.message_count) == (30, 4)
        assert [one.run_id for one in store.messages(session_id).items] == [
            one.run_id for one in numbered
        ]
        turn(store, session_id)
        assert store.undo(session_id, 3).message_count == 6

    def test_the_same_again_is_there_already(self, store: SessionStore) -> None:
        """Whatever was done to it since; nothing is read or written."""
        session = source(title="once")
        made = store.import_session(session, messages=source_messages(user()), digest="d")
        store.update_session(made.session.id, {"title": "renamed since"})

        def untouched() -> Iterator[Message]:
            yield from source_messages(user())
            raise AssertionError

        before = store.get_session(made.session.id)
        again = store.import_session(session, messages=untouched(), digest="d")
        assert again == Imported(session=before, outcome="already_there", source_id=session.id)
        assert len(store.list().items) == 1
        store.delete(made.session.id)
        assert store.import_session(session, messages=(), digest="d").outcome == "renamed"
        for outcome in ("renamed", "already_there"):
            odd = store.import_session(session, messages=(), digest="\ud800")
            assert odd.outcome == outcome

    @pytest.mark.parametrize("key", ["", "x", "ABCDEF01-89ab-7cde-8f01-234567890000", "\ud800"])
    def test_what_is_no_id_is_replaced(self, store: SessionStore, key: str) -> None:
        """Ids from elsewhere may be anything."""
        made = store.import_session(source(key), messages=(), digest="d")
        assert (made.outcome, made.source_id) == ("renamed", key)
        assert store.get_session(made.session.id) == made.session

    def test_one_run_id_that_is_taken_renames_them_all(self, store: SessionStore) -> None:
        """And nothing of the run that has it is changed."""
        there = turn(store, store.create_session().id)
        session_id = new_id()
        first = source_run(session_id, seq=1)
        second = source_run(session_id, seq=3, id=there.id, retry_of=first.id)
        messages = (
            *source_messages(user(), assistant(), run_id=first.id),
            *source_messages(user(), assistant(), run_id=there.id),
        )
        numbered = [replace(one, seq=seq) for seq, one in enumerate(messages, start=1)]
        made = store.import_session(
            source(session_id), messages=numbered, runs=(first, second), digest="d"
        )
        assert made.outcome == "new"
        one, other = store.runs(session_id).items
        assert not {one.id, other.id} & {first.id, there.id}
        assert other.retry_of == one.id
        assert store.messages(session_id).items[2].run_id == other.id
        assert store.get_run(there.id) == there

    def test_times_are_the_sources_and_missing_ones_stay_missing(self, store: SessionStore) -> None:
        """When it came here is noted on each message; no other time is made up."""
        first, second = source_messages(replace(user(), created_at=THEN), assistant())
        session = source(created_at=THEN, updated_at=THEN, archived_at=THEN, duration_ms=7)
        made = store.import_session(session, messages=(first, second), digest="d").session
        assert (made.created_at, made.updated_at, made.archived_at) == (THEN, THEN, THEN)
        assert made.duration_ms == 7
        one, other = store.messages(made.id).items
        assert (one.created_at, other.created_at) == (THEN, None)
        assert one.imported_at is not None
        assert other.imported_at == one.imported_at

    @pytest.mark.parametrize(
        ("seqs", "expected"),
        [((1, 2, 3), (1, 3)), ((4, 7, 9), (1, 3)), ((3, 1, 2), None), ((5, 5, 6), None)],
    )
    def test_messages_are_numbered_in_the_order_in_which_they_come(
        self, store: SessionStore, seqs: tuple[int, ...], expected: tuple[int, int] | None
    ) -> None:
        """What points at them goes along; where it is not clear at which one, it is refused."""
        numbered = [
            replace(one, seq=seq)
            for seq, one in zip(seqs, source_messages(user("a"), user("b"), user("c")), strict=True)
        ]
        summary = NewMessage(role="system", content="s", kind="summary", covers=(1, 9))
        covering = replace(source_messages(summary)[0], seq=99, covers=(seqs[0], seqs[2]))
        if expected is None:
            made = store.import_session(source(), messages=numbered, digest="d").session
            assert contents(store, made.id) == ["a", "b", "c"]
            return
        made = store.import_session(source(), messages=[*numbered, covering], digest="d").session
        stored = store.messages(made.id, view="all").items
        assert [one.seq for one in stored] == [1, 2, 3, 4]
        assert stored[-1].covers == expected

    def test_a_run_under_way_elsewhere_is_interrupted(self, store: SessionStore) -> None:
        """And so are its tools; the session is not running."""
        session_id = store.create_session().id
        run = begin(store, session_id)
        store.start_tools(run.id, calling("c1"), ["unsafe"])
        made = brought_in(store, whole(store, session_id)).session
        (stored,) = store.runs(made.id).items
        assert (stored.status, stored.error_type) == ("failed", "interrupted")
        assert [one.outcome for one in store.tool_executions(made.id)] == ["unknown"]
        assert made.status == "failed"
        assert store.get_run(run.id).status == "pending"
        turn(store, made.id)

    def test_c40_a_fork_that_travels_keeps_its_own_and_what_it_inherited_apart(
        self, store: SessionStore
    ) -> None:
        """Exported, deleted and brought in again it says the same."""
        parent = session_with_turn(store)
        fork = store.fork_session(parent).id
        turn(store, fork)
        given = whole(store, fork)
        store.delete(fork)
        made = brought_in(store, given).session
        assert (made.total_tokens, made.inherited_tokens) == (15, 15)
        assert made.forked_from == given[0].forked_from
        assert store.totals().total_tokens == 30

    def test_unknown_fields_are_kept_exactly_and_exported_again(self, store: SessionStore) -> None:
        """As the text that they were: numbers that no parser keeps, spaces, order."""
        extra = '{"weight":  1.10, "big": 18446744073709551616, "ü": null}'
        message = replace(source_messages(user("x"))[0], extra=extra)
        made = store.import_session(source(), messages=(message,), digest="d").session
        (stored,) = store.messages(made.id).items
        assert stored.extra == extra
        (line,) = store.export_messages(made.id)
        assert line.decode() == '{"role":"user","content":"x",' + extra[1:] + "\n"
        empty = replace(source_messages(user("x"))[0], extra="{ }")
        made = store.import_session(source(), messages=(empty,), digest="e").session
        assert list(store.export_messages(made.id)) == [b'{"role":"user","content":"x"}\n']

    def test_a_source_that_breaks_off_leaves_nothing(self, store: SessionStore) -> None:
        """Its error is the caller's."""

        def breaking() -> Iterator[Message]:
            yield from source_messages(user(), assistant())
            raise OSError("the source broke off")

        with pytest.raises(OSError, match="broke off"):
            store.import_session(source(), messages=breaking(), digest="d")
        assert store.list().items == ()

    def test_c08_results_that_answer_nothing_are_kept(self, store: SessionStore) -> None:
        """A second one, one of no call, a missing one: all as they came, in their order."""
        messages = source_messages(
            user("look"),
            calling("c1", "c2"),
            result("c1", "first"),
            result("c1", "second"),
            result("c9", "of nothing"),
            user("go on"),
        )
        made = store.import_session(source(), messages=messages, digest="d").session
        stored = store.messages(made.id).items
        assert [saying(replace(one, imported_at=None)) for one in stored] == [
            saying(one) for one in messages
        ]
        assert store.fork_session(made.id).message_count == 6

    def test_c19_sessions_of_one_instant_are_paged_in_full(self, store: SessionStore) -> None:
        """An import can bring any number of them."""
        ids = {
            store.import_session(source(), messages=(), digest=str(number)).session.id
            for number in range(60)
        }
        seen: list[str] = []
        cursor = None
        while True:
            page = store.list(limit=7, cursor=cursor)
            seen += [one.id for one in page.items]
            if (cursor := page.next_cursor) is None:
                break
        assert (len(seen), set(seen)) == (60, ids)

    def test_a_salvaged_session_keeps_its_gaps_and_its_losses(self, store: SessionStore) -> None:
        """What points at a message that is lost still says which one; others have to be whole."""
        given = whole(store, rich(store))
        session, messages, runs, executions = given
        lost = {messages[0].seq, executions[0].call_seq, messages[-1].seq}
        left = tuple(one for one in messages if one.seq not in lost)
        with pytest.raises(ImportInvalid):
            brought_in(store, (session, left, runs, executions))
        marked = replace(session, metadata={**session.metadata, "salvaged": True})
        made = brought_in(store, (marked, left, runs, executions)).session
        found = whole(store, made.id)
        assert [one.seq for one in found[1]] == [one.seq for one in left]
        assert [one.covers for one in found[1]] == [one.covers for one in left]
        assert [one.first_seq for one in found[2]] == [one.first_seq for one in runs]
        assert [one.result_seq for one in found[3]] == [one.result_seq for one in executions]
        turn(store, made.id, "goes on")
        for changed in (
            left[::-1],
            (replace(left[0], seq=0), *left),
            (replace(left[0], seq=1 << 53),),
        ):
            with pytest.raises(ImportInvalid) as refused:
                brought_in(store, (marked, changed, (), ()), digest="other")
            assert refused.value.field in {"seq", "run_id"}

    @pytest.mark.parametrize(
        ("seqs", "undone_after", "expected"),
        [((1, 2), 9, 2), ((5, 8), 8, 2), ((5, 8), 4, None), ((1, 2), 0, None), ((7, 3), 7, None)],
    )
    def test_an_undone_turn_comes_back_only_while_nothing_new_was_said(
        self, store: SessionStore, seqs: tuple[int, int], undone_after: int, expected: int | None
    ) -> None:
        """Whatever number the source gives for when that was; one that cannot be is unknown."""
        first, second = (
            replace(one, seq=seq)
            for seq, one in zip(seqs, source_messages(user("a"), user("b")), strict=True)
        )
        undone = replace(second, undone_at=THEN, undone_after=undone_after)
        made = store.import_session(source(), messages=(first, undone), digest="d").session
        stored = store.messages(made.id, view="all").items[1]
        assert (stored.undone_at, stored.undone_after) == (THEN, expected)
        turn(store, made.id, "new")
        with pytest.raises(NothingToRedo):
            store.redo(made.id)
