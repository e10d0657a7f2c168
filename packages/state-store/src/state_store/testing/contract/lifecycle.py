"""From open to closed: first use by many at once, and use after the end."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from threading import Barrier
from typing import TYPE_CHECKING, Any

import pytest

from state_store.clock import new_id
from state_store.errors import StoreClosed
from state_store.protocol import SessionStore
from state_store.records import NewSession, SessionState
from state_store.testing.contract.basis import Contract
from state_store.testing.turns import (
    USAGE,
    assistant,
    begin,
    calling,
    complete,
    contents,
    result,
    session_with_turn,
    source,
    user,
)

if TYPE_CHECKING:
    from collections.abc import Callable

    from state_store.testing.contract.basis import OpenStore

THREAD_COUNT = 20
CALLS: dict[str, Callable[[SessionStore], Any]] = {
    "create_session": lambda store: store.create_session(),
    "get_session": lambda store: store.get_session("x"),
    "find_sessions": lambda store: store.find_sessions("x"),
    "list": lambda store: store.list(),
    "update_session": lambda store: store.update_session("x", {}),
    "close_session": lambda store: store.close_session("x", spent=timedelta(0)),
    "archive_session": lambda store: store.archive_session("x", archived=True),
    "delete": lambda store: store.delete("x"),
    "search": lambda store: store.search("x"),
    "prepare_search": lambda store: store.prepare_search(),
    "search_state": lambda store: store.search_state(),
    "check_session": lambda store: store.check_session("x"),
    "unerased": lambda store: store.unerased(),
    "mark_erased": lambda store: store.mark_erased("x"),
    "totals": lambda store: store.totals(),
    "fork_session": lambda store: store.fork_session("x"),
    "undo": lambda store: store.undo("x"),
    "redo": lambda store: store.redo("x"),
    "summarize": lambda store: store.summarize("x", "in short", through=1),
    "import_session": lambda store: store.import_session(source(), messages=(), digest="x"),
    "begin_run": lambda store: store.begin_run("x", user(), run_id=new_id()),
    "start_tools": lambda store: store.start_tools("x", calling("c1"), ["safe"]),
    "finish_tool": lambda store: store.finish_tool(
        "x", call_seq=1, call_index=0, outcome="ok", message=result("c1")
    ),
    "complete_run": lambda store: store.complete_run("x", assistant(), usage=USAGE),
    "fail_run": lambda store: store.fail_run("x", "error", usage=USAGE),
    "find_runs": lambda store: store.find_runs("x"),
    "get_run": lambda store: store.get_run("x"),
    "recover": lambda store: store.recover(),
    "messages": lambda store: store.messages("x"),
    "last_messages": lambda store: store.last_messages("x", 1),
    "runs": lambda store: store.runs("x"),
    "tool_executions": lambda store: store.tool_executions("x"),
    "snapshot": lambda store: store.snapshot("x"),
    "save": lambda store: store.save(SessionState(id="x"), timedelta(0)),
    "load": lambda store: store.load("x"),
    "export_messages": lambda store: list(store.export_messages("x")),
}


class LifecycleContract(Contract):
    """A store is open, and then closed."""

    def test_this_suite_knows_every_method(self) -> None:
        """A method that is added to the protocol is added here."""
        methods = {name for name in vars(SessionStore) if not name.startswith("_")}
        assert {*CALLS, "close"} == methods

    def test_a_closed_store_says_so(self, open_store: OpenStore) -> None:
        """Every method, at once, and with this package's error."""
        store = open_store()
        store.close()
        for name, call in CALLS.items():
            with pytest.raises(StoreClosed):
                pytest.fail(f"{name} answered {call(store)!r}")

    def test_closing_twice_does_nothing(self, open_store: OpenStore) -> None:
        """Whoever cleans up need not know who else did."""
        store = open_store()
        store.close()
        store.close()

    def test_nothing_is_deleted_by_age(self, open_store: OpenStore) -> None:
        """There is no retention: the oldest session is there with all it holds (C42)."""
        now = datetime(2026, 11, 30, tzinfo=UTC)
        moment = now
        store = open_store(clock=lambda: moment)
        kept = []
        for days in (400, 35, 2):
            moment = now - timedelta(days=days)
            kept.append(session_with_turn(store))
        moment = now
        store.recover()
        store.delete(session_with_turn(store))
        store.close_session(kept[0], spent=timedelta(0))
        store.archive_session(kept[1], archived=True)
        complete(store, begin(store, kept[2]))
        assert [len(store.messages(one).items) for one in kept] == [2, 2, 4]
        store.close()

    def test_many_threads_at_once_as_the_very_first_operation(self, store: SessionStore) -> None:
        """Twenty sessions with their turns, none lost or mixed (C02)."""
        start = Barrier(THREAD_COUNT)

        def first_turn(number: int) -> str:
            session_id = new_id()
            start.wait()
            run, _ = store.begin_run(
                session_id, user(str(number)), run_id=new_id(), create=NewSession()
            )
            complete(store, run)
            return session_id

        with ThreadPoolExecutor(THREAD_COUNT) as threads:
            ids = list(threads.map(first_turn, range(THREAD_COUNT)))
        assert {one.id for one in store.list(limit=None).items} == set(ids)
        for number, session_id in enumerate(ids):
            assert contents(store, session_id) == [str(number), "answer"]
