"""Sessions that have everything in them that a session can have, for the tests of transfer."""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from sessions_api.sessions import Sessions
from sessions_api.state import WorkspaceState
from state_store import (
    NewMessage,
    NewSession,
    SessionState,
    SqliteStore,
    ToolCall,
    Usage,
    new_id,
)

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

WORKSPACE_ID = "0b1f7d5e-2f7c-4c39-8f6e-5c5a1a3d9e10"
PARTS = ({"type": "text", "text": "a part"}, {"type": "image_url", "image_url": {"url": "data:,x"}})
DATA = '{ "signature" : "S1", "n" : 1.10, "n" : 1e400, "big" : 123456789012345678901234567890 }'


@dataclass(frozen=True, slots=True, kw_only=True)
class Texts:
    """What stands in every field that takes text."""

    title: str = "title"
    role: str = "narrator"
    content: str = "content"
    reasoning: str = "reasoning"
    call_id: str = "c1"
    tool: str = "look"
    arguments: str = '{"at":1.0}'
    name: str = "name"
    model: str = "model"
    provider: str = "provider"
    endpoint: str = "https://example.invalid"
    error: str = "provider.timeout"
    prompt: str = "prompt"
    metadata: str = "metadata"
    part: str = "part"
    data: str = DATA

    def everywhere(self, text: str) -> Texts:
        """Return these with *text* in every field."""
        return replace(self, **dict.fromkeys(self.__dataclass_fields__, text))


def filled(store: SqliteStore, texts: Texts = Texts()) -> str:
    """Make a session of a completed, a failed and a saved turn with *texts*; return its id."""
    session_id = new_id()
    calls = (
        ToolCall(id=texts.call_id, name=texts.tool, arguments=texts.arguments),
        ToolCall(id=texts.call_id, name=texts.tool, arguments=texts.arguments),
        ToolCall(id=texts.call_id, name="unanswered", arguments="{}"),
    )
    saved = (
        NewMessage(role=texts.role, content=texts.content, name=texts.name, parts=PARTS),
        NewMessage(
            role="user", content=texts.content, parts=({"type": texts.part, "text": "of the part"},)
        ),
        NewMessage(role="tool", content="of no call", tool_call_id=texts.call_id),
        NewMessage(role="assistant", tool_calls=calls[:1], provider_data=texts.data),
        NewMessage(role="tool", content=texts.content, tool_call_id=texts.call_id),
        NewMessage(role="user", content=texts.content, kind="summary", covers=(1, 2)),
    )
    settings = NewSession(
        title=texts.title,
        title_source="user",
        provider=texts.provider,
        endpoint=texts.endpoint,
        model_id=texts.model,
        model_config={"context": 10**30, "price": 1.10, texts.metadata: None},
        system_prompt=texts.prompt,
        parameters={"temperature": 0.1, "stop": [texts.metadata]},
        show_reasoning=True,
        metadata={texts.metadata: {"deep": [texts.metadata, -0.0, 2**70, True]}},
    )
    state = SessionState(id=session_id, settings=settings, messages=saved)
    store.save(state, timedelta(milliseconds=1234))
    run, _ = store.begin_run(
        session_id,
        NewMessage(role="user", content=texts.content),
        run_id=new_id(),
        provider=texts.provider,
        model=texts.model,
    )
    asked = NewMessage(
        role="assistant",
        content=texts.content,
        reasoning_content=texts.reasoning,
        tool_calls=calls,
        provider_data=texts.data,
    )
    seq = store.start_tools(run.id, asked, ["safe", "unsafe", "safe"]).seq
    for index in (1, 0):
        store.finish_tool(
            run.id,
            call_seq=seq,
            call_index=index,
            outcome="ok" if index else "error",
            message=NewMessage(
                role="tool",
                content=f"{texts.content} of {index}",
                tool_call_id=texts.call_id,
                name=texts.tool,
            ),
        )
    usage = Usage(input_tokens=7, output_tokens=5, reasoning_tokens=1)
    answer = NewMessage(role="assistant", content=texts.content)
    store.complete_run(run.id, answer, usage=usage, cost=0.1 + 0.2)
    failed, _ = store.begin_run(
        session_id, NewMessage(role="user", content="again"), run_id=new_id(), retry_of=run.id
    )
    store.fail_run(failed.id, texts.error, usage=Usage())
    return session_id


@contextmanager
def sessions_in(path: Path | None = None) -> Iterator[Sessions]:
    """Open the sessions of a new store, in memory without a path."""
    store = (
        SqliteStore.in_memory(workspace_id=WORKSPACE_ID)
        if path is None
        else SqliteStore.open(path / "state.sqlite3", workspace_id=WORKSPACE_ID)
    )
    with store:
        yield of_store(store, path)


def of_store(store: SqliteStore, root: Any = None) -> Sessions:
    """Return the sessions of *store*."""
    state = WorkspaceState(
        root=root, workspace_id=None, paths=None, store=store, story=None, saving=True
    )
    return Sessions(state)
