"""What three services refuse in a request, as their documentation has it: pure functions.

Each takes the JSON body of a request and returns a sentence for every rule that it breaks, none
for a legal one. The scripted services answer 400 to a body with problems, and a test that makes up
histories can ask without any connection.
Source: OpenAI API reference, "Create chat completion" and "Create a model response", and the guides
"Function calling", "Reasoning models" and "Conversation state"; Claude API reference, "Messages",
"Tool use", "Extended thinking" and "Vision". Rules that only the services' error messages tell are
marked so.
"""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator, Mapping

_NAME = re.compile(r"[a-zA-Z0-9_-]{1,64}")
_AUTHOR = re.compile(r"[^\s<|\\/>]{1,64}")  # told by an error message
_CLAUDE_ID = re.compile(r"[a-zA-Z0-9_-]{1,64}")
_CHAT_FIELDS = {
    "system": {"role", "content", "name"},
    "developer": {"role", "content", "name"},
    "user": {"role", "content", "name"},
    "assistant": {"role", "content", "name", "refusal", "tool_calls", "audio"},
    "tool": {"role", "content", "tool_call_id", "name"},
}
_LONGEST_CHAT_ID = 40  # told by an error message
_LONGEST_ID = 64
_IMAGES = {"image/jpeg", "image/png", "image/gif", "image/webp"}
_INCLUDABLE = re.compile(r"[a-z_.]+")


def openai_chat_problems(body: Any, *, extensions: bool = True) -> list[str]:
    """Return what chat completions refuse in *body*.

    *extensions* allows fields that compatible services add to messages and calls.
    """
    return list(_chat(body, extensions=extensions)) + _unsendable(body)


def openai_responses_problems(body: Any, *, known_ids: Collection[str] | None = None) -> list[str]:
    """Return what the Responses API refuses in *body*, which nothing is stored of.

    *known_ids* are the ids of items that the service gave out; None lets any id be known.
    """
    return list(_responses(body, known_ids)) + _unsendable(body)


def anthropic_problems(body: Any) -> list[str]:
    """Return what the Messages API refuses in *body*."""
    return list(_claude(body)) + _unsendable(body)


def _unsendable(body: Any) -> list[str]:
    try:
        json.dumps(body, ensure_ascii=False, allow_nan=False).encode()
    except (ValueError, TypeError) as error:
        return [f"the body is no JSON: {type(error).__name__}"]
    return []


# --- chat completions -----------------------------------------------------------------------------


def _chat(body: Any, *, extensions: bool) -> Iterator[str]:
    if not _text(body.get("model")):
        yield "no model"
    messages = body.get("messages")
    if not isinstance(messages, list) or not messages:
        yield "no messages"
        return
    if "stream_options" in body and not body.get("stream"):
        yield "stream_options without stream"
    for tool in body.get("tools", []):
        if tool.get("type") != "function" or not _legal_tool(tool.get("function", {})):
            yield "a tool is not legal"
    waiting: list[str] = []
    for at, message in enumerate(messages):
        where = f"messages[{at}]"
        role = message.get("role")
        if role not in _CHAT_FIELDS:
            yield f"{where} has the role {role!r}"
            continue
        if not extensions and (others := message.keys() - _CHAT_FIELDS[role]):
            yield f"{where} has the fields {sorted(others)}"
        if "name" in message and not _fits(_AUTHOR, message["name"]):
            yield f"{where} has a name that is none"
        yield from _chat_content(where, message)
        if role == "tool":
            if message.get("tool_call_id") in waiting:
                waiting.remove(message["tool_call_id"])
            else:
                yield f"{where} answers no call before it"
            continue
        if waiting:
            yield f"{where} stands before the results of {len(waiting)} calls"
        waiting = []
        if "tool_calls" in message:
            waiting = [call.get("id") for call in message["tool_calls"]]
            yield from _chat_calls(where, message, extensions=extensions)
    if waiting:
        yield f"{len(waiting)} calls at the end have no result"


def _chat_content(where: str, message: Mapping[str, Any]) -> Iterator[str]:
    role, content = message["role"], message.get("content")
    if isinstance(content, str):
        return
    if content is None:
        if role != "assistant" or not message.get("tool_calls"):
            yield f"{where} has no content"
        return
    if not isinstance(content, list) or not content:
        yield f"{where} has content that is neither text nor parts"
        return
    legal = {"assistant": ("text", "refusal"), "user": ("text", "image_url", "input_audio", "file")}
    for part in content:
        kind = part.get("type")
        if kind not in legal.get(role, ("text",)):
            yield f"{where} has a part of type {kind!r}"
        elif kind == "text" and not isinstance(part.get("text"), str):
            yield f"{where} has a text that is none"
        elif kind == "image_url" and not _address((part.get("image_url") or {}).get("url")):
            yield f"{where} has an image without an address"
        elif kind == "file" and not (part.get("file") or {}).keys() & {"file_data", "file_id"}:
            yield f"{where} has a file without data"


def _chat_calls(where: str, message: Mapping[str, Any], *, extensions: bool) -> Iterator[str]:
    calls = message["tool_calls"]
    if message["role"] != "assistant" or not isinstance(calls, list) or not calls:
        yield f"{where} has calls that are none"
        return
    ids = [call.get("id") for call in calls]
    if len({*ids}) != len(ids):
        yield f"{where} has two calls of one id"
    for call in calls:
        function = call.get("function", {})
        if not (_text(call.get("id")) and len(call["id"]) <= _LONGEST_CHAT_ID):
            yield f"{where} has a call with an illegal id"
        if call.get("type") != "function" or not _fits(_NAME, function.get("name")):
            yield f"{where} has a call of no function"
        if not _text(function.get("arguments")):
            yield f"{where} has a call without arguments"
        if not extensions and call.keys() - {"id", "type", "function"}:
            yield f"{where} has a call with other fields"


# --- responses ------------------------------------------------------------------------------------


def _responses(body: Any, known_ids: Collection[str] | None) -> Iterator[str]:
    if not _text(body.get("model")):
        yield "no model"
    for name in ("messages", "stream_options", "previous_response_id", "max_tokens"):
        if name in body:
            yield f"unknown parameter {name}"
    if body.get("store") is not False:
        yield "the service is asked to store"
    if not all(_fits(_INCLUDABLE, one) for one in body.get("include", [])):
        yield "include names nothing"
    for tool in body.get("tools", []):
        if tool.get("type") != "function" or not _legal_tool(tool):
            yield "a tool is not legal"
    items = body.get("input")
    if not isinstance(items, list) or not items:
        yield "no input"
        return
    yield from _ids(items, known_ids)
    yield from _groups(items)
    for at, item in enumerate(items):
        check = _ITEMS.get(item.get("type", "message"))
        if check is not None:
            yield from (f"input[{at}] {problem}" for problem in check(item))
        if item.get("type") == "reasoning" and not _is_followed(items, at):
            yield f"input[{at}] is reasoning without its following item"


def _ids(items: list[Any], known_ids: Collection[str] | None) -> Iterator[str]:
    seen: set[str] = set()
    begins = {"reasoning": "rs", "function_call": "fc", "message": "msg"}
    for at, item in enumerate(items):
        own = item.get("id")
        if own is None:
            continue
        if not (_text(own) and len(own) <= _LONGEST_ID):
            yield f"input[{at}] has an illegal id"
        elif not own.startswith(begins.get(item.get("type"), "")):
            yield f"input[{at}] has an id of another kind of item"
        elif own in seen:
            yield f"input[{at}] has an id that was there before"
        elif known_ids is not None and own not in known_ids:
            yield f"input[{at}] has an id that is not found"
        seen.add(own)


def _groups(items: list[Any]) -> Iterator[str]:
    waiting: list[str] = []
    called: set[str] = set()
    answering = False
    for at, item in enumerate(items):
        match item.get("type"):
            case "function_call":
                if waiting and answering:
                    yield f"input[{at}] stands between the outputs of calls"
                if item.get("call_id") in called:
                    yield f"input[{at}] has the id of another call"
                waiting.append(item.get("call_id"))
                called.add(item.get("call_id"))
                answering = False
            case "function_call_output":
                answering = True
                if item.get("call_id") in waiting:
                    waiting.remove(item["call_id"])
                else:
                    yield f"input[{at}] is an output of no call before it"
            case _:
                from_model = item.get("role", "assistant") == "assistant"
                if waiting and (answering or not from_model):
                    yield f"input[{at}] stands before the outputs of {len(waiting)} calls"
                    waiting = []
    if waiting:
        yield f"{len(waiting)} calls have no output"


def _is_followed(items: list[Any], at: int) -> bool:
    """Say whether the reasoning at *at* comes before something else that the model made."""
    for item in items[at + 1 :]:
        if item.get("type") != "reasoning":
            output = str(item.get("type", "message")).endswith("_output")
            return not output and item.get("role", "assistant") == "assistant"
    return False


def _message_item(item: Mapping[str, Any]) -> Iterator[str]:
    role, content = item.get("role"), item.get("content")
    if role not in {"user", "assistant", "system", "developer"}:
        yield f"has the role {role!r}"
    if isinstance(content, str) and "id" not in item:
        return
    if not isinstance(content, list) or ("id" not in item and not content):
        yield "has content that is neither text nor parts"
        return
    yield from _input_parts(content, ("output_text", "refusal") if role == "assistant" else None)


def _input_parts(content: list[Any], legal: tuple[str, ...] | None) -> Iterator[str]:
    for part in content:
        kind = part.get("type")
        if kind not in (legal or ("input_text", "input_image", "input_file")):
            yield f"has a part of type {kind!r}"
        elif kind.endswith("_text") and not isinstance(part.get("text"), str):
            yield "has a text that is none"
        elif kind == "input_image" and not (
            _address(part.get("image_url")) or _text(part.get("file_id"))
        ):
            yield "has an image without an address"
        elif kind == "input_file" and not part.keys() & {"file_data", "file_url", "file_id"}:
            yield "has a file without data"


def _call_item(item: Mapping[str, Any]) -> Iterator[str]:
    if not (_text(item.get("call_id")) and len(item["call_id"]) <= _LONGEST_ID):
        yield "is a call with an illegal call_id"
    if not _fits(_NAME, item.get("name")):
        yield "is a call of no function"
    if not _text(item.get("arguments")):
        yield "is a call without arguments"


def _output_item(item: Mapping[str, Any]) -> Iterator[str]:
    output = item.get("output")
    if isinstance(output, list):
        yield from _input_parts(output, None)
    elif not isinstance(output, str):
        yield "is an output that is neither text nor parts"


def _reasoning_item(item: Mapping[str, Any]) -> Iterator[str]:
    if not _text(item.get("id")):
        yield "is reasoning without an id"
    if not isinstance(item.get("summary"), list):
        yield "is reasoning without a summary"
    if not _text(item.get("encrypted_content")):
        yield "is reasoning that is not found: nothing is stored, and it is not encrypted"


def _reference_item(_: Mapping[str, Any]) -> Iterator[str]:
    yield "is not found: nothing is stored"


_ITEMS: dict[Any, Callable[[Mapping[str, Any]], Iterator[str]]] = {
    "message": _message_item,
    "function_call": _call_item,
    "function_call_output": _output_item,
    "reasoning": _reasoning_item,
    "item_reference": _reference_item,
}

# --- messages -------------------------------------------------------------------------------------


def _claude(body: Any) -> Iterator[str]:
    if not _text(body.get("model")):
        yield "no model"
    if type(body.get("max_tokens")) is not int or body["max_tokens"] < 1:
        yield "no max_tokens"
    system = body.get("system", [])
    if system != [] and not _is_said(system):
        yield "system is blank, or holds something other than text"
    for tool in body.get("tools", []):
        if not _legal_tool({**tool, "parameters": tool.get("input_schema")}):
            yield "a tool is not legal"
    messages = body.get("messages")
    if not isinstance(messages, list) or not messages:
        yield "no messages"
        return
    waiting: list[str] = []
    called: set[str] = set()
    for at, message in enumerate(messages):
        where = f"messages[{at}]"
        role, content = message.get("role"), message.get("content")
        if role not in {"user", "assistant"} or message.keys() != {"role", "content"}:
            yield f"{where} is nobody's turn"
        blocks = [{"type": "text", "text": content}] if isinstance(content, str) else content
        if not isinstance(blocks, list) or not blocks:
            yield f"{where} is empty"
            continue
        yield from _results(where, blocks, waiting)
        waiting = [block.get("id") for block in blocks if block.get("type") == "tool_use"]
        if len({*waiting} - called) != len(waiting):
            yield f"{where} has the id of another call"
        called.update(waiting)
        for block in blocks:
            yield from (f"{where} {problem}" for problem in _claude_block(role, block))
        if blocks[-1].get("type") in {"thinking", "redacted_thinking"}:
            yield f"{where} ends with thinking"  # told by an error message
    if waiting:
        yield f"{len(waiting)} calls at the end have no result"


def _results(where: str, blocks: list[Any], waiting: list[str]) -> Iterator[str]:
    """Yield what is wrong with the results that have to come first after the calls *waiting*."""
    kinds = [block.get("type") for block in blocks]
    found = [block.get("tool_use_id") for block in blocks if block.get("type") == "tool_result"]
    if sorted(found, key=str) != sorted(waiting, key=str):
        yield f"{where} does not answer each call of the turn before it once"
    if "tool_result" in kinds[len(found) :]:
        yield f"{where} has a result behind something else"


def _claude_block(role: str, block: Mapping[str, Any]) -> Iterator[str]:
    kind = block.get("type")
    if kind in {"image", "document", "tool_result"} and role != "user":
        yield f"has a block of type {kind!r} of the assistant"
    if kind in {"thinking", "redacted_thinking", "tool_use"} and role != "assistant":
        yield f"has a block of type {kind!r} of the user"
    match kind:
        case "text" if not _is_said(block.get("text")):
            yield "has a blank text"
        case "image" if not _legal_source(block.get("source")):
            yield "has an image that is none"
        case "tool_use":
            if not _fits(_CLAUDE_ID, block.get("id")) or not _fits(_NAME, block.get("name")):
                yield "has a call with an illegal id or name"
            if not isinstance(block.get("input"), dict):
                yield "has a call whose input is no object"
        case "tool_result":
            content = block.get("content", [])
            for one in content if isinstance(content, list) else []:
                yield from _claude_block("user", one)
        case "thinking" if not (_text(block.get("signature")) and "thinking" in block):
            yield "has thinking without a signature"
        case "redacted_thinking" if not _text(block.get("data")):
            yield "has redacted thinking without data"
        case None | "image_url" | "input_text" | "input_image" | "input_file" | "file":
            yield f"has a block of type {kind!r}"


def _legal_source(source: Any) -> bool:
    match source:
        case {"type": "base64", "media_type": media, "data": str()}:
            return media in _IMAGES
        case {"type": "url", "url": str(address)}:
            return address.startswith(("http:", "https:"))
        case {"type": "file", "file_id": str()}:
            return True
    return False


def _is_said(text: Any) -> bool:
    if isinstance(text, list):
        return all(one.get("type") == "text" and _is_said(one.get("text")) for one in text)
    return isinstance(text, str) and bool(text.strip())


# --- all three ------------------------------------------------------------------------------------


def _legal_tool(tool: Mapping[str, Any]) -> bool:
    schema = tool.get("parameters")
    return (
        _fits(_NAME, tool.get("name"))
        and isinstance(tool.get("description"), str)
        and isinstance(schema, dict)
        and schema.get("type") == "object"
    )


def _text(value: Any) -> bool:
    return isinstance(value, str) and bool(value)


def _fits(pattern: re.Pattern[str], value: Any) -> bool:
    return isinstance(value, str) and bool(pattern.fullmatch(value))


def _address(value: Any) -> bool:
    return isinstance(value, str) and value.startswith(("http:", "https:", "data:"))
