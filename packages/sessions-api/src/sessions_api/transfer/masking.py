"""Records with their secrets masked, for exports that are given away.

Invariant: replay and every export without masking never come through here; what does is not fed
back to a model. A value that stood under a telling name anywhere in a session is masked everywhere
in it: the session is read once for that before it is written.
"""

from __future__ import annotations

import os
from dataclasses import replace
from functools import cached_property
from typing import TYPE_CHECKING

from sessions_api.transfer.secrets_in_text import Masker
from sessions_api.transfer.sensitive_names import is_sensitive

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping
    from typing import Self

    from sessions_api.transfer.moment import Moment
    from state_store import Message, Run, Session, ToolExecution


_SHORTEST_VALUE = 8  # a shorter one is likely a word, which would be masked wherever it stands


def environment_secrets(environment: Mapping[str, str] = os.environ) -> frozenset[str]:
    """Return the values of variables whose names say that they are secrets."""
    return frozenset(
        value
        for name, value in environment.items()
        if is_sensitive(name) and len(value) >= _SHORTEST_VALUE and not value.startswith("/")
    )


class Masking:
    """Masks records. `known` are secrets that this process knows."""

    def __init__(self, known: Iterable[str] = (), *, masker: Masker | None = None) -> None:
        self._masker = masker or Masker(known)

    def knowing(self, moment: Moment) -> Self:
        """Return one that also knows what stands under telling names in this session."""
        looking = Masker(self._masker.known)
        first = type(self)(masker=looking)
        first.session(moment.session)
        for run in moment.runs:
            first.run(run)
        for execution in moment.executions:
            first.execution(execution)
        for message in moment.messages():
            first.message(message)
        return type(self)(looking.known | looking.found)

    def session(self, session: Session) -> Session:
        """Return *session* masked."""
        mask = self._masker
        return replace(
            session,
            title=mask.optional(session.title),
            provider=mask.optional(session.provider),
            endpoint=mask.optional(session.endpoint),
            model_id=mask.optional(session.model_id),
            model_config=mask.value(session.model_config),
            system_prompt=mask.optional(session.system_prompt),
            parameters=mask.value(session.parameters),
            metadata=mask.value(session.metadata),
        )

    def run(self, run: Run) -> Run:
        """Return *run* masked."""
        mask = self._masker
        return replace(
            run,
            provider=mask.optional(run.provider),
            model=mask.optional(run.model),
            error_type=mask.optional(run.error_type),
        )

    def execution(self, execution: ToolExecution) -> ToolExecution:
        """Return *execution* masked."""
        mask = self._masker
        return replace(
            execution, call_id=mask.text(execution.call_id), name=mask.text(execution.name)
        )

    def message(self, message: Message) -> Message:
        """Return *message* masked, wherever in it a secret stands."""
        mask = self._masker
        calls = message.tool_calls
        if calls is not None:
            calls = tuple(
                replace(
                    call,
                    id=mask.text(call.id),
                    name=mask.text(call.name),
                    arguments=mask.text(call.arguments),
                )
                for call in calls
            )
        return replace(
            message,
            role=mask.text(message.role),
            content=mask.optional(message.content),
            reasoning_content=mask.optional(message.reasoning_content),
            tool_calls=calls,
            tool_call_id=mask.optional(message.tool_call_id),
            name=mask.optional(message.name),
            parts=None if message.parts is None else tuple(mask.value(message.parts)),
            provider_data=mask.optional(message.provider_data),
            extra=mask.optional(message.extra),
        )


class MaskedMoment:
    """A moment in which every record is masked; the first look at it reads the whole session."""

    def __init__(self, moment: Moment, masking: Masking) -> None:
        self._moment = moment
        self._given = masking

    @cached_property
    def _masking(self) -> Masking:
        return self._given.knowing(self._moment)

    @cached_property
    def session(self) -> Session:
        """The session, masked."""
        return self._masking.session(self._moment.session)

    @cached_property
    def runs(self) -> tuple[Run, ...]:
        """Its runs, masked."""
        return tuple(map(self._masking.run, self._moment.runs))

    @cached_property
    def executions(self) -> tuple[ToolExecution, ...]:
        """What became of its tool calls, masked."""
        return tuple(map(self._masking.execution, self._moment.executions))

    def messages(self) -> Iterator[Message]:
        """Yield every message, masked, in order of seq."""
        return map(self._masking.message, self._moment.messages())

    def originals(self) -> Iterator[Message]:
        """Yield the originals but those that are undone, masked."""
        return map(self._masking.message, self._moment.originals())
