"""Forks: what is copied, where a session may be cut, and that neither side harms the other."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from state_store.clock import new_id
from state_store.errors import BoundaryInvalid, SessionBusy
from state_store.records import NewMessage, NewSession, Usage
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
    session_with_turn,
    turn,
    user,
)

if TYPE_CHECKING:
    from state_store.protocol import SessionStore
    from state_store.records import Message

SETTINGS = NewSession(
    title="parent", provider="p", endpoint="https://e.test", model_id="m", metadata={"k": [1]}
)


def with_a_tool(store: SessionStore, session_id: str) -> None:
    """Add a turn of four messages, whose results come in another order than their calls."""
    run = begin(store, session_id, "look twice")
    asked = store.start_tools(run.id, calling("same", "same"), ["safe", "unsafe"])
    for index in (1, 0):
        store.finish_tool(
            run.id, call_seq=asked.seq, call_index=index, outcome="ok", message=result("same")
        )
    complete(store, run)


def saying(message: Message) -> Message:
    """Return *message* without what says where it is stored."""
    return replace(message, id=0, session_id="", seq=0, run_id=None)


class BranchesContract(Contract):
    """A fork is a session of its own that begins with another one's words."""

    def test_a_fork_has_everything_under_ids_of_its_own(self, store: SessionStore) -> None:
        """Settings, messages as they are, runs with their ends, tool executions."""
        parent = session_with_turn(store, SETTINGS)
        with_a_tool(store, parent)
        store.fail_run(begin(store, parent, "lost").id, "provider.error", usage=Usage())
        before = store.snapshot(parent)
        fork = store.fork_session(parent)
        assert fork == store.get_session(fork.id)
        assert (fork.title, fork.provider, fork.metadata) == ("parent", "p", {"k": [1]})
        assert (fork.forked_from, fork.status) == ((parent, before.last_seq), "failed")
        assert fork.message_count == before.session.message_count
        copied, kept = store.messages(fork.id).items, store.messages(parent).items
        assert [saying(one) for one in copied] == [saying(one) for one in kept]
        assert not {one.id for one in copied} & {one.id for one in kept}
        runs = store.runs(fork.id).items
        assert [one.copied_from for one in runs] == [one.id for one in before.runs]
        for run, its in zip(runs, before.runs, strict=True):
            same = replace(its, id=run.id, session_id=fork.id, copied_from=its.id)
            assert run == replace(same, journal_head=None)
        executions = store.tool_executions(fork.id)
        assert executions == tuple(
            replace(one, session_id=fork.id, run_id=runs[1].id) for one in before.executions
        )
        assert store.snapshot(parent) == before

    def test_a_title_may_be_given(self, store: SessionStore) -> None:
        """Then it is the user's."""
        fork = store.fork_session(session_with_turn(store, SETTINGS), title="another way")
        assert (fork.title, fork.title_source) == ("another way", "user")

    def test_c40_what_is_inherited_counts_in_no_total(self, store: SessionStore) -> None:
        """A used 100, its fork B 50: B says 50 and 100 inherited, and together they used 150."""
        a = store.create_session().id
        complete(store, begin(store, a), Usage(input_tokens=60, output_tokens=40))
        b = store.fork_session(a).id
        complete(store, begin(store, b), Usage(input_tokens=30, output_tokens=20))
        one, other = store.get_session(a), store.get_session(b)
        assert (one.total_tokens, one.inherited_tokens) == (100, 0)
        assert (other.total_tokens, other.inherited_tokens) == (50, 100)
        assert (store.totals(b).total_tokens, store.totals(b).inherited_tokens) == (50, 100)
        assert store.totals().total_tokens == 150
        c = store.get_session(store.fork_session(b).id)
        assert (c.total_tokens, c.inherited_tokens, store.totals().total_tokens) == (0, 150, 150)
        store.delete(a)
        assert store.totals().total_tokens == 50

    def test_what_is_inherited_is_of_the_copied_part(self, store: SessionStore) -> None:
        """With its cost; unreported usage of the parent does not make the fork's own unknown."""
        parent = store.create_session().id
        run = begin(store, parent)
        store.complete_run(run.id, assistant(), usage=USAGE, cost=0.25)
        store.complete_run(begin(store, parent).id, assistant(), usage=Usage(), cost=0.5)
        fork = store.fork_session(parent, at=2)
        assert (fork.inherited_tokens, fork.inherited_cost) == (15, 0.25)
        whole = store.fork_session(parent)
        assert (whole.inherited_tokens, whole.inherited_cost) == (15, 0.75)
        assert (whole.total_tokens, whole.cost, whole.usage_complete) == (0, None, True)

    @pytest.mark.parametrize("deleted", ["parent", "fork"])
    def test_c41_deleting_one_leaves_the_other_whole(
        self, store: SessionStore, deleted: str
    ) -> None:
        """Its messages, runs and executions; it can go on."""
        ids = {"parent": session_with_turn(store)}
        with_a_tool(store, ids["parent"])
        ids["fork"] = store.fork_session(ids["parent"]).id
        (other,) = set(ids) - {deleted}
        before = store.snapshot(ids[other]), store.messages(ids[other], view="all").items
        store.delete(ids[deleted])
        assert (store.snapshot(ids[other]), store.messages(ids[other], view="all").items) == before
        turn(store, ids[other])
        assert store.fork_session(ids[other]).message_count == 9

    def test_both_go_on_by_themselves(self, store: SessionStore) -> None:
        """What is said in one is not in the other."""
        parent = session_with_turn(store)
        fork = store.fork_session(parent).id
        turn(store, parent, "here")
        turn(store, fork, "there")
        assert contents(store, parent)[2::2] == ["here"]
        assert contents(store, fork)[2::2] == ["there"]

    @pytest.mark.parametrize(
        ("at", "before", "after"), [(1, None, 2), (3, 2, 7), (6, 2, 7), (8, 7, None), (0, None, 2)]
    )
    def test_a_run_is_never_cut(
        self, store: SessionStore, at: int, before: int | None, after: int | None
    ) -> None:
        """The error names the nearest ends of exchanges, and nothing is written."""
        parent = session_with_turn(store)
        with_a_tool(store, parent)
        with pytest.raises(BoundaryInvalid) as refused:
            store.fork_session(parent, at=at)
        assert (refused.value.seq, refused.value.before, refused.value.after) == (at, before, after)
        assert len(store.list().items) == 1
        for legal in {before, after} - {None}:
            assert store.fork_session(parent, at=legal).message_count == legal

    def test_c06_saved_messages_are_cut_where_nothing_waits(self, store: SessionStore) -> None:
        """Not between a call and its result, nor before an answer; one without is no bar."""
        parent = store.create_session().id
        said(
            store,
            parent,
            NewMessage(role="system", content="be brief"),
            user("look"),
            calling("c1", "c2"),
            result("c2"),
            result("c1"),
            assistant(),
            user("again"),
            calling("c3"),
            user("go on"),
            result("c3"),
            user("and"),
            calling("c4"),
            user("never mind"),
            assistant(),
            calling("c5"),
        )
        legal = set()
        for at in range(1, 16):
            try:
                fork = store.fork_session(parent, at=at)
            except BoundaryInvalid:
                continue
            legal.add(at)
            assert contents(store, fork.id) == contents(store, parent)[:at]
        assert legal == {1, 6, 10, 12}
        assert store.fork_session(parent).message_count == 15

    def test_a_run_under_way_stays_behind(self, store: SessionStore) -> None:
        """Unless it would be cut."""
        parent = session_with_turn(store)
        run = begin(store, parent, "under way")
        fork = store.fork_session(parent)
        assert (fork.message_count, fork.status) == (2, "idle")
        assert fork.forked_from == (parent, 2)
        assert store.fork_session(parent, at=2).message_count == 2
        with pytest.raises(SessionBusy):
            store.fork_session(parent, at=3)
        complete(store, run)
        assert store.fork_session(parent, at=4).message_count == 4

    def test_undone_turns_stay_behind_and_numbers_close_up(self, store: SessionStore) -> None:
        """A retry that is copied without what it retried stands by itself."""
        parent = store.create_session().id
        turn(store, parent, "one")
        failed = begin(store, parent, "two")
        store.fail_run(failed.id, "provider.error", usage=USAGE)
        store.undo(parent)
        with_a_tool(store, parent)
        retry(store, failed, "two again")
        fork = store.fork_session(parent)
        copied = store.messages(fork.id, view="all").items
        assert [one.seq for one in copied] == list(range(1, 10))
        assert contents(store, fork.id) == contents(store, parent)
        assert [one.first_seq for one in store.runs(fork.id).items] == [1, 3, 8]
        assert [one.retry_of for one in store.runs(fork.id).items] == [None, None, None]
        places = [(one.call_seq, one.result_seq) for one in store.tool_executions(fork.id)]
        assert places == [(4, 6), (4, 5)]
        again = store.fork_session(fork.id)
        assert [one.content for one in copied] == contents(store, again.id)

    def test_retries_stay_linked(self, store: SessionStore) -> None:
        """A copied retry is one of the copied run."""
        parent = store.create_session().id
        failed = begin(store, parent)
        store.fail_run(failed.id, "provider.error", usage=USAGE)
        retry(store, failed)
        first, second = store.runs(store.fork_session(parent).id).items
        assert (second.retry_of, first.copied_from) == (first.id, failed.id)

    def test_what_nobody_else_has_comes_along(self, store: SessionStore) -> None:
        """Parts, provider data, extra fields, reasoning, times, byte for byte."""
        parent = store.create_session().id
        full = NewMessage(
            role="assistant",
            content="a\0b",
            reasoning_content="because",
            parts=({"type": "image", "n": 1.5},),
            provider_data='{"n": 18446744073709551615,  "spaced" : 1e2}',
            name="n",
            extra='{"x": 1e2}',
        )
        said(store, parent, user(), full)
        fork = store.fork_session(parent).id
        (_, kept), (_, copied) = store.messages(parent).items, store.messages(fork).items
        assert saying(kept) == saying(copied)
        assert copied.extra == '{"x": 1e2}'

    def test_an_empty_session_can_be_forked(self, store: SessionStore) -> None:
        """There is nothing to cut."""
        parent = store.create_session(SETTINGS).id
        fork = store.fork_session(parent)
        assert (fork.message_count, fork.forked_from) == (0, (parent, 0))

    def test_a_fork_is_new_today(self, open_store: OpenStore) -> None:
        """Its own time of creation; the messages keep theirs."""
        store = open_store(clock=SteppingClock())
        parent = session_with_turn(store)
        fork = store.fork_session(parent)
        assert fork.created_at == fork.updated_at > store.get_session(parent).updated_at
        assert store.messages(fork.id).items[0].created_at == (
            store.messages(parent).items[0].created_at
        )
        store.close()

    def test_a_long_session_is_copied_to_its_last_message(self, store: SessionStore) -> None:
        """No message is lost where one page ends and the next begins."""
        parent = new_id()
        store.create_session(session_id=parent)
        said(store, parent, *(user(str(number)) for number in range(1201)))
        fork = store.fork_session(parent, at=1100)
        assert contents(store, fork.id) == [str(number) for number in range(1100)]
