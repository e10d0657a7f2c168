"""Finding what was said, in all sessions or in one, through both faces."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from faces import calling, said
from sessions_api import ReferenceNotFound
from state_store import CursorInvalid

OpenAgent = Callable[..., Any]


def look_up(word: str) -> str:
    """Look a word up."""
    return f"{word} means lighthouse"


def found(agent: Any, query: str, **options: Any) -> list[tuple[str | None, str]]:
    """Return role and snippet of what a search finds."""
    return [(hit.role, hit.snippet) for hit in agent.sessions.search(query, **options).items]


def test_titles_messages_and_tool_results_are_found(open_agent: OpenAgent) -> None:
    """A hit says where it is, and where in its snippet the words are."""
    script = [calling(("look_up", '{"word": "pharos"}')), said("It is a Leuchtturm.")]
    agent = open_agent(script, tools=[look_up])
    agent.run("what is a pharos")
    session = agent.sessions.active
    (title, question, result) = agent.sessions.search("pharos").items
    assert (title.session_id, title.seq, title.role) == (session.id, None, None)
    assert {question.role, result.role} == {"user", "tool"}
    for hit in (title, question, result):
        assert [hit.snippet[a:b].lower() for a, b in hit.matches] == ["pharos"]
    stored = {one.seq: one.content for one in agent.sessions.messages().items}
    assert "pharos" in (stored[question.seq] or "")
    assert found(agent, "LEUCHTTURM") == [("assistant", "It is a Leuchtturm.")]
    assert found(agent, "lighthouse")[0][0] == "tool"
    assert found(agent, "%") == found(agent, "") == found(agent, "nothing") == []


def test_pages_of_hits_are_the_whole(open_agent: OpenAgent) -> None:
    """Newest first; a cursor of another search or listing is refused."""
    agent = open_agent([said(f"apple {number}") for number in range(5)])
    for number in range(5):
        agent.run(f"say {number}")
    whole = found(agent, "apple", limit=None)
    assert [snippet for _, snippet in whole] == [f"apple {number}" for number in (4, 3, 2, 1, 0)]
    pages, cursor = [], None
    while True:
        page = agent.sessions.search("apple", 2, cursor)
        pages += [(hit.role, hit.snippet) for hit in page.items]
        if (cursor := page.next_cursor) is None:
            break
        assert len(page.items) == 2
        with pytest.raises(CursorInvalid):
            agent.sessions.search("pear", 2, cursor)
    assert pages == whole
    assert sorted(found(agent, "apple", order="relevance")) == sorted(whole)


def test_a_search_may_stay_in_one_session_or_leave_out_the_archived(
    open_agent: OpenAgent,
) -> None:
    """None is both; a reference that fits nothing is refused."""
    agent = open_agent([said("cherry one"), said("cherry two")])
    agent.run("first")
    first = agent.sessions.active.id
    agent.sessions.leave()
    agent.run("second")
    assert len(found(agent, "cherry")) == 2
    assert found(agent, "cherry", ref=first) == [("assistant", "cherry one")]
    assert found(agent, "cherry", ref="second") == [("assistant", "cherry two")]
    agent.sessions.archive(first)
    assert found(agent, "cherry", archived=True) == [("assistant", "cherry one")]
    assert found(agent, "cherry", archived=False) == [("assistant", "cherry two")]
    assert len(found(agent, "cherry")) == 2
    with pytest.raises(ReferenceNotFound):
        agent.sessions.search("cherry", ref="third")


def test_what_is_undone_is_found_again_once_it_is_back(open_agent: OpenAgent) -> None:
    """And what was deleted is found no more."""
    agent = open_agent([said("plum")])
    agent.run("fruit")
    agent.sessions.undo()
    assert found(agent, "plum") == []
    agent.sessions.redo()
    assert found(agent, "plum") == [("assistant", "plum")]
    fork = agent.sessions.fork().id
    assert len(found(agent, "plum")) == 2
    agent.sessions.delete(fork)
    assert found(agent, "plum") == [("assistant", "plum")]


def test_nothing_kept_is_searched_as_well(open_agent: OpenAgent) -> None:
    """A conversation that is not saved is in memory, and found there."""
    agent = open_agent([said("quince")], persistence="ephemeral")
    agent.run("fruit")
    assert found(agent, "quince") == [("assistant", "quince")]
