"""Forking, undoing, redoing and summing up: what is sent afterwards, and what stays."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import asdict
from typing import Any

import pytest

from faces import Looker, calling, core_of, said
from sessions_api import (
    BoundaryInvalid,
    InputInvalid,
    NoActiveSession,
    NothingToRedo,
    NothingToUndo,
    ReferenceAmbiguous,
    RunFailed,
    SessionBusy,
)

OpenAgent = Callable[..., Any]


def sent(agent: Any) -> list[str | None]:
    """Return what the last request said, without its system prompt."""
    return [message.content for message in agent.provider.requests[-1].messages]


def contents(agent: Any, ref: str | None = None, **options: Any) -> list[str | None]:
    """Return the content of a session's messages."""
    return [message.content for message in agent.sessions.messages(ref, **options).items]


def talked(open_agent: OpenAgent, *words: str, more: int = 6, **options: Any) -> Any:
    """Open an agent, say *words* and return it; answers are 'to' and what was said."""
    answers = [lambda request: said(f"to {request.messages[-1].content}")] * (len(words) + more)
    agent = open_agent(answers, **options)
    for word in words:
        agent.run(word)
    return agent


def events(look: Looker, *names: str) -> list[dict[str, Any]]:
    """Return the journal's lines of these events, in the order of each file."""
    lines = map(json.loads, look.journal().splitlines())
    return [line for line in lines if line["event"] in names]


# --- undo and redo ----------------------------------------------------------------------------


def test_what_is_undone_is_not_sent_any_more(open_agent: OpenAgent) -> None:
    """The history kept between runs notices, with an undo between two of them."""
    agent = talked(open_agent, "a", "b", "c")
    agent.sessions.undo()
    agent.run("d")
    assert sent(agent) == ["a", "to a", "b", "to b", "d"]
    agent.run("e")
    assert sent(agent) == ["a", "to a", "b", "to b", "d", "to d", "e"]
    agent.sessions.undo(2)
    agent.run("f")
    assert sent(agent) == ["a", "to a", "b", "to b", "f"]


def test_an_undo_by_another_process_is_noticed_too(open_agent: OpenAgent) -> None:
    """Nothing is sent that somebody has taken back meanwhile."""
    agent = talked(open_agent, "a", "b")
    other = open_agent()
    other.sessions.undo(ref="latest")
    agent.run("c")
    assert sent(agent) == ["a", "to a", "c"]


def test_redo_brings_back_what_was_undone_until_something_new_is_said(
    open_agent: OpenAgent,
) -> None:
    """The earliest undone turn comes first; more than there are is as many as there are."""
    agent = talked(open_agent, "a", "b", "c")
    agent.sessions.undo(3)
    assert contents(agent) == []
    agent.sessions.redo()
    assert contents(agent) == ["a", "to a"]
    agent.sessions.redo(9)
    assert contents(agent) == ["a", "to a", "b", "to b", "c", "to c"]
    agent.run("d")
    assert sent(agent) == ["a", "to a", "b", "to b", "c", "to c", "d"]
    agent.sessions.undo(2)
    agent.run("e")
    with pytest.raises(NothingToRedo):
        agent.sessions.redo()
    assert contents(agent) == ["a", "to a", "b", "to b", "e", "to e"]


def test_nothing_that_was_undone_is_gone(open_agent: OpenAgent) -> None:
    """It is in the view of all, marked by its run, and counted in the usage."""
    agent = talked(open_agent, "a", "b")
    before = agent.sessions.get()
    undone = agent.sessions.undo()
    assert agent.sessions.active == undone
    assert (undone.message_count, undone.total_tokens) == (4, before.total_tokens)
    assert contents(agent, view="all") == ["a", "to a", "b", "to b"]
    assert contents(agent, view="context") == contents(agent) == ["a", "to a"]
    assert [run.undone_at is None for run in agent.sessions.runs().items] == [True, False]


def test_a_session_that_is_named_is_undone_and_the_active_one_stays(open_agent: OpenAgent) -> None:
    """`ref` names any session of the workspace."""
    agent = talked(open_agent, "a")
    first = agent.sessions.active.id
    agent.sessions.leave()
    agent.run("b")
    second = agent.sessions.active
    assert agent.sessions.undo(ref=first).id == first
    assert agent.sessions.active == second
    assert agent.sessions.redo(ref="a").id == first
    assert contents(agent, first) == ["a", "to a"]


def test_there_may_be_nothing_to_undo_or_redo(open_agent: OpenAgent, look: Looker) -> None:
    """It is told by type, writes nothing, and needs a session."""
    agent = talked(open_agent)
    for ask in ("undo", "redo", "fork", "totals"):
        with pytest.raises(NoActiveSession):
            getattr(agent.sessions, ask)()
    agent.sessions.create("empty")
    with pytest.raises(NothingToUndo):
        agent.sessions.undo()
    with pytest.raises(NothingToRedo):
        agent.sessions.redo()
    assert events(look, "run.undone", "run.redone") == []


def test_a_failed_turn_and_its_retries_are_undone_as_one(open_agent: OpenAgent) -> None:
    """A turn is what was typed once, however often it was tried."""
    agent = open_agent([said("1"), ConnectionError(), said("3"), said("4")])
    agent.run("a")
    with pytest.raises(RunFailed) as caught:
        agent.run("b")
    agent.retry(caught.value.run_id)
    session = agent.sessions.undo()
    assert session.status == "idle"
    assert contents(agent) == ["a", "1"]
    agent.run("c")
    assert sent(agent) == ["a", "1", "c"]


def test_the_journal_tells_of_each_run_that_was_undone_or_came_back(
    open_agent: OpenAgent, look: Looker
) -> None:
    """Several runs are several lines, in the order in which they began."""
    agent = talked(open_agent, "a", "b", "c")
    runs = [run.id for run in agent.sessions.runs().items]
    agent.sessions.undo(2)
    assert [line["run_id"] for line in events(look, "run.undone")] == runs[1:]
    agent.sessions.undo()
    agent.sessions.redo(2)
    told = events(look, "run.undone", "run.redone")
    assert [(line["event"], line["run_id"]) for line in told] == [
        ("run.undone", runs[1]),
        ("run.undone", runs[2]),
        ("run.undone", runs[0]),
        ("run.redone", runs[0]),
        ("run.redone", runs[1]),
    ]
    assert {line["session_id"] for line in told} == {agent.sessions.active.id}


def test_nothing_is_undone_under_a_run_that_is_under_way(open_agent: OpenAgent) -> None:
    """Neither by the one who runs nor by anybody else."""
    refused: list[type[BaseException]] = []

    def meanwhile(_: Any) -> Any:
        for ask in (core.undo, core.redo):
            try:
                ask(ref="latest")
            except SessionBusy as busy:
                refused.append(type(busy))
        return said("x")

    agent = open_agent([said("1"), meanwhile])
    core = core_of(open_agent())
    agent.run("a")
    agent.run("b")
    assert len(refused) == 2
    assert contents(agent) == ["a", "1", "b", "x"]


# --- fork -------------------------------------------------------------------------------------


def test_a_fork_is_gone_on_with_and_its_parent_stays_as_it_is(
    open_agent: OpenAgent, look: Looker
) -> None:
    """It becomes active; each side sends its own history from then on."""
    agent = talked(open_agent, "a", "b", system_prompt="be brief")
    parent = agent.sessions.active
    fork = agent.sessions.fork()
    assert agent.sessions.active == fork != parent
    assert (fork.title, fork.system_prompt, fork.forked_from) == ("a", "be brief", (parent.id, 4))
    assert agent.run("c").session_id == fork.id
    assert sent(agent) == ["a", "to a", "b", "to b", "c"]
    agent.sessions.resume(parent.id)
    agent.run("d")
    assert sent(agent) == ["a", "to a", "b", "to b", "d"]
    agent.sessions.resume(fork.id)
    agent.run("e")
    assert sent(agent) == ["a", "to a", "b", "to b", "c", "to c", "e"]
    (line,) = events(look, "session.forked")
    assert (line["session_id"], line["parent_id"]) == (fork.id, parent.id)
    assert (line["parent_seq"], line["message_count"]) == (4, 4)


def test_a_fork_may_begin_earlier_at_the_end_of_an_exchange(open_agent: OpenAgent) -> None:
    """Anywhere else the nearest ends are named, and nothing is made."""
    agent = talked(open_agent, "a", "b")
    parent = agent.sessions.active.id
    with pytest.raises(BoundaryInvalid) as caught:
        agent.sessions.fork(at=3)
    assert (caught.value.before, caught.value.after) == (2, 4)
    assert agent.sessions.active.id == parent
    fork = agent.sessions.fork(at=2, title="another way")
    assert (fork.title, fork.forked_from) == ("another way", (parent, 2))
    agent.run("c")
    assert sent(agent) == ["a", "to a", "c"]


def test_a_fork_has_the_title_of_its_parent_so_the_title_alone_names_neither(
    open_agent: OpenAgent,
) -> None:
    """The candidates are named by their ids."""
    agent = talked(open_agent, "a")
    parent = agent.sessions.active.id
    fork = agent.sessions.fork("latest").id
    with pytest.raises(ReferenceAmbiguous) as caught:
        agent.sessions.resume("a")
    assert {key for key, _ in caught.value.candidates} == {parent, fork}


@pytest.mark.parametrize("gone", ["parent", "fork"])
def test_deleting_one_side_never_harms_the_other(open_agent: OpenAgent, gone: str) -> None:
    """Messages, runs and tool executions of the other one are whole, and it is gone on with."""

    def one() -> int:
        """Return one."""
        return 1

    script = [calling(("one", "{}")), said("x"), said("y"), said("z")]
    agent = open_agent(script, tools=[one])
    agent.run("a")
    parent = agent.sessions.active.id
    fork = agent.sessions.fork().id
    agent.run("b")
    kept, deleted = (fork, parent) if gone == "parent" else (parent, fork)
    before = [
        [asdict(one) for one in agent.sessions.messages(kept, view="all").items],
        [asdict(one) for one in agent.sessions.runs(kept).items],
        [asdict(one) for one in agent.sessions.tool_executions(kept)],
    ]
    agent.sessions.delete(deleted)
    agent.sessions.resume(kept)
    assert before == [
        [asdict(one) for one in agent.sessions.messages(view="all").items],
        [asdict(one) for one in agent.sessions.runs().items],
        [asdict(one) for one in agent.sessions.tool_executions()],
    ]
    agent.run("c")
    history = ["a", None, "1", "x"] + (["b", "y"] if gone == "parent" else [])
    assert sent(agent) == [*history, "c"]


def test_undo_goes_on_in_a_fork_with_what_it_took_along(open_agent: OpenAgent) -> None:
    """Its copied turns can be taken back there, and stay in the parent."""
    agent = talked(open_agent, "a", "b")
    parent = agent.sessions.active.id
    agent.sessions.fork()
    agent.sessions.undo()
    agent.run("c")
    assert sent(agent) == ["a", "to a", "c"]
    assert contents(agent, parent) == ["a", "to a", "b", "to b"]


# --- summaries --------------------------------------------------------------------------------


def test_a_summary_is_sent_in_place_of_what_it_covers(open_agent: OpenAgent) -> None:
    """The originals stay, and the view of originals never shows it."""
    agent = talked(open_agent, "a", "b", "c")
    message = agent.sessions.summarize("a and b, in short", 4)
    assert (message.kind, message.covers) == ("summary", (1, 4))
    assert agent.sessions.active == agent.sessions.get()
    agent.run("d")
    assert sent(agent) == ["a and b, in short", "c", "to c", "d"]
    assert "a and b, in short" not in contents(agent)
    assert "a and b, in short" in contents(agent, view="all")
    agent.sessions.summarize("all of it", 9, kind="derived")
    agent.run("e")
    assert sent(agent) == ["all of it", "e"]


def test_a_summary_of_half_an_exchange_or_of_nothing_is_refused(open_agent: OpenAgent) -> None:
    """By type, and nothing is stored."""
    agent = talked(open_agent, "a", "b")
    with pytest.raises(BoundaryInvalid) as caught:
        agent.sessions.summarize("half", 3)
    assert (caught.value.before, caught.value.after) == (2, 4)
    for text in ("", " \n", None, b"x"):
        with pytest.raises(InputInvalid):
            agent.sessions.summarize(text, 2)
    assert len(contents(agent, view="all")) == 4
    first = agent.sessions.active.id
    agent.sessions.leave()
    with pytest.raises(NoActiveSession):
        agent.sessions.summarize("x", 2)
    agent.sessions.summarize("named", 2, ref=first)
    assert contents(agent, first, view="context") == ["named", "b", "to b"]


def test_a_summary_of_what_was_undone_since_counts_no_more(open_agent: OpenAgent) -> None:
    """Its text would say what was taken back; it counts again when that comes back."""
    agent = talked(open_agent, "a", "b")
    agent.sessions.summarize("a and b", 4)
    agent.sessions.undo()
    assert contents(agent, view="context") == ["a", "to a"]
    agent.sessions.redo()
    assert contents(agent, view="context") == ["a and b"]


# --- all of them ------------------------------------------------------------------------------


def test_what_was_returned_is_never_changed(open_agent: OpenAgent) -> None:
    """Sessions, messages and runs are copies of what was committed when they were read."""
    agent = talked(open_agent, "a", "b")
    held = [
        agent.sessions.active,
        *agent.sessions.messages().items,
        *agent.sessions.runs().items,
        agent.sessions.totals(),
    ]
    before = [repr(one) for one in held]
    agent.sessions.undo()
    agent.sessions.redo()
    agent.sessions.summarize("in short", 2)
    agent.sessions.fork()
    agent.run("c")
    assert [repr(one) for one in held] == before


def test_a_context_is_whole_and_legal_while_somebody_else_runs(open_agent: OpenAgent) -> None:
    """A run under way is not part of it, even if it ends while it is read."""
    seen: list[list[str | None]] = []

    def meanwhile(_: Any) -> Any:
        seen.append([one.content for one in core.messages("latest", view="context").items])
        return said("2")

    agent = open_agent([said("1"), meanwhile])
    core = core_of(open_agent())
    agent.run("a")
    agent.run("b")
    assert seen == [["a", "1"]]


def test_branches_survive_the_agent_that_made_them(open_agent: OpenAgent) -> None:
    """What was committed is what another agent finds."""
    agent = talked(open_agent, "a", "b")
    parent = agent.sessions.active.id
    fork = agent.sessions.fork(at=2).id
    agent.sessions.undo(ref=parent)
    agent.sessions.summarize("in short", 2)
    agent.close()
    again = talked(open_agent)
    assert contents(again, parent) == ["a", "to a"]
    assert contents(again, fork, view="context") == ["in short"]
