"""Calls without a result and results without a call, in what came from elsewhere.

In runs each call has its result, and the store checks that. A history that was saved or imported
comes as it is, and what is sent of it is made legal: a missing result is made up and marked, a
surplus one is left out. Invariant: what this tells is just what replay does, because both pair in
the same way; the stored messages stay as they are.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from sessions_api.runs.replay import answers_of, context
from sessions_api.verifying.report import Finding

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from state_store import Message, Snapshot


def pairing_findings(messages: Iterable[Message], then: Snapshot) -> Iterator[Finding]:
    """Yield a warning for each call and each result, of no run, that has not its like."""
    sent = context(messages, then.runs, then.executions)
    answers = answers_of(sent)
    answering = set(answers.values())
    called: set[str] = set()
    for position, message in enumerate(sent):
        place = f"message {message.seq} of session {message.session_id}"
        if message.role != "tool":
            called.update(call.id for call in message.tool_calls or ())
            for index in range(len(message.tool_calls or ())):
                if message.run_id is None and (position, index) not in answers:
                    yield Finding(
                        severity="warning",
                        kind="result_missing",
                        object=place,
                        message=f"its call {index + 1} was interrupted: no result of it is stored",
                        hint="The model is told so, by a result that says that it is unknown. "
                        "Nothing has to be done.",
                    )
        elif message.run_id is None and position not in answering:
            known = (message.tool_call_id or "") in called
            said = "its call has a result already" if known else "it is the result of no call"
            yield Finding(
                severity="warning",
                kind="result_surplus",
                object=place,
                message=f"{said}, so it is not sent",
                hint="It stays stored, shown and exported. Nothing has to be done.",
            )
