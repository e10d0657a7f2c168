"""Undoing and redoing: which messages go together, what stays, and when nothing comes back."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING

import pytest

from state_store.clock import new_id
from state_store.errors import NothingToRedo, NothingToUndo, SessionBusy
from state_store.records import NewMessage
from state_store.testing.clocks import SteppingClock
from state_store.testing.contract.basis import Contract, OpenStore
from state_store.testing.turns import (
    USAGE,
    assistant,
    begin,
    calling,
    complete,
    contents,
    result,
    retry,
    said,
    turn,
    user,
)

if TYPE_CHECKING:
    from state_store.protocol import SessionStore
    from state_store.records import Run


def asked(store: SessionStore, session_id: str) -> list[str | None]:
    """Return the questions that are live."""
    return [one.content for one in store.messages(session_id).items if one.role == "user"]


def failed(store: SessionStore, session_id: str, content: str) -> Run:
    """Ask and fail."""
    run = begin(store, session_id, content)
    return store.fail_run(run.id, "provider.error", usage=USAGE)


class UndoingContract(Contract):
    """Turns go and come back as wholes."""

    def test_an_undone_turn_is_out_of_sight_and_not_gone(self, store: SessionStore) -> None:
        """It is in the view of everything; counts and totals stay, since it was said and used."""
        session_id = store.create_session().id
        turn(store, session_id, "one")
        turn(store, session_id, "two")
        before = store.get_session(session_id)
        undone = store.undo(session_id)
        assert undone == store.get_session(session_id)
        assert asked(store, session_id) == ["one"]
        assert [one.content for one in store.last_messages(session_id, 9)] == ["one", "answer"]
        assert len(store.load(session_id).messages) == 2
        assert len(list(store.export_messages(session_id))) == 2
        assert len(store.messages(session_id, view="all").items) == 4
        assert [one.undone_at is None for one in store.runs(session_id).items] == [True, False]
        assert (undone.message_count, undone.total_tokens) == (4, before.total_tokens)
        assert undone.revision == before.revision + 1
        assert store.totals(session_id).run_count == 2

    def test_undone_turns_come_back_in_their_order(self, store: SessionStore) -> None:
        """One by one or several at once, as many as there are."""
        session_id = store.create_session().id
        for content in ("one", "two", "three"):
            turn(store, session_id, content)
        everything = contents(store, session_id)
        store.undo(session_id)
        store.undo(session_id, 1)
        assert asked(store, session_id) == ["one"]
        store.redo(session_id)
        assert asked(store, session_id) == ["one", "two"]
        store.redo(session_id, 5)
        assert contents(store, session_id) == everything
        store.undo(session_id, 99)
        assert contents(store, session_id) == []
        with pytest.raises(NothingToUndo):
            store.undo(session_id)
        store.redo(session_id, 3)
        assert contents(store, session_id) == everything
        with pytest.raises(NothingToRedo):
            store.redo(session_id)
        assert [one.undone_after for one in store.runs(session_id).items] == [None] * 3

    def test_there_may_be_nothing_to_undo(self, store: SessionStore) -> None:
        """An empty session, one with a prompt alone; nothing is changed."""
        session_id = store.create_session().id
        said(store, session_id, NewMessage(role="system", content="be brief"), assistant("hello"))
        before = store.get_session(session_id)
        with pytest.raises(NothingToUndo):
            store.undo(session_id)
        with pytest.raises(NothingToRedo):
            store.redo(session_id)
        assert store.get_session(session_id) == before

    @pytest.mark.parametrize("count", [0, -1])
    def test_less_than_one_is_no_count(self, store: SessionStore, count: int) -> None:
        """ValueError, before anything is looked at."""
        session_id = store.create_session().id
        with pytest.raises(ValueError, match="at least 1"):
            store.undo(session_id, count)
        with pytest.raises(ValueError, match="at least 1"):
            store.redo(session_id, count)

    def test_a_turn_is_the_input_and_all_that_answered_it(self, store: SessionStore) -> None:
        """A failed run and the ones that retried it, with others between them, go together."""
        session_id = store.create_session().id
        first = failed(store, session_id, "try")
        turn(store, session_id, "between")
        second = store.begin_run(session_id, user("try"), run_id=new_id(), retry_of=first.id)[0]
        store.fail_run(second.id, "provider.error", usage=USAGE)
        retry(store, second, "try")
        everything = contents(store, session_id)
        assert store.undo(session_id).status == "idle"
        assert asked(store, session_id) == ["between"]
        store.undo(session_id)
        assert contents(store, session_id) == []
        store.redo(session_id)
        assert asked(store, session_id) == ["between"]
        store.redo(session_id)
        assert contents(store, session_id) == everything

    def test_the_status_is_that_of_the_last_live_run(self, store: SessionStore) -> None:
        """Whether the session failed is not told by what was taken back."""
        session_id = store.create_session().id
        failed(store, session_id, "one")
        turn(store, session_id, "two")
        assert store.undo(session_id).status == "failed"
        assert store.redo(session_id).status == "idle"
        assert store.undo(session_id, 2).status == "idle"

    def test_what_was_undone_before_something_new_stays_undone(self, store: SessionStore) -> None:
        """Also when the new turn is undone in its turn: that one comes back, and only that one."""
        session_id = store.create_session().id
        for content in ("one", "two"):
            turn(store, session_id, content)
        store.undo(session_id)
        turn(store, session_id, "instead")
        with pytest.raises(NothingToRedo):
            store.redo(session_id)
        store.undo(session_id, 2)
        store.redo(session_id, 9)
        assert asked(store, session_id) == ["one", "instead"]

    def test_a_turn_that_is_retried_after_its_undo_counts_as_the_retry(
        self, store: SessionStore
    ) -> None:
        """The first attempt does not come back beside the second."""
        session_id = store.create_session().id
        run = turn(store, session_id, "one")
        store.undo(session_id)
        retry(store, run, "one")
        store.undo(session_id)
        store.redo(session_id)
        assert asked(store, session_id) == ["one"]

    def test_messages_without_a_run_go_with_the_input_before_them(
        self, store: SessionStore
    ) -> None:
        """A user's message and what follows up to the next one; what comes before any stays."""
        session_id = store.create_session().id
        said(
            store,
            session_id,
            NewMessage(role="system", content="be brief"),
            user("one"),
            calling("c1"),
            result("c1"),
            user("two"),
            assistant(),
        )
        turn(store, session_id, "three")
        said(store, session_id, assistant("a note"))
        everything = contents(store, session_id)
        store.undo(session_id)
        assert contents(store, session_id) == everything[:6]
        store.undo(session_id)
        assert contents(store, session_id) == everything[:4]
        store.undo(session_id)
        assert contents(store, session_id) == ["be brief"]
        with pytest.raises(NothingToUndo):
            store.undo(session_id)
        store.redo(session_id, 2)
        assert contents(store, session_id) == everything[:6]
        store.redo(session_id)
        assert contents(store, session_id) == everything

    def test_saving_goes_on_behind_what_is_live(self, store: SessionStore) -> None:
        """What was undone need not be repeated; what is appended is new, and ends the redoing."""
        session_id = store.create_session().id
        said(store, session_id, user("one"), assistant(), user("two"), assistant())
        store.undo(session_id)
        said(store, session_id, user("instead"))
        assert asked(store, session_id) == ["one", "instead"]
        with pytest.raises(NothingToRedo):
            store.redo(session_id)
        assert [one.seq for one in store.messages(session_id).items] == [1, 2, 5]

    def test_a_live_run_is_in_the_way(self, store: SessionStore) -> None:
        """Nothing is undone under it."""
        session_id = store.create_session().id
        turn(store, session_id, "one")
        run = begin(store, session_id, "under way")
        for attempt in (store.undo, store.redo):
            with pytest.raises(SessionBusy):
                attempt(session_id)
        complete(store, run)
        store.undo(session_id)
        assert asked(store, session_id) == ["one"]

    def test_no_clock_decides_what_comes_back(self, open_store: OpenStore) -> None:
        """It may stand still or run backwards."""
        for step in (timedelta(0), timedelta(hours=-1)):
            store = open_store(clock=SteppingClock(step=step))
            session_id = store.create_session().id
            for content in ("one", "two", "three"):
                turn(store, session_id, content)
            store.undo(session_id)
            store.undo(session_id)
            store.redo(session_id)
            assert asked(store, session_id) == ["one", "two"]
            turn(store, session_id, "four")
            store.undo(session_id, 2)
            store.redo(session_id, 9)
            assert asked(store, session_id) == ["one", "two", "four"]
            store.close()
