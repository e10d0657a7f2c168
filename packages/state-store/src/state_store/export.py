"""Messages as JSON lines, the form that other tools read.

One object a line, in order: `role` and `content`, then `reasoning_content`, `tool_calls`,
`tool_call_id` and `name` where present; assistant lines always have `tool_calls`, null when there
are none. Results are stored in the order in which tools finished and written here in the order of
their calls. Works on any stream of messages and holds at most one exchange of calls in memory.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from state_store.records import Message, Session, ToolCall


def jsonl_lines(session: Session, messages: Iterable[Message]) -> Iterator[bytes]:
    """Yield *messages* of *session* as JSON lines, each ending with a newline, UTF-8."""
    prompt = session.system_prompt
    for message in in_call_order(messages):
        if prompt is not None:
            if (message.role, message.content) != ("system", prompt):
                yield _line({"role": "system", "content": prompt})
            prompt = None
        yield _line(message_object(message))
    if prompt is not None:
        yield _line({"role": "system", "content": prompt})


def in_call_order(messages: Iterable[Message]) -> Iterator[Message]:
    """Yield *messages* with each run of tool results sorted by the calls that they answer.

    Results that answer no call keep their order behind those that do.
    """
    calls: tuple[ToolCall, ...] = ()
    results: list[Message] = []
    for message in messages:
        if message.role == "tool":
            results.append(message)
            continue
        yield from _sorted_by_call(calls, results)
        calls, results = message.tool_calls or (), []
        yield message
    yield from _sorted_by_call(calls, results)


def _sorted_by_call(calls: tuple[ToolCall, ...], results: list[Message]) -> Iterator[Message]:
    left = list(results)
    for call in calls:
        found = next((one for one in left if one.tool_call_id == call.id), None)
        if found is not None:
            left.remove(found)
            yield found
    yield from left


def message_object(message: Message) -> dict[str, Any]:
    """Return the exported fields of *message*, in their order on the line."""
    exported: dict[str, Any] = {"role": message.role, "content": message.content}
    if message.reasoning_content is not None:
        exported["reasoning_content"] = message.reasoning_content
    if message.role == "assistant" or message.tool_calls is not None:
        exported["tool_calls"] = (
            [call_object(call) for call in message.tool_calls] if message.tool_calls else None
        )
    if message.tool_call_id is not None:
        exported["tool_call_id"] = message.tool_call_id
    if message.name is not None:
        exported["name"] = message.name
    return exported


def call_object(call: ToolCall) -> dict[str, Any]:
    """Return *call* in the wire form of chat completions."""
    return {
        "id": call.id,
        "type": "function",
        "function": {"name": call.name, "arguments": call.arguments},
    }


def _line(exported: dict[str, Any]) -> bytes:
    return json.dumps(exported, ensure_ascii=False, separators=(",", ":")).encode() + b"\n"
