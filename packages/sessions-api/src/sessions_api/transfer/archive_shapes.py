"""The lines of an archive as tables: each field, and what may stand there.

Invariant: these are the fields that are written, no more and no less; a test compares them with
what a full session is written as.

Source: `docs/formats.md`, "Archive".
"""

from __future__ import annotations

from sessions_api.transfer.shapes import (
    Check,
    amount,
    flag,
    instant,
    json_object,
    json_objects,
    one_of,
    optional,
    pair,
    text,
    tool_calls,
    uuid_text,
    whole,
    word,
)

Shape = dict[str, Check]
_MOST_TOKENS = 2**40 - 1  # of one run; the sum of many still is a number

HEADER: Shape = {
    "format": text,
    "version": whole(least=1),
    "created_at": instant,
    "created_by": text,
    "session_count": whole(),
    "redacted": flag,
}
SESSION: Shape = {
    "id": uuid_text,
    "title": optional(text),
    "title_source": one_of("auto", "user"),
    "provider": optional(text),
    "endpoint": optional(text),
    "model_id": optional(text),
    "model_config": json_object,
    "system_prompt": optional(text),
    "parameters": json_object,
    "show_reasoning": flag,
    "status": one_of("idle", "running", "failed", "closed"),
    "duration_ms": whole(),
    "created_at": instant,
    "updated_at": instant,
    "archived_at": optional(instant),
    "forked_from": optional(pair(uuid_text, whole())),
    "metadata": json_object,
}
RUN: Shape = {
    "id": uuid_text,
    "first_seq": whole(least=1),
    "status": one_of("pending", "completed", "failed"),
    "error_type": optional(word),
    "started_at": instant,
    "finished_at": optional(instant),
    "input_tokens": optional(whole(most=_MOST_TOKENS)),
    "output_tokens": optional(whole(most=_MOST_TOKENS)),
    "cached_input_tokens": optional(whole(most=_MOST_TOKENS)),
    "reasoning_tokens": optional(whole(most=_MOST_TOKENS)),
    "cost": optional(amount),
    "provider": optional(text),
    "model": optional(text),
    "retry_of": optional(uuid_text),
    "undone_at": optional(instant),
    "undone_after": optional(whole()),
    "copied_from": optional(uuid_text),
}
EXECUTION: Shape = {
    "run_id": uuid_text,
    "call_seq": whole(least=1),
    "call_index": whole(),
    "call_id": text,
    "name": text,
    "replay": one_of("safe", "unsafe"),
    "started_at": instant,
    "finished_at": optional(instant),
    "outcome": optional(one_of("ok", "error", "cancelled", "unknown")),
    "result_seq": optional(whole(least=1)),
}
MESSAGE: Shape = {
    "seq": whole(least=1),
    "run_id": optional(uuid_text),
    "role": text,
    "content": optional(text),
    "reasoning_content": optional(text),
    "tool_calls": optional(tool_calls),
    "tool_call_id": optional(text),
    "name": optional(text),
    "kind": one_of("original", "summary", "derived"),
    "covers": optional(pair(whole(), whole())),
    "parts": optional(json_objects),
    "provider_data": optional(text),
    "repaired": flag,
    "created_at": optional(instant),
    "undone_at": optional(instant),
    "undone_after": optional(whole()),
    "extra": optional(text),
}
END: Shape = {
    "session_id": uuid_text,
    "run_count": whole(),
    "tool_execution_count": whole(),
    "message_count": whole(),
    "complete": flag,
    "sha256": text,
}
