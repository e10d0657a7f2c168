"""Summaries: what they cover, and what becomes of them in a fork. Which count is replay's."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from state_store.errors import BoundaryInvalid
from state_store.testing.contract.basis import Contract
from state_store.testing.turns import begin, complete, contents, retry, session_with_turn, turn

if TYPE_CHECKING:
    from state_store.protocol import SessionStore


def stand_ins(store: SessionStore, session_id: str) -> list[tuple[str | None, Any]]:
    """Return what the session's stand-ins say, and what they cover."""
    everything = store.messages(session_id, view="all").items
    return [(one.content, one.covers) for one in everything if one.kind != "original"]


class SummariesContract(Contract):
    """A stand-in covers whole exchanges and changes nothing else."""

    def test_a_summary_is_appended_and_covers_all_so_far(self, store: SessionStore) -> None:
        """The originals stay, and the status; it counts as no original."""
        session_id = session_with_turn(store)
        store.update_session(session_id, {"status": "closed"})
        before = store.get_session(session_id)
        made = store.summarize(session_id, "in short", through=2)
        assert (made.kind, made.covers, made.seq, made.run_id) == ("summary", (1, 2), 3, None)
        assert store.messages(session_id, view="all").items[-1] == made
        assert contents(store, session_id) == ["question", "answer"]
        after = store.get_session(session_id)
        assert (after.status, after.message_count) == ("closed", 2)
        assert after.revision == before.revision + 1
        derived = store.summarize(session_id, "otherwise", through=2, kind="derived")
        assert (derived.kind, derived.covers) == ("derived", (1, 2))

    @pytest.mark.parametrize("through", [0, 1, 3, 9])
    def test_it_covers_whole_exchanges(self, store: SessionStore, through: int) -> None:
        """Not a part of a run, no stand-in, nothing that is not there; nothing is written."""
        session_id = session_with_turn(store)
        store.summarize(session_id, "in short", through=2)
        before = store.get_session(session_id)
        with pytest.raises(BoundaryInvalid):
            store.summarize(session_id, "wrong", through=through)
        assert store.get_session(session_id) == before

    def test_a_run_under_way_is_not_summed_up_and_not_disturbed(self, store: SessionStore) -> None:
        """What was said before it can be, meanwhile."""
        session_id = session_with_turn(store)
        run = begin(store, session_id)
        with pytest.raises(BoundaryInvalid) as refused:
            store.summarize(session_id, "too much", through=3)
        assert (refused.value.before, refused.value.after) == (2, None)
        store.summarize(session_id, "in short", through=2)
        assert store.get_session(session_id).status == "running"
        complete(store, run)
        assert store.get_session(session_id).message_count == 4

    def test_only_two_kinds_stand_for_others(self, store: SessionStore) -> None:
        """An original is no stand-in."""
        session_id = session_with_turn(store)
        kind: Any = "original"
        with pytest.raises(ValueError, match="no kind"):
            store.summarize(session_id, "x", through=2, kind=kind)

    def test_a_fork_takes_the_stand_ins_of_what_it_copies(self, store: SessionStore) -> None:
        """However late they were made, and moved with their ranges."""
        session_id = store.create_session().id
        for content in ("one", "two", "three"):
            turn(store, session_id, content)
        store.undo(session_id, 1)
        turn(store, session_id, "four")
        store.summarize(session_id, "one", through=2)
        store.summarize(session_id, "one to four", through=8)
        store.summarize(session_id, "one and two", through=4)
        turn(store, session_id, "five")
        whole = store.fork_session(session_id).id
        assert stand_ins(store, whole) == [
            ("one", (1, 2)),
            ("one to four", (1, 6)),
            ("one and two", (1, 4)),
        ]
        part = store.fork_session(session_id, at=4).id
        assert stand_ins(store, part) == [("one", (1, 2)), ("one and two", (1, 4))]
        seqs = [one.seq for one in store.messages(part, view="all").items]
        assert seqs == [1, 2, 3, 4, 5, 6]

    def test_what_says_too_much_since_an_undo_is_not_forked(self, store: SessionStore) -> None:
        """Its text has what was taken back."""
        session_id = store.create_session().id
        turn(store, session_id, "one")
        turn(store, session_id, "two")
        store.summarize(session_id, "one and two", through=4)
        store.undo(session_id)
        assert stand_ins(store, store.fork_session(session_id).id) == []
        store.redo(session_id)
        assert stand_ins(store, store.fork_session(session_id).id) == [("one and two", (1, 4))]

    def test_nothing_comes_back_under_a_stand_in_that_does_not_know_it(
        self, store: SessionStore
    ) -> None:
        """It was made of what was live then."""
        session_id = store.create_session().id
        first = turn(store, session_id, "one")
        turn(store, session_id, "two")
        retry(store, first, "one again")
        store.undo(session_id)
        store.summarize(session_id, "two", through=4)
        with pytest.raises(LookupError):
            store.redo(session_id)

    def test_what_a_stand_in_does_not_reach_comes_back_beside_it(self, store: SessionStore) -> None:
        """Although an earlier attempt, undone for good, lies under it."""
        session_id = store.create_session().id
        first = turn(store, session_id, "one")
        store.undo(session_id)
        turn(store, session_id, "two")
        retry(store, first, "one again")
        store.undo(session_id)
        store.summarize(session_id, "two", through=4)
        store.redo(session_id)
        assert contents(store, session_id) == ["two", "answer", "one again", "answer"]
