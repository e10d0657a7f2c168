from __future__ import annotations

import json
from collections.abc import Callable
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import pytest

from faces import Looker, calling, said
from sessions_api import (
    Agent,
    NoActiveSession,
    ReferenceNotFound,
    RunFailed,
)
from sessions_api.titles import TITLE_LIMIT, title_of
from state_store import CursorInvalid, SessionNotFound

if TYPE_CHECKING:
    from pathlib import Path

OpenAgent = Callable[..., Any]


def test_nothing_is_active_until_something_is(open_agent: OpenAgent) -> None:
    """What is asked of the active session then says what to do."""
    agent = open_agent([said("x")])
    assert agent.sessions.active is None
    for ask in ("get", "messages", "runs", "tool_executions", "load", "export"):
        with pytest.raises(NoActiveSession):
            list(getattr(agent.sessions, ask)())


def test_a_created_session_is_active_and_keeps_what_it_was_given(open_agent: OpenAgent) -> None:
    """What is left out comes from the agent."""
    agent = open_agent([said("x")], system_prompt="agent's", parameters={"temperature": 0.5})
    plain = agent.sessions.create()
    assert (plain.title, plain.system_prompt) == (None, "agent's")
    assert plain.parameters == {"temperature": 0.5}
    own = agent.sessions.create(
        "mine", system_prompt="own", parameters={"seed": 1}, metadata={"k": [1]}
    )
    assert agent.sessions.active == own
    assert (own.title, own.title_source, own.metadata) == ("mine", "user", {"k": [1]})
    assert agent.run("hello").session_id == own.id
    assert agent.sessions.get().title == "mine"
    request = agent.provider.requests[-1]
    assert (request.system_prompt, request.parameters) == ("own", {"seed": 1})


def test_leaving_makes_the_next_run_start_a_new_session(open_agent: OpenAgent) -> None:
    """And books the time that the conversation took."""
    agent = open_agent([said("1"), said("2")])
    first = agent.run("a").session_id
    agent.sessions.leave()
    assert agent.sessions.active is None
    assert agent.sessions.get(first).status == "closed"
    assert agent.run("b").session_id != first


def test_closing_writes_the_final_status_and_the_duration(
    open_agent: OpenAgent, look: Looker
) -> None:
    """A used session is closed, a failed one stays so, one only looked at is as it was."""
    agent = open_agent([said("1"), ConnectionError()])
    done = agent.run("a").session_id
    agent.sessions.leave()
    with pytest.raises(RunFailed) as caught:
        agent.run("b")
    agent.close()
    other = open_agent([said("2")])
    closed, failed = other.sessions.get(done), other.sessions.get(caught.value.session_id)
    assert (closed.status, failed.status) == ("closed", "failed")
    assert closed.duration_ms >= 0
    other.sessions.resume(done)
    other.close()
    third = open_agent([said("3")])
    assert third.sessions.get(done).revision == closed.revision
    third.sessions.resume(done)
    third.run("again")
    assert third.sessions.active.status == "idle"


def test_a_session_that_was_left_during_its_run_does_not_become_active_again(
    open_agent: OpenAgent,
) -> None:
    """The end of a run changes its own session and not where the user is."""
    left: list[str] = []

    def leave(_: Any) -> Any:
        core = getattr(agent.sessions, "_sessions", agent.sessions)
        core = getattr(core, "_core", core)
        left.append(core.create("elsewhere").id)
        return said("done")

    agent = open_agent([leave])
    result = agent.run("a")
    assert agent.sessions.active.id == left[0] != result.session_id
    assert agent.sessions.get(result.session_id).status == "idle"


def test_lists_are_pages_of_the_newest_first(open_agent: OpenAgent) -> None:
    """Pages concatenate to the whole; a foreign cursor and a limit of nothing are refused."""
    agent = open_agent()
    ids = [agent.sessions.create(f"number {number}").id for number in range(5)]
    first = agent.sessions.list(2)
    second = agent.sessions.list(limit=2, cursor=first.next_cursor)
    third = agent.sessions.list(2, second.next_cursor)
    assert [one.id for page in (first, second, third) for one in page.items] == ids[::-1]
    assert third.next_cursor is None
    assert len(agent.sessions.list(limit=None).items) == 5
    with pytest.raises(CursorInvalid):
        agent.sessions.list(cursor="made up")
    for limit in (0, -1):
        with pytest.raises(ValueError, match="limit"):
            agent.sessions.list(limit=limit)


@pytest.mark.parametrize("size", [1, 19, 20, 199, 200, 201])
def test_c19_sessions_of_one_moment_are_each_on_one_page(
    workspace: Path, state_home: Path, size: int
) -> None:
    """200 of them, all last active in the same microsecond: a cursor is more than a time."""
    noon = datetime(2026, 1, 2, 12, tzinfo=UTC)
    with Agent(workspace, provider="offline", state_home=state_home, clock=lambda: noon) as agent:
        made = {agent.sessions.create(str(number)).id for number in range(200)}
        listed: list[str] = []
        cursor = None
        while True:
            page = agent.sessions.list(size, cursor)
            assert {one.updated_at for one in page.items} == {noon}
            listed += [one.id for one in page.items]
            if (cursor := page.next_cursor) is None:
                break
            assert len(page.items) == size
    assert len(listed) == len(set(listed)) == 200
    assert set(listed) == made


def test_messages_have_three_views(open_agent: OpenAgent) -> None:
    """All originals, what would be sent, and everything; pages of the first concatenate."""

    def one() -> int:
        """Return one."""
        return 1

    script = [calling(("one", "{}")), said("a"), ConnectionError(), said("c")]
    agent = open_agent(script, tools=[one])
    agent.run("x")
    with pytest.raises(RunFailed):
        agent.run("lost")
    agent.run("z")
    sessions = agent.sessions

    def contents(**options: Any) -> list[str | None]:
        return [message.content for message in sessions.messages(**options).items]

    assert contents() == contents(view="all") == ["x", None, "1", "a", "lost", "z", "c"]
    assert contents(view="context") == ["x", None, "1", "a", "z", "c"]
    pages, cursor = [], None
    while True:
        page = sessions.messages(limit=2, cursor=cursor)
        pages += [message.content for message in page.items]
        if (cursor := page.next_cursor) is None:
            break
    assert pages == contents()
    runs = sessions.runs(limit=2)
    assert [run.status for run in runs.items] == ["completed", "failed"]
    assert len(sessions.runs(cursor=runs.next_cursor).items) == 1
    assert [one.outcome for one in sessions.tool_executions()] == ["ok"]


def test_renaming_wins_over_every_automatic_title(open_agent: OpenAgent) -> None:
    """The first message names a session until somebody does."""
    agent = open_agent([said("1"), said("2")])
    agent.run("  hello\n\tthere  ")
    assert (agent.sessions.active.title, agent.sessions.active.title_source) == (
        "hello there",
        "auto",
    )
    agent.sessions.rename("latest", "mine")
    agent.run("something else")
    assert (agent.sessions.active.title, agent.sessions.active.title_source) == ("mine", "user")


def test_titles_are_one_short_line() -> None:
    """Long texts are cut with a mark; white space counts as one space."""
    assert title_of("a \u2028 b\r\n\tc") == "a b c"
    assert title_of("x" * 80) == "x" * 80
    assert title_of("x" * 81) == "x" * (TITLE_LIMIT - 1) + "…"
    assert title_of("\n" * 5000 + "hello") == "hello"
    assert len(title_of("word " * 5000)) <= TITLE_LIMIT


def test_an_archived_session_leaves_the_list_and_stays_what_it_is(open_agent: OpenAgent) -> None:
    """It is listed on its own, can be resumed by name, and comes back."""
    agent = open_agent([said("1")])
    agent.run("hello")
    session = agent.sessions.archive("hello")
    assert session.archived_at is not None
    assert agent.sessions.active == session
    assert agent.sessions.list().items == ()
    assert [one.id for one in agent.sessions.list(archived=True).items] == [session.id]
    with pytest.raises(ReferenceNotFound):
        agent.sessions.resume("latest")
    assert agent.sessions.resume("hello").id == session.id
    assert agent.sessions.unarchive(session.id).archived_at is None
    assert [one.id for one in agent.sessions.list().items] == [session.id]


def test_deleting_leaves_nothing_of_it(open_agent: OpenAgent, look: Looker) -> None:
    """Rows and journal go, other sessions stay, and a tombstone says that it was there."""
    agent = open_agent([said("kept answer"), said("gone-marker answer")])
    kept = agent.run("kept").session_id
    agent.sessions.leave()
    gone = agent.run("gone-marker").session_id
    deleted = agent.sessions.delete(gone)
    assert (deleted.id, deleted.message_count, deleted.run_count) == (gone, 2, 1)
    assert agent.sessions.active is None
    with pytest.raises(ReferenceNotFound):
        agent.sessions.get(gone)
    assert [one.id for one in agent.sessions.list().items] == [kept]
    files = [path for path in look.state_home.rglob("*") if path.is_file()]
    assert not [path for path in files if b"gone-marker" in path.read_bytes()]
    (journal,) = look.state_home.glob("logs/*/[0-9a-f]*.jsonl")
    assert gone not in journal.read_text()
    assert "session.deleted" in look.journal()
    assert agent.sessions.get(kept).message_count == 2


def test_a_journal_that_cannot_be_removed_keeps_no_session_half_deleted(
    open_agent: OpenAgent, look: Looker
) -> None:
    """The rows are gone, so it counts as deleted; what stayed is named for a person."""
    agent = open_agent([said("a"), said("b")])
    session = agent.run("hello").session_id
    (path,) = look.state_home.glob("logs/*/[0-9a-f]*.jsonl")
    path.unlink()
    path.mkdir()
    assert agent.sessions.delete(session).message_count == 2
    assert agent.sessions.active is None
    assert str(path) in agent.agent.notices[-1]
    path.rmdir()
    assert '"session.deleted"' in look.journal()
    assert agent.run("anew").session_id != session


def test_export_is_one_json_object_a_line(open_agent: OpenAgent) -> None:
    """Other tools can read it; the prompt comes first."""
    agent = open_agent([said("hi")], system_prompt="be nice")
    agent.run("hello")
    lines = list(agent.sessions.export())
    assert all(line.endswith(b"\n") and line.count(b"\n") == 1 for line in lines)
    assert [json.loads(line) for line in lines] == [
        {"role": "system", "content": "be nice"},
        {"role": "user", "content": "hello"},
        {"role": "assistant", "content": "hi", "tool_calls": None},
    ]
    with pytest.raises(ValueError, match="jsonl, archive"):
        list(agent.sessions.export(format="yaml"))


def test_a_session_that_was_deleted_elsewhere_is_refused(
    open_agent: OpenAgent, workspace: Path
) -> None:
    """Nothing brings it back by accident."""
    agent = open_agent([said("1"), said("2")])
    session = agent.run("a").session_id
    other = open_agent()
    other.sessions.delete(session)
    with pytest.raises(SessionNotFound):
        agent.run("b")
    assert agent.sessions.list().items == ()
    agent.close()
