"""Messages alone, one a line, as this and many other programs write them, read as a session.

Invariant: every line is one message and keeps its order; what has no place in a message here is
kept with it and exported again, and what could not be kept is refused. The session is new: its id,
its times and its title are ours, the messages have no times. A first line that is a system message
and nothing else is the session's system prompt, which is where the export takes it from.

Source: `docs/formats.md`, "JSON lines"; the messages of chat completions.
"""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING, Any

from sessions_api.titles import title_of
from sessions_api.transfer.archive_lines import extra_of
from sessions_api.transfer.archive_reading import require
from sessions_api.transfer.shapes import Check, Wanted, fields, json_objects, one_of, optional, text
from sessions_api.transfer.strict_json import exact_members, object_in
from state_store import Message, Session, ToolCall

if TYPE_CHECKING:
    from collections.abc import Iterator
    from datetime import datetime

    from sessions_api.transfer.source_lines import SourceLines


class MessagesReader:
    """A file of messages as one session; read it once to know `session`, then for its messages.

    `digest` is that of the whole file, and there after the messages were read.
    """

    def __init__(self, lines: SourceLines, *, session_id: str, now: datetime) -> None:
        self._lines = lines
        self._session_id = session_id
        self._now = now
        self.place = lines.place
        self.digest = ""
        self.title: str | None = None
        self.system_prompt: str | None = None

    @property
    def session(self) -> Session:
        """The session, as far as its messages are read."""
        return Session(
            id=self._session_id,
            title=self.title,
            title_source="auto",
            provider=None,
            endpoint=None,
            model_id=None,
            model_config={},
            system_prompt=self.system_prompt,
            parameters={},
            show_reasoning=False,
            status="idle",
            message_count=0,
            total_tokens=0,
            cost=None,
            usage_complete=True,
            duration_ms=0,
            created_at=self._now,
            updated_at=self._now,
            archived_at=None,
            forked_from=None,
            metadata={},
            revision=1,
        )

    def messages(self) -> Iterator[Message]:
        """Yield the messages in order; ImportInvalid for a line that is none."""
        digest = hashlib.sha256()
        seq = 0
        is_first = True
        while (line := self._lines.next()) is not None:
            digest.update(line)
            if not line.strip():
                continue
            with self._lines.strict():
                message = self._message(line, seq + 1)
            if is_first and _is_prompt(message):
                self.system_prompt = message.content
            else:
                seq += 1
                if self.title is None and message.role == "user" and message.content:
                    self.title = title_of(message.content) or None
                yield message
            is_first = False
        if is_first:
            raise self._lines.invalid("there is no message in it", line=1)
        self.digest = digest.hexdigest()

    def _message(self, line: bytes, seq: int) -> Message:
        found = object_in(line)
        unknown = found.keys() - _MESSAGE.keys()
        values = fields(found, _MESSAGE, ("role",), ignored=unknown)
        exact = exact_members(line) if unknown else []
        content = values.pop("content", None)
        parts = None
        if isinstance(content, tuple):
            parts, content = content, _text_of(content)
        absent: dict[str, Any] = dict.fromkeys(_MESSAGE.keys() - {"content"})
        message = Message(
            **{**absent, **values},
            id=0,
            session_id=self._session_id,
            seq=seq,
            run_id=None,
            content=content,
            kind="original",
            covers=None,
            parts=parts,
            provider_data=None,
            repaired=False,
            created_at=None,
            imported_at=None,
            extra=extra_of(one for one in exact if one[0] in unknown) if exact else None,
        )
        require("message", message)
        return message


def _is_prompt(message: Message) -> bool:
    others = (*(_MESSAGE.keys() - {"role", "content"}), "parts", "extra")
    is_bare = all(getattr(message, name) is None for name in others)
    return message.role == "system" and bool(message.content) and is_bare


def _text_of(parts: tuple[dict[str, Any], ...]) -> str | None:
    texts = [part["text"] for part in parts if isinstance(part.get("text"), str)]
    return "\n".join(texts) or None


def _content(value: Any) -> Any:
    if isinstance(value, list):
        return json_objects(value)
    if not isinstance(value, str):
        raise Wanted("a text or an array of parts")
    return value


def _function(value: Any) -> dict[str, Any]:
    return fields(value, {"name": text, "arguments": text}, ("name", "arguments"))


def _calls(value: Any) -> tuple[ToolCall, ...]:
    if not isinstance(value, list):
        raise Wanted("an array of tool calls")
    found = [fields(one, _CALL, ("id", "function")) for one in value]
    return tuple(ToolCall(id=one["id"], **one["function"]) for one in found)


_CALL: dict[str, Check] = {"id": text, "type": one_of("function"), "function": _function}
_MESSAGE: dict[str, Check] = {
    "role": text,
    "content": optional(_content),
    "reasoning_content": optional(text),
    "tool_calls": optional(_calls),
    "tool_call_id": optional(text),
    "name": optional(text),
}
