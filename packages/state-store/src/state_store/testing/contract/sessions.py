"""Sessions: creating, changing, finding, listing, archiving, closing, deleting."""

from __future__ import annotations

from contextlib import closing
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import pytest

from state_store.clock import new_id
from state_store.errors import (
    IdInvalid,
    RunExists,
    SessionBusy,
    SessionExists,
    SessionNotFound,
    SessionWasDeleted,
)
from state_store.records import NewSession, SessionState
from state_store.testing.clocks import SteppingClock
from state_store.testing.contract.basis import Contract, OpenStore
from state_store.testing.turns import begin, contents, session_with_turn, turn, user

if TYPE_CHECKING:
    from collections.abc import Callable

    from state_store.protocol import SessionStore

AN_ID = "01234567-89ab-7cde-8f01-234567890000"
SETTINGS = NewSession(
    title="a title",
    title_source="user",
    provider="some-provider",
    endpoint="https://example.test/v1",
    model_id="some-model",
    model_config={"context_window": 8192, "cost": {"input": 0.5}},
    system_prompt="be brief",
    parameters={"temperature": 0.25, "stop": ["a", "b"]},
    show_reasoning=True,
    metadata={"k": None, "ü": [1, 2.5, "x", True]},
)
NEEDS_A_SESSION: dict[str, Callable[[SessionStore, str], Any]] = {
    "get_session": lambda store, key: store.get_session(key),
    "update_session": lambda store, key: store.update_session(key, {"title": "x"}),
    "close_session": lambda store, key: store.close_session(key, spent=timedelta(0)),
    "archive_session": lambda store, key: store.archive_session(key, archived=True),
    "delete": lambda store, key: store.delete(key),
    "begin_run": lambda store, key: store.begin_run(key, user(), run_id=new_id()),
    "messages": lambda store, key: store.messages(key),
    "last_messages": lambda store, key: store.last_messages(key, 1),
    "runs": lambda store, key: store.runs(key),
    "tool_executions": lambda store, key: store.tool_executions(key),
    "snapshot": lambda store, key: store.snapshot(key),
    "totals": lambda store, key: store.totals(key),
    "fork_session": lambda store, key: store.fork_session(key),
    "undo": lambda store, key: store.undo(key),
    "redo": lambda store, key: store.redo(key),
    "summarize": lambda store, key: store.summarize(key, "in short", through=1),
    "load": lambda store, key: store.load(key),
    "export_messages": lambda store, key: list(store.export_messages(key)),
}


class SessionsContract(Contract):
    """Sessions come, change and go as said."""

    def test_a_new_session_is_idle_empty_and_found_by_its_id(self, store: SessionStore) -> None:
        """Creating returns what reading returns."""
        session = store.create_session()
        assert session == store.get_session(session.id)
        assert (session.status, session.message_count, session.total_tokens) == ("idle", 0, 0)
        assert (session.cost, session.usage_complete, session.duration_ms) == (None, True, 0)
        assert (session.title, session.archived_at, session.forked_from) == (None, None, None)
        assert session.created_at == session.updated_at
        assert session.created_at.utcoffset() == timedelta(0)

    def test_settings_come_back_as_they_were_given(self, store: SessionStore) -> None:
        """Every field of NewSession is kept."""
        session = store.create_session(SETTINGS, session_id=AN_ID)
        assert session.id == AN_ID
        for name in NewSession.__dataclass_fields__:
            assert getattr(session, name) == getattr(SETTINGS, name), name

    def test_a_taken_id_is_refused_and_its_session_is_unchanged(self, store: SessionStore) -> None:
        """Creating and beginning with *create* both refuse."""
        session = store.create_session(SETTINGS)
        with pytest.raises(SessionExists) as refused:
            store.create_session(session_id=session.id)
        assert refused.value.session_id == session.id
        with pytest.raises(SessionExists):
            store.begin_run(session.id, user(), run_id=new_id(), create=NewSession())
        assert store.get_session(session.id) == session

    def test_a_session_that_is_not_there_is_said_to_be_missing(self, store: SessionStore) -> None:
        """No method answers for an unknown id as if it were an empty session."""
        for name, ask in NEEDS_A_SESSION.items():
            with pytest.raises(SessionNotFound) as missing:
                pytest.fail(f"{name} answered {ask(store, 'nobody')!r}")
            assert missing.value.session_id == "nobody"
            assert not isinstance(missing.value, SessionWasDeleted)

    def test_a_deleted_session_is_said_to_be_deleted(self, store: SessionStore) -> None:
        """The tombstone answers on every path (C41)."""
        session_id = session_with_turn(store)
        store.delete(session_id)
        for name, ask in NEEDS_A_SESSION.items():
            with pytest.raises(SessionWasDeleted) as gone:
                pytest.fail(f"{name} answered {ask(store, session_id)!r}")
            assert gone.value.session_id == session_id
            assert gone.value.deleted_at.endswith("Z")

    def test_an_update_changes_what_it_names_and_nothing_else(self, open_store: OpenStore) -> None:
        """Other settings stay; activity and revision move on."""
        with closing(open_store(clock=SteppingClock())) as store:
            before = store.create_session(SETTINGS)
            after = store.update_session(
                before.id, {"model_id": "other", "duration_ms": 7, "status": "closed"}
            )
            assert after == store.get_session(before.id)
            assert (after.model_id, after.duration_ms, after.status) == ("other", 7, "closed")
            assert after.updated_at > before.updated_at
            assert after.revision > before.revision
            for name in NewSession.__dataclass_fields__:
                if name != "model_id":
                    assert getattr(after, name) == getattr(before, name), name

    @pytest.mark.parametrize("changes", [{"id": "x"}, {"message_count": 1}, {"status": "asleep"}])
    def test_an_update_of_what_cannot_be_changed_is_refused(
        self, store: SessionStore, changes: dict[str, Any]
    ) -> None:
        """An unknown field, a derived one, a status that is none."""
        session = store.create_session()
        with pytest.raises(ValueError, match="a session has no"):
            store.update_session(session.id, {"title": "x", **changes})
        assert store.get_session(session.id) == session

    def test_the_revision_grows_with_every_committed_change(self, store: SessionStore) -> None:
        """Whoever remembers a revision learns that something happened."""
        session_id = store.create_session().id
        seen = [store.get_session(session_id).revision]
        steps: list[Callable[[], object]] = [
            lambda: store.update_session(session_id, {"title": "x"}),
            lambda: store.archive_session(session_id, archived=True),
            lambda: store.archive_session(session_id, archived=False),
            lambda: turn(store, session_id),
            lambda: store.close_session(session_id, spent=timedelta(seconds=1)),
            lambda: store.save(store.load(session_id), timedelta(seconds=1)),
        ]
        for step in steps:
            step()
            seen.append(store.get_session(session_id).revision)
        assert seen == sorted(set(seen))

    def test_an_automatic_title_is_for_sessions_without_one(self, store: SessionStore) -> None:
        """The first one stays; a later one changes nothing."""
        session_id = store.create_session().id
        for title in ("first", "second"):
            run, _ = store.begin_run(session_id, user(), run_id=new_id(), auto_title=title)
            store.fail_run(run.id, "cancelled", usage=run.usage)
        session = store.get_session(session_id)
        assert (session.title, session.title_source) == ("first", "auto")

    def test_a_title_that_the_user_gave_is_the_users(self, store: SessionStore) -> None:
        """No automatic title replaces it, and taking it away allows one again."""
        session_id = store.create_session().id
        named = store.update_session(session_id, {"title": "mine"})
        assert (named.title, named.title_source) == ("mine", "user")
        run, _ = store.begin_run(session_id, user(), run_id=new_id(), auto_title="auto")
        store.fail_run(run.id, "cancelled", usage=run.usage)
        assert store.get_session(session_id).title == "mine"
        store.update_session(session_id, {"title": None})
        store.begin_run(session_id, user(), run_id=new_id(), auto_title="auto")
        session = store.get_session(session_id)
        assert (session.title, session.title_source) == ("auto", "auto")

    def test_the_source_of_a_title_can_be_said(self, store: SessionStore) -> None:
        """A program that makes titles says so."""
        session = store.create_session()
        titled = store.update_session(session.id, {"title": "made", "title_source": "auto"})
        assert (titled.title, titled.title_source) == ("made", "auto")

    def test_the_list_has_the_newest_activity_first(self, open_store: OpenStore) -> None:
        """A turn moves its session to the top."""
        with closing(open_store(clock=SteppingClock())) as store:
            first, second, third = (store.create_session().id for _ in range(3))
            assert [one.id for one in store.list().items] == [third, second, first]
            turn(store, first)
            assert [one.id for one in store.list().items] == [first, third, second]

    def test_a_summary_says_what_the_session_says(self, store: SessionStore) -> None:
        """A row of the list is a part of the session and nothing else."""
        session_id = session_with_turn(store, SETTINGS)
        (summary,) = store.list().items
        session = store.get_session(session_id)
        for name in type(summary).__dataclass_fields__:
            assert getattr(summary, name) == getattr(session, name), name

    def test_an_archived_session_is_in_the_other_list_only(self, open_store: OpenStore) -> None:
        """Archiving is no activity, and can be taken back."""
        with closing(open_store(clock=SteppingClock())) as store:
            session = store.create_session()
            archived = store.archive_session(session.id, archived=True)
            assert archived.archived_at is not None
            assert archived.updated_at == session.updated_at
            assert store.list().items == ()
            assert [one.id for one in store.list(archived=True).items] == [session.id]
            assert [one.id for one in store.find_sessions(session.id)] == [session.id]
            back = store.archive_session(session.id, archived=False)
            assert back.archived_at is None
            assert [one.id for one in store.list().items] == [session.id]
            assert store.list(archived=True).items == ()

    def test_closing_books_the_time_and_closes_an_idle_session(self, open_store: OpenStore) -> None:
        """It adds to the duration and is no activity."""
        with closing(open_store(clock=SteppingClock())) as store:
            session = store.create_session()
            store.close_session(session.id, spent=timedelta(seconds=2))
            closed = store.close_session(session.id, spent=timedelta(milliseconds=5))
            assert (closed.status, closed.duration_ms) == ("closed", 2005)
            assert closed.updated_at == session.updated_at

    def test_closing_a_failed_or_running_session_keeps_its_status(
        self, store: SessionStore
    ) -> None:
        """What went wrong stays visible."""
        session_id = store.create_session().id
        run = begin(store, session_id)
        assert store.close_session(session_id, spent=timedelta(0)).status == "running"
        store.fail_run(run.id, "cancelled", usage=run.usage)
        assert store.close_session(session_id, spent=timedelta(0)).status == "failed"

    def test_a_session_is_found_by_whole_id_last_digits_or_exact_title(
        self, open_store: OpenStore
    ) -> None:
        """All that match come back, newest activity first."""
        with closing(open_store(clock=SteppingClock())) as store:
            one, two = f"{AN_ID[:-12]}aaaa12345678", f"{AN_ID[:-12]}bbbb12345678"
            for session_id in (one, two):
                store.create_session(NewSession(title="plan"), session_id=session_id)

            def found(ref: str) -> list[str]:
                return [summary.id for summary in store.find_sessions(ref)]

            assert found(one) == [one]
            assert found("aaaa12345678") == [one]
            assert found("12345678") == found("5678") == [two, one]
            assert found("plan") == [two, one]

    def test_runs_are_found_by_id_and_digits(self, store: SessionStore) -> None:
        """In every session; fewer than four digits name nothing, and nothing is a pattern."""
        one, two = f"{AN_ID[:-4]}1234", f"{AN_ID[:-5]}f1234"
        for run_id in (two, one):
            store.begin_run(store.create_session().id, user(), run_id=run_id)

        def found(ref: str) -> list[str]:
            return [run.id for run in store.find_runs(ref)]

        assert found(one) == [one]
        assert found(one[-5:]) == [one]
        assert found("1234") == sorted([one, two])
        assert [found(ref) for ref in ("", "234", "_234", "%1234", one.upper(), "\0")] == [[]] * 6

    @pytest.mark.parametrize(
        "text", ["", "an-id", AN_ID.upper(), f"{{{AN_ID}}}", f"{AN_ID}\n", f"urn:uuid:{AN_ID}"]
    )
    def test_what_is_no_canonical_uuid_becomes_no_id(self, store: SessionStore, text: str) -> None:
        """Ids become parts of paths and keys, so they are checked where they enter."""
        with pytest.raises(IdInvalid):
            store.begin_run(text, user(), run_id=new_id(), create=NewSession())
        session_id = store.create_session().id
        with pytest.raises(IdInvalid):
            store.begin_run(session_id, user(), run_id=text)
        assert store.messages(session_id).items == ()
        assert [one.id for one in store.list().items] == [session_id]

    def test_a_run_id_is_used_once(self, store: SessionStore) -> None:
        """A second run with the id of another is refused and changes nothing."""
        session_id = session_with_turn(store)
        (run,) = store.runs(session_id).items
        with pytest.raises(RunExists):
            store.begin_run(session_id, user(), run_id=run.id)
        assert len(store.messages(session_id).items) == 2

    def test_a_whole_id_wins_over_a_title_that_looks_like_it(self, store: SessionStore) -> None:
        """The id of one session as the title of another names the first alone."""
        one = store.create_session().id
        store.create_session(NewSession(title=one))
        assert [summary.id for summary in store.find_sessions(one)] == [one]

    def test_digits_and_a_title_together_find_both(self, store: SessionStore) -> None:
        """What could mean two sessions names both, so that the caller can ask."""
        one = store.create_session(session_id=f"{AN_ID[:-4]}1234").id
        two = store.create_session(NewSession(title="1234")).id
        assert {summary.id for summary in store.find_sessions("1234")} == {one, two}

    @pytest.mark.parametrize(
        "ref",
        ["", "bcd", "ABCD", "%bcd", "_bcd", "a%d", "%", "*bcd", "Plan", "pla", "p%", " plan", "\0"],
    )
    def test_nothing_in_a_reference_is_a_pattern(self, store: SessionStore, ref: str) -> None:
        """Case counts, fewer than four digits name nothing, and `%` and `_` are themselves."""
        store.create_session(NewSession(title="plan"), session_id=f"{AN_ID[:-4]}abcd")
        store.create_session(NewSession(title=""))
        assert store.find_sessions(ref) == ()

    @pytest.mark.parametrize("title", ["100%", "a_b", "PLAN", "it's", 'say "x"', "a\0b", "é"])
    def test_a_title_of_any_text_is_found_by_it(self, store: SessionStore, title: str) -> None:
        """Also when it holds what a pattern would."""
        session_id = store.create_session(NewSession(title=title)).id
        store.create_session(NewSession(title="axb"))
        assert [summary.id for summary in store.find_sessions(title)] == [session_id]

    def test_deleting_removes_one_session_and_no_other(self, store: SessionStore) -> None:
        """It says what it removed (C41)."""
        kept, deleted_id = session_with_turn(store), session_with_turn(store)
        before = store.get_session(kept), store.messages(kept), store.runs(kept)
        deleted = store.delete(deleted_id)
        assert (deleted.id, deleted.message_count, deleted.run_count) == (deleted_id, 2, 1)
        assert [one.id for one in store.list(limit=None).items] == [kept]
        assert store.find_sessions(deleted_id) == ()
        assert (store.get_session(kept), store.messages(kept), store.runs(kept)) == before

    def test_a_deleted_id_never_comes_back(self, store: SessionStore) -> None:
        """Neither creating, beginning nor saving brings it to life by accident (C41)."""
        session_id = session_with_turn(store)
        state = store.load(session_id)
        store.delete(session_id)
        for revive in (
            lambda: store.create_session(session_id=session_id),
            lambda: store.begin_run(session_id, user(), run_id=new_id(), create=NewSession()),
            lambda: store.save(SessionState(id=session_id, messages=state.messages), timedelta(0)),
        ):
            with pytest.raises(SessionWasDeleted):
                revive()
        assert store.list(limit=None).items == ()

    def test_what_a_delete_owes_is_asked_until_it_is_done(self, store: SessionStore) -> None:
        """A caller with a journal may die between the two; the next one finds out."""
        kept, first, second = (store.create_session().id for _ in range(3))
        assert store.unerased() == ()
        store.delete(first)
        store.delete(second)
        assert set(store.unerased()) == {first, second}
        store.mark_erased(first)
        store.mark_erased(first)
        store.mark_erased(kept)
        assert store.unerased() == (second,)

    def test_a_session_with_a_run_under_way_is_not_deleted(self, store: SessionStore) -> None:
        """The run and its input stay."""
        session_id = store.create_session().id
        begin(store, session_id, "keep me")
        with pytest.raises(SessionBusy):
            store.delete(session_id)
        assert contents(store, session_id) == ["keep me"]
