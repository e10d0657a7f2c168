"""Whole sessions as values: saved, loaded, and given what is never stored."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import pytest

from faces import said
from sessions_api import LoadedState, NewMessage, NewSession, SessionState
from state_store import HistoryConflict

if TYPE_CHECKING:
    from pathlib import Path

OpenAgent = Callable[..., Any]
KEY = "sk-runtime-5b1d0e93f7"


def test_save_and_load_are_the_same_state(open_agent: OpenAgent) -> None:
    """Saving appends what is new; a state that contradicts what is stored changes nothing."""
    agent = open_agent([said("answer")])
    state = SessionState(
        id="01890000-0000-7000-8000-000000000001",
        settings=NewSession(title="saved", title_source="user", model_id="m"),
        messages=(NewMessage(role="user", content="a"), NewMessage(role="narrator", content="b")),
    )
    saved = agent.sessions.save(state, timedelta(seconds=2))
    assert (saved.id, saved.message_count, saved.duration_ms) == (state.id, 2, 2000)
    loaded = agent.sessions.load(state.id)
    assert [(m.role, m.content) for m in loaded.messages] == [("user", "a"), ("narrator", "b")]
    longer = replace(loaded, messages=(*loaded.messages, NewMessage(role="user", content="c")))
    assert agent.sessions.save(longer, timedelta(seconds=3)).message_count == 3
    with pytest.raises(HistoryConflict):
        agent.sessions.save(loaded, timedelta())
    agent.sessions.resume("saved")
    agent.run("d")
    sent = [(m.role, m.content) for m in agent.provider.requests[-1].messages]
    assert sent == [("user", "a"), ("narrator", "b"), ("user", "c"), ("user", "d")]


def test_what_a_caller_needs_beside_a_session_is_never_stored(
    open_agent: OpenAgent, tmp_path: Path
) -> None:
    """It comes back in a field of its own, shows nowhere, and saving leaves it out."""
    agent = open_agent([said("hi"), said("again")])
    agent.run("hello")
    runtime = {
        "endpoint": "https://elsewhere.invalid/v1",
        "headers": {"authorization": f"Bearer {KEY}"},
        "api_key": KEY,
    }
    state = agent.sessions.load(runtime=runtime)
    assert isinstance(state, LoadedState)
    assert state.runtime == runtime
    runtime["api_key"] = "changed"
    assert state.runtime["api_key"] == KEY
    assert state.settings == agent.sessions.load().settings
    assert KEY not in repr(state)
    longer = replace(state, messages=(*state.messages, NewMessage(role="user", content="more")))
    assert longer.runtime == state.runtime
    saved = agent.sessions.save(longer, timedelta(seconds=1))
    assert agent.sessions.active == saved
    copy = replace(longer, id="01890000-0000-7000-8000-000000000002")
    agent.sessions.save(copy, timedelta())
    agent.run("go on")
    b"".join(agent.sessions.export(format="archive"))
    assert agent.sessions.load(copy.id).runtime == {}
    assert agent.sessions.get().endpoint is None
    agent.close()
    files = [path for path in tmp_path.rglob("*") if path.is_file()]
    assert files
    for path in files:
        for secret in (KEY.encode(), b"elsewhere.invalid"):
            assert secret not in path.read_bytes(), path
