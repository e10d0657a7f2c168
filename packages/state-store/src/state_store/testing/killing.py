"""Writers that are killed at random instants, and the ledger that says what must be there.

A job for a process of its own: it forks writers, kills one after the other with SIGKILL, and keeps
what they had been told to be committed. A child meets the store when all of them are dead.
Invariant of the ledger: a fact is said after the call that made it so has returned; so each fact
must be found, and of what is found without a fact there is at most one step a kill.

"Never two pending runs in a session" is judged by the machine's monotonic clock, which all
processes share, and not by the store: a run lasts from its acknowledged begin to the moment before
its end was asked for, or before its writer was killed. Two of one session must not overlap.
"""

from __future__ import annotations

import random
import time
from contextlib import closing
from functools import partial
from itertools import pairwise
from typing import TYPE_CHECKING, Any

from state_store.clock import new_id
from state_store.errors import SessionBusy, SessionExists, SessionNotFound
from state_store.records import NewMessage, NewSession, ToolCall, Usage
from state_store.testing.children import Child, Children, Listen, Say

if TYPE_CHECKING:
    from collections.abc import Sequence

    from state_store.protocol import SessionStore
    from state_store.records import Message, Run
    from state_store.testing.address import StoreAddress

KILLS_PER_STORE = 250
LONGEST_LIFE_S = 0.03
KILLED_AT_WORK = 0.7  # the others may be killed while they open the store
ACKNOWLEDGEMENTS = ("begun", "stored", "tool", "ended")
USAGE = Usage(input_tokens=2, output_tokens=1)


def kill_writers(
    addresses: Sequence[StoreAddress], *, kill_count: int, writer_count: int, seed: int
) -> dict[str, Any]:
    """Kill *kill_count* writers, *writer_count* at work at any time; return what was counted.

    The kills are spread over *addresses*, each checked when its own are done.
    """
    source = random.Random(seed)  # noqa: S311 - chance for a test, to be had again
    children = Children()
    counted = {"kills": 0, "acknowledgements": 0, "runs": 0, "interrupted": 0}
    for number, address in enumerate(addresses):
        share = kill_count // len(addresses) + (number < kill_count % len(addresses))
        ledger = _kill(children, address, share, writer_count, source)
        ((found,),) = children.ask(partial(_check, address, ledger))
        told = sum(fact[0] in ACKNOWLEDGEMENTS for fact in ledger)
        for name, count in {**found, "kills": share, "acknowledgements": told}.items():
            counted[name] += count
    return {"seed": seed, **counted}


def _kill(
    children: Children,
    address: StoreAddress,
    kill_count: int,
    writer_count: int,
    source: random.Random,
) -> list[list[Any]]:
    session_ids = [new_id() for _ in range(writer_count + 4)]

    def start() -> Child:
        own = random.Random(source.getrandbits(64))  # noqa: S311 - as above
        return children.fork(partial(_write_turns, address, session_ids, own))

    writers = [start() for _ in range(writer_count)]
    ledger: list[list[Any]] = []
    for kills_left in range(kill_count, 0, -1):
        victim = writers.pop(source.randrange(len(writers)))
        if source.random() < KILLED_AT_WORK:
            victim.wait_for(1)
        time.sleep(source.uniform(0.001, LONGEST_LIFE_S) / writer_count)
        children.hear()
        killed_at = time.monotonic_ns()
        children.kill(victim)
        ledger += victim.facts
        ledger.append(["killed", None, _last_run(victim.facts), killed_at])
        if kills_left > writer_count:
            writers.append(start())
    return ledger


def _last_run(facts: list[list[Any]]) -> str | None:
    return facts[-1][2] if facts else None


def _write_turns(
    address: StoreAddress, session_ids: list[str], source: random.Random, say: Say, listen: Listen
) -> None:
    """Make turns for ever, and say of each step that it was acknowledged."""
    del listen
    store = address.open()
    while True:
        session_id, run_id = source.choice(session_ids), new_id()
        size = source.randrange(9000) if source.random() < 0.1 else source.randrange(200)
        content = f"{run_id} {'x' * size}"
        message = NewMessage(role="user", content=content)
        try:
            run = _begin(store, session_id, message, run_id)
        except (SessionBusy, SessionExists):  # of another writer
            continue
        say("begun", session_id, run_id, run.first_seq, content, time.monotonic_ns())
        for _ in range(source.randrange(3)):
            _call_two_tools(store, session_id, run_id, say)
        say("ending", session_id, run_id, time.monotonic_ns())
        if source.random() < 0.2:
            store.fail_run(run_id, "provider.error", usage=USAGE)
            say("ended", session_id, run_id, "failed", "provider.error")
        else:
            answer = NewMessage(role="assistant", content=f"answer {run_id}")
            _, stored = store.complete_run(run_id, answer, usage=USAGE)
            say("stored", session_id, run_id, stored.seq, stored.content)
            say("ended", session_id, run_id, "completed", None)


def _begin(store: SessionStore, session_id: str, message: NewMessage, run_id: str) -> Run:
    try:
        return store.begin_run(session_id, message, run_id=run_id)[0]
    except SessionNotFound:
        return store.begin_run(session_id, message, run_id=run_id, create=NewSession())[0]


def _call_two_tools(store: SessionStore, session_id: str, run_id: str, say: Say) -> None:
    calls = tuple(ToolCall(id=f"c{index}", name="look", arguments="{}") for index in range(2))
    asking = NewMessage(role="assistant", content=f"asking {run_id}", tool_calls=calls)
    asked = store.start_tools(run_id, asking, ["safe", "unsafe"])
    say("stored", session_id, run_id, asked.seq, asked.content)
    for index in (1, 0):
        seen = NewMessage(role="tool", content=f"seen {run_id} {index}", tool_call_id=f"c{index}")
        result = store.finish_tool(
            run_id, call_seq=asked.seq, call_index=index, outcome="ok", message=seen
        )
        say("stored", session_id, run_id, result.seq, result.content)
        say("tool", session_id, run_id, asked.seq, index)


def _check(address: StoreAddress, ledger: list[list[Any]], say: Say, listen: Listen) -> None:
    """Compare the store with *ledger*; AssertionError for the first thing that is not as it was."""
    del listen
    _never_two_at_once(ledger)
    with closing(address.open()) as store:
        begun = _all_acknowledged_is_there(store, ledger)
        summaries = store.list(limit=None).items
        counts = [_nothing_is_half(store, summary.id) for summary in summaries]
    address.inspect()
    run_count, interrupted = (sum(column) for column in zip(*counts, strict=True))
    kill_count = sum(fact[0] == "killed" for fact in ledger)
    assert begun <= run_count <= begun + kill_count, (begun, run_count, kill_count)
    assert interrupted <= kill_count, (interrupted, kill_count)
    say({"runs": run_count, "interrupted": interrupted})


def _all_acknowledged_is_there(store: SessionStore, ledger: list[list[Any]]) -> int:
    """Look for each fact; return how many runs were begun."""
    session_ids = {fact[1] for fact in ledger} - {None}
    messages = {
        (one.session_id, one.seq): one for key in session_ids for one in store.messages(key).items
    }
    runs = {one.id: one for key in session_ids for one in store.runs(key).items}
    tools = {
        (key, one.call_seq, one.call_index): one
        for key in session_ids
        for one in store.tool_executions(key)
    }
    begun = 0
    for kind, session_id, run_id, *facts in ledger:
        if kind == "begun":
            begun += 1
            assert runs[run_id].first_seq == facts[0], f"lost: {kind} {run_id}"
        if kind in ("begun", "stored"):
            stored = messages.get((session_id, facts[0]))
            assert stored is not None, f"lost: message {facts[0]} of {session_id}"
            assert (stored.content, stored.run_id) == (facts[1], run_id), (
                f"lost: another has the place of {run_id}"
            )
        elif kind == "tool":
            assert tools[session_id, facts[0], facts[1]].outcome == "ok", f"lost: tool of {run_id}"
        elif kind == "ended":
            run = runs[run_id]
            assert [run.status, run.error_type] == facts, f"lost: the end of {run_id}"
    return begun


def _nothing_is_half(store: SessionStore, session_id: str) -> tuple[int, int]:
    """Return how many runs the session has, and how many of them were interrupted."""
    session = store.get_session(session_id)
    messages = store.messages(session_id, view="all").items
    runs = store.runs(session_id).items
    assert [one.seq for one in messages] == list(range(1, len(messages) + 1)), (
        f"half: session {session_id}"
    )
    assert session.message_count == len(messages), f"half: session {session_id}"
    assert session.status == ("idle" if runs[-1].status == "completed" else "failed"), (
        f"half: session {session_id}"
    )
    reported = [run for run in runs if run.error_type != "interrupted"]
    assert session.total_tokens == len(reported) * (USAGE.total_tokens or 0), (
        f"half: session {session_id}"
    )
    assert {one.run_id for one in messages} == {run.id for run in runs}, (
        f"half: session {session_id}"
    )
    by_run: dict[str | None, list[Message]] = {}
    for one in messages:
        by_run.setdefault(one.run_id, []).append(one)
    for run in runs:
        own = by_run[run.id]
        assert run.status in ("completed", "failed"), f"half: run {run.id}"
        assert (own[0].seq, own[0].role) == (run.first_seq, "user"), f"half: run {run.id}"
        answered = own[-1].content == f"answer {run.id}"
        assert answered == (run.status == "completed"), f"half: run {run.id}"
    calls = [(one.seq, index) for one in messages for index, _ in enumerate(one.tool_calls or ())]
    tools = store.tool_executions(session_id)
    assert [(one.call_seq, one.call_index) for one in tools] == calls, f"half: session {session_id}"
    by_seq = {one.seq: one for one in messages}
    for tool in tools:
        assert tool.outcome in ("ok", "unknown"), f"half: session {session_id}"
        assert (tool.outcome == "ok") == (tool.result_seq is not None), (
            f"half: session {session_id}"
        )
        assert tool.result_seq is None or by_seq[tool.result_seq].role == "tool", (
            f"half: session {session_id}"
        )
    return len(runs), len(runs) - len(reported)


def _never_two_at_once(ledger: list[list[Any]]) -> None:
    """Compare when the runs of each session were certainly pending."""
    began: dict[str, tuple[str, int]] = {}
    spans: dict[str, list[tuple[int, int, str]]] = {}
    for kind, session_id, run_id, *facts in ledger:
        if kind == "begun":
            began[run_id] = session_id, facts[-1]
        elif kind in ("ending", "killed") and run_id in began:
            session, start = began.pop(run_id)
            spans.setdefault(session, []).append((start, facts[-1], run_id))
    for session, pending in spans.items():
        pending.sort()
        for (_, end, first), (start, _, second) in pairwise(pending):
            assert end <= start, f"two pending at once in {session}: {first}, {second}"
