"""Histories made up at random in a real store: whatever a session can come to hold.

Runs with tools that finish in any order, failures and retries, turns that are undone and redone,
summaries over summaries, forks, and what other programs save: repeated and empty call ids, missing
and surplus results, odd roles, system messages in the middle, reasoning of other models.
"""

from __future__ import annotations

from contextlib import suppress
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from sessions_api.providers import anthropic_request, responses_request
from sessions_api.providers.openai_request import HOME
from state_store import (
    BoundaryInvalid,
    NewMessage,
    SessionState,
    SqliteStore,
    StateStoreError,
    ToolCall,
    Usage,
    new_id,
)

if TYPE_CHECKING:
    from collections.abc import Callable
    from random import Random

WORKSPACE_ID = "22222222-2222-4333-8444-555555555555"
IMAGE = "data:image/png;base64,AA=="
TEXTS = (None, "", " ", "text", "é\u2028\x00")
IDS = ("", "a", "a", "b.c", "toolu_1", "x" * 64, "y" * 70)
NAMES = ("t", "a tool", "functions.t", "", "n" * 70)
ARGUMENTS = ("", "{}", '{"a": 1.50}', "[1]", '{"a":', '{"a": NaN}')
ROLES = ("user", "user", "assistant", "assistant", "tool", "tool", "system", "developer", "critic")
PARTS: tuple[dict[str, Any], ...] = (
    {"type": "text", "text": "t"},
    {"type": "input_text", "text": ""},
    {"type": "image_url", "image_url": {"url": IMAGE}},
    {"type": "image", "data": "AA==", "mime_type": "image/webp"},
    {"type": "file", "file": {"filename": "a.pdf", "file_data": "AA=="}},
)
FOREIGN = (None, None, "not JSON", "[]", '{"other":{"signature":"S"}}', '{"anthropic":3}')
MODEL = "m"


class History:
    """One session that grows by chance, or a fork of it from then on."""

    def __init__(self, chance: Random) -> None:
        self.chance = chance
        self.store = SqliteStore.in_memory(workspace_id=WORKSPACE_ID)
        self.session_id = self.store.create_session().id
        self._count = 0

    def grow(self) -> None:
        """Do some of what can be done."""
        steps: list[Callable[[], Any]] = [
            *[self._run] * 6,
            *[self._save] * 3,
            *[self._summarize] * 2,
            self._save_a_summary,
            lambda: self.store.undo(self.session_id, self.chance.randint(1, 3)),
            lambda: self.store.redo(self.session_id, self.chance.randint(1, 3)),
            self._fork,
        ]
        for _ in range(self.chance.randint(1, 14)):
            with suppress(StateStoreError):
                self.chance.choice(steps)()

    def _words(self) -> str:
        self._count += 1
        return f"words {self._count}"

    def _run(self) -> None:
        chance = self.chance
        failed = [one.id for one in self.store.runs(self.session_id).items if one.error_type]
        run, _ = self.store.begin_run(
            self.session_id,
            NewMessage(role="user", content=self._words(), parts=self._parts()),
            run_id=new_id(),
            retry_of=chance.choice(failed) if failed and chance.random() < 0.3 else None,
        )
        fails = chance.random() < 0.25
        for _ in range(chance.choice((0, 0, 1, 1, 2))):
            message = self._calling()
            seq = self.store.start_tools(run.id, message, ["safe"] * len(message.tool_calls or ()))
            left = 1 if fails and chance.random() < 0.5 else 0
            self._finish(run.id, seq.seq, message.tool_calls or (), left)
            if left:
                break
        if fails:
            self.store.fail_run(run.id, "provider.timeout", usage=Usage())
        else:
            self.store.complete_run(
                run.id,
                NewMessage(role="assistant", content=chance.choice(TEXTS)),
                usage=Usage(),
            )

    def _finish(self, run_id: str, seq: int, calls: tuple[ToolCall, ...], left: int) -> None:
        order = list(range(len(calls)))
        self.chance.shuffle(order)
        for index in order[left:]:
            self.store.finish_tool(
                run_id,
                call_seq=seq,
                call_index=index,
                outcome=self.chance.choice(("ok", "error")),
                message=NewMessage(
                    role="tool",
                    content=self.chance.choice(TEXTS),
                    tool_call_id=calls[index].id,
                    name=calls[index].name or None,
                ),
            )

    def _calling(self) -> NewMessage:
        """Return an assistant's message with calls, as some model has made it."""
        self._count += 1
        number, count = self._count, self.chance.randint(1, 3)
        if self.chance.random() < 0.5:
            calls = tuple(self._call() for _ in range(count))
            return self._said("assistant", calls)
        calls = tuple(
            ToolCall(id=f"call_{number}_{index}", name="t", arguments="{}")
            for index in range(count)
        )
        return NewMessage(
            role="assistant",
            content=None,
            reasoning_content="hm",
            tool_calls=calls,
            provider_data=self._own_data(number, calls),
        )

    def _own_data(self, number: int, calls: tuple[ToolCall, ...]) -> str | None:
        """Return what a service wants back with *calls*, of this model or of another."""
        model = self.chance.choice((MODEL, MODEL, "another"))
        if self.chance.random() < 0.5:
            blocks: list[dict[str, Any]] = [
                {"type": "thinking", "thinking": "hm", "signature": f"S{number}"},
                *({"type": "tool_use", "id": one.id, "name": "t", "input": {}} for one in calls),
            ]
            return anthropic_request.pack_provider_data(
                endpoint=anthropic_request.HOME, model=model, blocks=blocks
            )
        output: list[dict[str, Any]] = [
            {"type": "reasoning", "id": f"rs_{number}", "summary": [], "encrypted_content": "x"},
            *(
                {
                    "type": "function_call",
                    "id": f"fc_{one.id}",
                    "call_id": one.id,
                    "name": "t",
                    "arguments": "{}",
                }
                for one in calls
            ),
        ]
        return responses_request.pack_provider_data(endpoint=HOME, model=model, output=output)

    def _call(self) -> ToolCall:
        chance = self.chance
        return ToolCall(
            id=chance.choice(IDS), name=chance.choice(NAMES), arguments=chance.choice(ARGUMENTS)
        )

    def _parts(self) -> tuple[dict[str, Any], ...] | None:
        if self.chance.random() < 0.7:
            return None
        return tuple(self.chance.choices(PARTS, k=self.chance.randint(0, 2)))

    def _said(self, role: str, calls: tuple[ToolCall, ...] | None = None) -> NewMessage:
        chance = self.chance
        return NewMessage(
            role=role,
            content=chance.choice(TEXTS),
            reasoning_content=chance.choice((None, "hm")),
            tool_calls=calls,
            tool_call_id=chance.choice((None, "", "a", "b.c", "c9")) if role == "tool" else None,
            name=chance.choice((None, None, "ann", "a b", "t")),
            parts=self._parts(),
            provider_data=chance.choice(FOREIGN),
        )

    def _append(self, *messages: NewMessage) -> None:
        state = self.store.load(self.session_id)
        self.store.save(
            SessionState(id=state.id, settings=state.settings, messages=state.messages + messages),
            timedelta(0),
        )

    def _save(self) -> None:
        """Append what another program has said; calls and results as they come."""
        said = []
        for _ in range(self.chance.randint(1, 6)):
            role = self.chance.choice(ROLES)
            speaks = role == "assistant" and self.chance.random() < 0.6
            calls = tuple(self._call() for _ in range(self.chance.randint(0, 3)))
            said.append(self._said(role, calls if speaks else None))
        self._append(*said)

    def _save_a_summary(self) -> None:
        """Append a stand-in for any range, without asking where exchanges end."""
        last = self.store.snapshot(self.session_id).last_seq
        first = self.chance.randint(1, max(1, last))
        through = self.chance.randint(first, max(first, last))
        self._append(
            NewMessage(role="user", content="saved", kind="derived", covers=(first, through))
        )

    def _boundary(self) -> int | None:
        """Return a place where the session may be cut, the nearest to one by chance."""
        last = self.store.snapshot(self.session_id).last_seq
        try:
            through = self.chance.randint(1, max(1, last))
            self.store.summarize(self.session_id, self._words(), through=through)
        except BoundaryInvalid as error:
            return error.before or error.after
        return None

    def _summarize(self) -> None:
        nearest = self._boundary()
        if nearest is not None:
            self.store.summarize(self.session_id, self._words(), through=nearest)

    def _fork(self) -> None:
        self.session_id = self.store.fork_session(self.session_id).id
