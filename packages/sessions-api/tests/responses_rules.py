"""What the Responses API refuses in a request, as the documentation has it: pure functions.

Source: OpenAI API reference, "Create a model response"; guides "Function calling", "Reasoning
models" and "Conversation state".
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from wire_rules import NAME, fits, is_address, is_legal_tool, is_text, unsendable

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator, Mapping

LONGEST_ID = 64
_INCLUDABLE = re.compile(r"[a-z_.]+")


def openai_responses_problems(body: Any, *, known_ids: Collection[str] | None = None) -> list[str]:
    """Return what the Responses API refuses in *body*, which nothing is stored of.

    *known_ids* are the ids of items that the service gave out; None lets any id be known.
    """
    return list(_responses(body, known_ids)) + unsendable(body)


def _responses(body: Any, known_ids: Collection[str] | None) -> Iterator[str]:
    if not is_text(body.get("model")):
        yield "no model"
    for name in ("messages", "stream_options", "previous_response_id", "max_tokens"):
        if name in body:
            yield f"unknown parameter {name}"
    if body.get("store") is not False:
        yield "the service is asked to store"
    if not all(fits(_INCLUDABLE, one) for one in body.get("include", [])):
        yield "include names nothing"
    for tool in body.get("tools", []):
        if tool.get("type") != "function" or not is_legal_tool(tool):
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
        if not (is_text(own) and len(own) <= LONGEST_ID):
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
            is_address(part.get("image_url")) or is_text(part.get("file_id"))
        ):
            yield "has an image without an address"
        elif kind == "input_file" and not part.keys() & {"file_data", "file_url", "file_id"}:
            yield "has a file without data"


def _call_item(item: Mapping[str, Any]) -> Iterator[str]:
    if not (is_text(item.get("call_id")) and len(item["call_id"]) <= LONGEST_ID):
        yield "is a call with an illegal call_id"
    if not fits(NAME, item.get("name")):
        yield "is a call of no function"
    if not is_text(item.get("arguments")):
        yield "is a call without arguments"


def _output_item(item: Mapping[str, Any]) -> Iterator[str]:
    output = item.get("output")
    if isinstance(output, list):
        yield from _input_parts(output, None)
    elif not isinstance(output, str):
        yield "is an output that is neither text nor parts"


def _reasoning_item(item: Mapping[str, Any]) -> Iterator[str]:
    if not is_text(item.get("id")):
        yield "is reasoning without an id"
    if not isinstance(item.get("summary"), list):
        yield "is reasoning without a summary"
    if not is_text(item.get("encrypted_content")):
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
