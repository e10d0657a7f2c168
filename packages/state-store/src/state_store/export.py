"""Messages as JSON lines, the form that other tools read.

One object a line, in order: `role` and `content`, then `reasoning_content`, `tool_calls`,
`tool_call_id` and `name` where present; assistant lines always have `tool_calls`, null when there
are none. Results are stored in the order in which tools finished and written here in the order of
their calls: the rows of the tool executions know which result is whose, where there are any, and
the calls' ids elsewhere. Fields that an import kept in `extra` follow as they came. Works on any
stream of messages; of these it holds at most one exchange of calls in memory.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from state_store.records import Message, Session, ToolCall, ToolExecution

FIELDS = frozenset({"role", "content", "reasoning_content", "tool_calls", "tool_call_id", "name"})


def jsonl_lines(
    session: Session, messages: Iterable[Message], executions: Iterable[ToolExecution] = ()
) -> Iterator[bytes]:
    """Yield *messages* of *session* as JSON lines, each ending with a newline, UTF-8."""
    prompt = session.system_prompt
    for message in in_call_order(messages, executions):
        if prompt is not None:
            if (message.role, message.content) != ("system", prompt):
                yield _line({"role": "system", "content": prompt})
            prompt = None
        yield _line(message_object(message), message.extra)
    if prompt is not None:
        yield _line({"role": "system", "content": prompt})


def in_call_order(
    messages: Iterable[Message], executions: Iterable[ToolExecution] = ()
) -> Iterator[Message]:
    """Yield *messages* with each row of tool results sorted by the calls that they answer.

    *executions* say which result is whose, also where the ids are empty or all the same; results
    that have none are matched by id. Those that answer no call keep their order behind the others.
    """
    places = {
        one.result_seq: (one.call_seq, one.call_index)
        for one in executions
        if one.result_seq is not None
    }
    asking: Message | None = None
    results: list[Message] = []
    for message in messages:
        if message.role == "tool":
            results.append(message)
            continue
        yield from _sorted_by_call(asking, results, places)
        asking, results = message, []
        yield message
    yield from _sorted_by_call(asking, results, places)


def _sorted_by_call(
    asking: Message | None, results: list[Message], places: Mapping[int, tuple[int, int]]
) -> Iterator[Message]:
    if asking is None or not asking.tool_calls:
        yield from results
        return
    known = {places[one.seq]: one for one in results if one.seq in places}
    left = [one for one in results if one.seq not in places]
    for index, call in enumerate(asking.tool_calls):
        found = known.pop((asking.seq, index), None)
        if found is None:
            found = next((one for one in left if one.tool_call_id == call.id), None)
            if found is not None:
                left.remove(found)
        if found is not None:
            yield found
    yield from sorted([*known.values(), *left], key=lambda one: one.seq)


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


def require_unknown(extra: str) -> str:
    """Return *extra* if a line can carry it as it is; ValueError otherwise.

    It has to be one line, the text of a JSON object without a field that is exported anyway.
    """
    try:
        fields = json.loads(extra, parse_constant=_refuse_constant)
    except (ValueError, RecursionError):
        fields = None
    if not isinstance(fields, dict) or "\n" in extra or "\r" in extra:
        raise ValueError(
            "extra fields of a message have to be the text of a JSON object, in a line"
        )
    if known := FIELDS & set(fields):
        raise ValueError(f"{', '.join(sorted(known))}: fields of a message cannot be extra ones")
    return extra


def _refuse_constant(name: str) -> None:
    raise ValueError(f"{name} is not JSON")


def _line(exported: dict[str, Any], extra: str | None = None) -> bytes:
    line = json.dumps(exported, ensure_ascii=False, separators=(",", ":"))
    if extra is not None and (fields := extra.strip(" \t").removeprefix("{").strip(" \t")) != "}":
        line = f"{line[:-1]},{fields}"  # as they came: a parser would change numbers
    return line.encode() + b"\n"
