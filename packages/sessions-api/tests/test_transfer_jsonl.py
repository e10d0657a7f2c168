from __future__ import annotations

import io
import json
import os
import threading
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from faces import said
from full_sessions import filled, sessions_in
from made_sessions import TEXTS
from sessions_api.errors import ArgumentInvalid, ArgumentTypeInvalid
from state_store import ToolCall

if TYPE_CHECKING:
    from pathlib import Path

    from conftest import OpenAgent
    from sessions_api import ModelRequest, Sessions


def jsonl(*messages: dict[str, Any]) -> bytes:
    """Return messages as lines."""
    return b"".join(json.dumps(message).encode() + b"\n" for message in messages)


def call(*ids: str) -> dict[str, Any]:
    """Return an assistant's message with calls."""
    calls = [
        {"id": one, "type": "function", "function": {"name": "look", "arguments": '{ "at":1.0 }'}}
        for one in ids
    ]
    return {"role": "assistant", "content": None, "tool_calls": calls}


def result(call_id: str, content: str = "seen") -> dict[str, Any]:
    """Return the result of a call."""
    return {"role": "tool", "content": content, "tool_call_id": call_id}


USER: dict[str, Any] = {"role": "user", "content": "go"}


def exported(sessions: Sessions, ref: str) -> bytes:
    """Return a session as JSON lines."""
    return b"".join(sessions.export(ref))


def test_messages_become_a_session_of_their_own() -> None:
    """Its title is the first thing that was said; nothing is known of times, runs or models."""
    source = jsonl({"role": "system", "content": "be brief"}, USER, call("c1"), result("c1"))
    with sessions_in() as sessions:
        (session,) = sessions.import_(source)
        assert (session.title, session.title_source, session.status) == ("go", "auto", "idle")
        assert (session.system_prompt, session.message_count) == ("be brief", 3)
        assert sessions.runs(session.id).items == ()
        messages = sessions.messages(session.id).items
        assert [one.role for one in messages] == ["user", "assistant", "tool"]
        assert [one.created_at for one in messages] == [None] * 3
        assert all(one.imported_at is not None for one in messages)
        assert messages[1].tool_calls == (ToolCall(id="c1", name="look", arguments='{ "at":1.0 }'),)
        assert [json.loads(line) for line in exported(sessions, session.id).splitlines()] == [
            json.loads(line) for line in source.splitlines()
        ]


def test_an_export_comes_back_with_the_same_bytes() -> None:
    """Of a session with everything in it that this format can say."""
    with sessions_in() as first, sessions_in() as second:
        one = exported(first, filled(first._store))
        (session,) = second.import_(one)
        assert exported(second, session.id) == one
        assert second.import_(one).outcomes[0].outcome == "already_there"
        assert len(second.list().items) == 1


LINES = st.fixed_dictionaries(
    {
        "role": TEXTS | st.sampled_from(("user", "system", "assistant")),
        "content": st.none() | TEXTS,
    },
    optional={
        "reasoning_content": TEXTS,
        "tool_call_id": TEXTS,
        "name": TEXTS,
        "refusal": st.none() | TEXTS,
        "é": st.lists(st.integers() | st.floats(allow_nan=False, allow_infinity=False)),
    },
)


@given(st.lists(LINES, min_size=1, max_size=5))
@settings(max_examples=50, deadline=None)
def test_whatever_was_said_is_kept(lines: list[dict[str, Any]]) -> None:
    """Unknown roles and fields included; only an assistant's line without calls gets a null."""
    with sessions_in() as sessions:
        (session,) = sessions.import_(jsonl(*lines))
        found = [json.loads(line) for line in exported(sessions, session.id).splitlines()]
        by_role = [one for one in lines if one["role"] == "tool"]
        assert not by_role
        for line in lines:
            if line["role"] == "assistant":
                line["tool_calls"] = None
        assert found == lines


def test_unknown_fields_keep_their_very_text() -> None:
    """Number formats and names that stand twice inside of them are exported as they came."""
    line = b'{"role":"user","content":"x","n":{"a":1.10,"a":1e400},"z":[1.0]}\n'
    with sessions_in() as sessions:
        (session,) = sessions.import_(line)
        assert exported(sessions, session.id) == line


def test_content_in_parts_is_kept_in_parts() -> None:
    """What a model is sent is what the file said; its text is there for those who read."""
    parts = [{"type": "text", "text": "what is this"}, {"type": "image_url", "image_url": {}}]
    with sessions_in() as sessions:
        (session,) = sessions.import_(jsonl({"role": "user", "content": parts}))
        (message,) = sessions.messages(session.id).items
        assert [dict(part) for part in message.parts or ()] == parts
        assert message.content == "what is this"
        assert session.title == "what is this"


def test_blank_lines_line_ends_and_a_mark_of_bytes_are_no_fault() -> None:
    """As editors leave them; the last line may lack its end."""
    source = b'\xef\xbb\xbf{"role":"user","content":"a"}\r\n\r\n{"role":"user","content":"b"}'
    with sessions_in() as sessions:
        (session,) = sessions.import_(source)
        assert [one.content for one in sessions.messages(session.id).items] == ["a", "b"]


def legal(request: ModelRequest) -> str:
    """Answer as a service that refuses what is not answered call by call, at once and in order."""
    waiting: list[str] = []
    for message in request.messages:
        if message.role == "tool":
            assert message.tool_call_id == waiting.pop(0)
        else:
            assert waiting == []
            waiting = [one.id for one in message.tool_calls or ()]
    assert waiting == []
    return "fine"


def test_c06_an_imported_call_without_a_result_is_answered_at_its_place(
    open_agent: OpenAgent,
) -> None:
    """The service accepts the request; the missing result says what it is; what is stored stays."""
    agent = open_agent([legal])
    (session,) = agent.sessions.import_(jsonl(USER, call("c1"), {"role": "user", "content": "on"}))
    agent.sessions.resume(session.id)
    agent.run("more")
    sent = agent.provider.requests[-1].messages
    assert [one.role for one in sent] == ["user", "assistant", "tool", "user", "user"]
    assert "interrupted" in sent[2].content
    stored = agent.sessions.messages(session.id).items
    assert [one.role for one in stored[:3]] == ["user", "assistant", "user"]


def test_c08_of_imported_results_the_first_fitting_ones_are_sent(open_agent: OpenAgent) -> None:
    """A second one and one of no call are not sent, and are exported and shown all the same."""
    agent = open_agent([legal])
    results = (result("c1", "first"), result("c1", "second"), result("c9", "stray"))
    (session,) = agent.sessions.import_(jsonl(USER, call("c1", "c2"), *results))
    agent.sessions.resume(session.id)
    agent.run("more")
    sent = [one.content for one in agent.provider.requests[-1].messages if one.role == "tool"]
    assert sent[0] == "first"
    assert "interrupted" in sent[1]
    assert len(sent) == 2
    for form in ("jsonl", "archive", "markdown", "html"):
        shown = b"".join(agent.sessions.export(session.id, form))
        for content in (b"first", b"second", b"stray"):
            assert content in shown


def test_a_source_may_be_a_path_bytes_a_file_or_pieces(tmp_path: Path) -> None:
    """And a pipe, which cannot be read twice; all of them are the same source."""
    source = jsonl(USER)
    path = tmp_path / "messages"
    path.write_bytes(source)
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    writer = threading.Thread(target=pipe.write_bytes, args=(source,))
    writer.start()
    sources: list[Any] = [
        *(path, str(path), source, bytearray(source), io.BytesIO(source), pipe),
        *([source[:7], source[7:]], (source[n : n + 1] for n in range(len(source)))),
    ]
    with sessions_in() as sessions, path.open("rb") as file:
        outcomes = [sessions.import_(one).outcomes[0].outcome for one in [*sources, file]]
        assert outcomes == ["new", *["already_there"] * (len(sources))]
    writer.join()
    assert {one.name for one in tmp_path.iterdir()} == {"messages", "pipe"}


@pytest.mark.parametrize("source", [None, 7, [1], ["text"], io.StringIO("text")])
def test_what_is_no_source_is_refused(source: Any) -> None:
    """By its type, before anything is read."""
    with sessions_in() as sessions, pytest.raises(ArgumentTypeInvalid):
        sessions.import_(source)


def test_a_file_that_cannot_be_read_is_the_systems_own_error(tmp_path: Path) -> None:
    """With its name."""
    with sessions_in() as sessions:
        for path in (tmp_path / "none", tmp_path):
            with pytest.raises(OSError, match=str(tmp_path)):
                sessions.import_(path)


def test_an_unknown_format_is_refused_at_once(open_agent: OpenAgent) -> None:
    """With those that there are."""
    agent = open_agent([said("x")])
    agent.run("a")
    with pytest.raises(ArgumentInvalid, match="jsonl, archive, markdown, html"):
        list(agent.sessions.export(format="yaml"))


def test_progress_is_told_in_bytes() -> None:
    """First of checking, then of importing; never more than there is."""
    told: list[tuple[str, int, int]] = []
    source = jsonl(*[USER] * 50)
    with sessions_in() as sessions:
        sessions.import_(source, progress=lambda *facts: told.append(facts))
    assert {what for what, _, _ in told} == {"checking", "importing"}
    assert all(0 < done <= total == len(source) for _, done, total in told)
