"""Many processes at once: first openers, owners of which some die, recoverers, rivals.

Jobs for a process of its own, which forks the crowd and lets it go in one instant. Invariant: the
parent knows from its own doings, and not from the store, whose run is whose and who was killed.

The rules: a live owner's run is never touched, stopped or not; a dead one's is recovered exactly
once, by whoever comes first; the store comes into being once, whoever opens it first.
"""

from __future__ import annotations

import os
import random
import signal
from contextlib import closing
from functools import partial
from typing import TYPE_CHECKING, Any

from state_store.clock import new_id
from state_store.errors import SessionBusy
from state_store.records import NewMessage, NewSession, ToolCall, Usage
from state_store.testing.children import Child, Children, Listen, Say

if TYPE_CHECKING:
    from collections.abc import Sequence

    from state_store.protocol import SessionStore
    from state_store.testing.address import StoreAddress


def open_at_once(addresses: Sequence[StoreAddress], *, opener_count: int) -> dict[str, Any]:
    """Let *opener_count* processes open each store, none of which is there, and make a turn."""
    children = Children()
    for address in addresses:
        openers = [children.fork(partial(_open_and_turn, address)) for _ in range(opener_count)]
        _let_go(openers)
        for opener in openers:
            children.finish(opener)
        session_ids = {opener.facts[-1][0] for opener in openers}
        children.ask(partial(_all_turns_are_there, address, session_ids))
    return {"stores": len(addresses), "openers": opener_count}


def recover_at_once(
    addresses: Sequence[StoreAddress],
    *,
    owner_count: int,
    killed_count: int,
    stopped_count: int,
    recoverer_count: int,
    seed: int,
) -> dict[str, Any]:
    """Judge the runs of a crowd of owners, once in each store.

    Of *owner_count* owners, each with a run and a tool under way, *killed_count* are killed and
    *stopped_count* of the others stopped; then *recoverer_count* processes recover at once, half
    of them by opening the store, half with one that they had open before.
    """
    source = random.Random(seed)  # noqa: S311 - chance for a test, to be had again
    counted = {"runs": 0, "live": 0, "dead": 0, "recovered": 0}
    children = Children()
    for address in addresses:
        recoverers = [
            children.fork(partial(_recover_when_told, address, open_before=number % 2 == 0))
            for number in range(recoverer_count)
        ]
        owners = [children.fork(partial(_own_a_run, address)) for _ in range(owner_count)]
        for ready in (*owners, *recoverers[::2]):
            ready.wait_for(1)
        source.shuffle(owners)
        killed, living = owners[:killed_count], owners[killed_count:]
        for owner in killed:
            children.kill(owner)
        for owner in living[:stopped_count]:
            children.stop(owner)
        try:
            _let_go(recoverers, [owner.facts[0][1] for owner in killed])
            for recoverer in recoverers:
                children.finish(recoverer)
            children.ask(
                partial(
                    _all_judged_rightly,
                    address,
                    killed=killed,
                    living=living,
                    recoverers=recoverers,
                )
            )
        finally:
            for owner in living[:stopped_count]:
                os.kill(owner.pid, signal.SIGCONT)
        for owner in living:
            owner.tell()
            children.finish(owner)
            assert owner.facts[-1] == ["completed"], (
                f"a live owner's run was touched: {owner.facts}"
            )
        children.ask(partial(_inspect, address))
        counted["runs"] += owner_count
        counted["live"] += len(living)
        counted["dead"] += killed_count
        counted["recovered"] += sum(len(one.facts[-1][0]) for one in recoverers)
    return {"seed": seed, **counted}


def begin_at_once(addresses: Sequence[StoreAddress], *, rival_count: int) -> dict[str, Any]:
    """Let *rival_count* processes begin at once where a dead owner left its run.

    One of them recovers it in place and begins; the others are told that the session is busy.
    """
    children = Children()
    for address in addresses:
        dead = children.fork(partial(_own_a_run, address))
        dead.wait_for(1)
        session_id, dead_run_id = dead.facts[0]
        # They have opened the store before: opening recovers too, and this is about beginning.
        rivals = [
            children.fork(partial(_begin_when_told, address, session_id))
            for _ in range(rival_count)
        ]
        for rival in rivals:
            rival.wait_for(1)
        children.kill(dead)
        _let_go(rivals)
        for rival in rivals:
            rival.wait_for(2)
        outcomes = sorted(rival.facts[1][0] for rival in rivals)
        assert outcomes == ["begun", *["busy"] * (rival_count - 1)], outcomes
        for rival in rivals:
            rival.tell()
            children.finish(rival)
        children.ask(partial(_one_took_over, address, session_id, dead_run_id))
    return {"stores": len(addresses), "rivals": rival_count}


def _let_go(children: Sequence[Child], what: Any = None) -> None:
    for child in children:
        child.tell(what)


def _user() -> NewMessage:
    return NewMessage(role="user", content="question")


def _complete(store: SessionStore, run_id: str) -> None:
    store.complete_run(run_id, NewMessage(role="assistant", content="answer"), usage=Usage())


def _open_and_turn(address: StoreAddress, say: Say, listen: Listen) -> None:
    listen()
    with closing(address.open()) as store:
        session_id, run_id = new_id(), new_id()
        store.begin_run(session_id, _user(), run_id=run_id, create=NewSession())
        _complete(store, run_id)
        say(session_id)


def _own_a_run(address: StoreAddress, say: Say, listen: Listen) -> None:
    with closing(address.open()) as store:
        session_id, run_id = new_id(), new_id()
        store.begin_run(session_id, _user(), run_id=run_id, create=NewSession())
        call = ToolCall(id="c1", name="look", arguments="{}")
        store.start_tools(run_id, NewMessage(role="assistant", tool_calls=(call,)), ["unsafe"])
        say(session_id, run_id)
        listen()
        _complete(store, run_id)
        say("completed")


def _recover_when_told(
    address: StoreAddress, say: Say, listen: Listen, *, open_before: bool
) -> None:
    dead_run_ids = [] if open_before else listen()
    with closing(address.open()) as store:
        by_opening = [run.id for run in getattr(store, "recovered", ())]
        if open_before:
            say("open")
            dead_run_ids = listen()
        recovered = by_opening + [run.id for run in store.recover()]
        missed = [one for one in dead_run_ids if store.get_run(one).status == "pending"]
        say(recovered, missed)


def _begin_when_told(address: StoreAddress, session_id: str, say: Say, listen: Listen) -> None:
    with closing(address.open()) as store:
        say("open")
        listen()
        run_id = new_id()
        try:
            store.begin_run(session_id, _user(), run_id=run_id)
        except SessionBusy:
            say("busy")
        else:
            say("begun")
        listen()
        if store.runs(session_id).items[-1].id == run_id:
            _complete(store, run_id)


def _inspect(address: StoreAddress, say: Say, listen: Listen) -> None:
    del say, listen
    address.inspect()


def _all_turns_are_there(
    address: StoreAddress, session_ids: set[str], say: Say, listen: Listen
) -> None:
    with closing(address.open()) as store:
        assert {one.id for one in store.list(limit=None).items} == session_ids
        for session_id in session_ids:
            said = [one.content for one in store.messages(session_id).items]
            assert said == ["question", "answer"], said
    _inspect(address, say, listen)


def _one_took_over(
    address: StoreAddress, session_id: str, dead_run_id: str, say: Say, listen: Listen
) -> None:
    with closing(address.open()) as store:
        assert store.get_run(dead_run_id).error_type == "interrupted"
        statuses = [run.status for run in store.runs(session_id).items]
        assert statuses == ["failed", "completed"], statuses
    _inspect(address, say, listen)


def _all_judged_rightly(
    address: StoreAddress,
    say: Say,
    listen: Listen,
    *,
    killed: Sequence[Child],
    living: Sequence[Child],
    recoverers: Sequence[Child],
) -> None:
    del say, listen
    assert not any(one.facts[-1][1] for one in recoverers), "a dead owner's run was missed"
    recovered = [run_id for one in recoverers for run_id in one.facts[-1][0]]
    assert len(recovered) == len(set(recovered)), "a run was recovered twice"
    assert set(recovered) == {one.facts[0][1] for one in killed}, "recovered is not what was dead"
    with closing(address.open()) as store:
        for owner in killed:
            session_id, run_id = owner.facts[0]
            run = store.get_run(run_id)
            assert (run.status, run.error_type) == ("failed", "interrupted"), run_id
            assert [one.outcome for one in store.tool_executions(session_id)] == ["unknown"]
        for owner in living:
            session_id, run_id = owner.facts[0]
            run = store.get_run(run_id)
            assert (run.status, run.stale) == ("pending", False), run_id
            assert [one.outcome for one in store.tool_executions(session_id)] == [None], run_id
        assert store.recover() == ()
