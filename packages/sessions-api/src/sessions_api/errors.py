"""Errors of the SDK, beside those of the packages below it, which pass through as they are.

    SessionsError                     `hint` says what to do next
    ├── RunFailed                     a run ended as failed; its input and its effects are stored
    ├── ProviderError                 a provider could not answer; `error_type` is stable
    ├── ProviderUnknown               no provider has that name (LookupError)
    ├── ProviderUnavailable           its package, key or endpoint is missing (RuntimeError)
    ├── EndpointChanged               the history would go to another origin than it came from
    ├── ReferenceNotFound             no session or run fits (LookupError)
    ├── ReferenceAmbiguous            several fit; `candidates` names them (LookupError)
    ├── NoActiveSession               asked of "the active session" when there is none (LookupError)
    ├── InputInvalid                  there is nothing to send to the model (ValueError)
    ├── ArgumentInvalid               an argument's value means nothing; `argument` (ValueError)
    ├── ArgumentTypeInvalid           an argument is of another type; `argument` (TypeError)
    ├── RetryRefused                  a run cannot be tried again (ValueError)
    │   └── UnsafeRetry               unsafe tools had started in it: `executions`
    ├── SelectionInvalid              what `select` answered cannot be sent (ValueError)
    ├── ImportInvalid                 a file to import is damaged or nothing of ours (ValueError)
    ├── ToolDefinitionInvalid         a function cannot be offered as a tool (TypeError)
    ├── AgentClosed                   the agent was closed before this call (RuntimeError)
    └── SettingsInvalid               a setting cannot be used (ValueError)

Messages name the object and the way out, never content, keys or raw provider responses.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal

if TYPE_CHECKING:
    from state_store import ToolExecution

Saved = Literal["all", "input", "nothing"]
_WHAT_IS_SAVED: dict[Saved, str] = {
    "all": "Your message and this failed run are saved.",
    "input": "The failure could not be saved; the next start finds it as interrupted.",
    "nothing": "Nothing of this conversation is saved.",
}


def _revive(cls: type[SessionsError], args: tuple[Any, ...], state: dict[str, Any]) -> Any:
    error = cls.__new__(cls, *args)
    error.args = args
    error.__dict__.update(state)
    return error


class SessionsError(Exception):
    """Base of all errors of this package."""

    hint: str | None

    def __init__(self, message: str, *, hint: str | None = None, **facts: Any) -> None:
        super().__init__(message)
        self.hint = hint
        self.__dict__.update(facts)

    def __reduce__(self) -> tuple[Any, ...]:
        """Survive pickling although constructors take keywords."""
        return (_revive, (type(self), self.args, self.__dict__.copy()))


class RunFailed(SessionsError):
    """A run ended as failed. By the time it is raised everything that happened is stored.

    The provider's or tool's own exception is the cause (`__cause__`). `saved` is "all", "input"
    when the end itself could not be saved, "nothing" in a conversation that is not kept.
    """

    def __init__(
        self,
        *,
        run_id: str,
        session_id: str,
        error_type: str,
        retryable: bool,
        saved: Saved = "all",
    ) -> None:
        see = f"See what happened: tinyagent sessions show {session_id[-8:]}"
        again = "trying again may well succeed"
        hints = [*([] if saved == "nothing" else [see]), *([again] if retryable else [])]
        hint = "; ".join(hints)
        super().__init__(
            f"The run {run_id[-8:]} of session {session_id[-8:]} failed: {error_type}."
            f" {_WHAT_IS_SAVED[saved]}",
            hint=f"{hint[0].upper()}{hint[1:]}." if hint else None,
        )
        self.run_id = run_id
        self.session_id = session_id
        self.error_type = error_type
        self.retryable = retryable
        self.saved = saved


class ProviderError(SessionsError):
    """A provider could not answer.

    `error_type` is one of provider.auth, provider.rate_limit, provider.timeout,
    provider.unavailable and provider.bad_response. `status` is the HTTP status where there was
    one, `retry_after_s` what the service asked for, in seconds.
    """

    def __init__(
        self,
        message: str,
        *,
        error_type: str,
        retryable: bool = False,
        status: int | None = None,
        retry_after_s: float | None = None,
        hint: str | None = None,
    ) -> None:
        super().__init__(message, hint=hint)
        self.error_type = error_type
        self.retryable = retryable
        self.status = status
        self.retry_after_s = retry_after_s


class ProviderUnknown(SessionsError, LookupError):
    """No provider has the name `name`; `known` lists those that exist."""

    def __init__(self, name: str, *, known: tuple[str, ...]) -> None:
        super().__init__(
            f"There is no provider named {name!r}.",
            hint=f"Choose one of: {', '.join(known)}.",
        )
        self.name = name
        self.known = known


class ProviderUnavailable(SessionsError, RuntimeError):
    """A provider exists but cannot be used here: `name`, and what is missing in `missing`."""

    def __init__(self, name: str, *, missing: str, hint: str) -> None:
        super().__init__(f"The provider {name!r} cannot be used: {missing}.", hint=hint)
        self.name = name
        self.missing = missing


class EndpointChanged(SessionsError):
    """The session's history went to `stored`; the configured endpoint `current` is elsewhere."""

    def __init__(self, *, session_id: str, stored: str, current: str) -> None:
        super().__init__(
            f"Session {session_id[-8:]} was held with {stored}, but the endpoint is now {current}. "
            "Nothing was sent.",
            hint=f"Go on there with base_url={stored!r} (--base-url), or consent to sending the"
            " history to the new one with accept_endpoint=True (--accept-endpoint).",
        )
        self.session_id = session_id
        self.stored = stored
        self.current = current


class ReferenceNotFound(SessionsError, LookupError):
    """No object fits `reference`."""

    def __init__(self, reference: str, *, kind: str = "session", hint: str | None = None) -> None:
        super().__init__(
            f"No {kind} fits {reference!r} in this workspace.",
            hint=hint or "List what there is with: tinyagent sessions list",
        )
        self.reference = reference
        self.kind = kind


class ReferenceAmbiguous(SessionsError, LookupError):
    """Several objects fit `reference`; `candidates` are their (id, title)."""

    def __init__(
        self, reference: str, *, candidates: tuple[tuple[str, str | None], ...], kind: str
    ) -> None:
        listed = ", ".join(f"{key[-8:]} ({title or 'untitled'})" for key, title in candidates[:5])
        more = f" and {len(candidates) - 5} more" if len(candidates) > 5 else ""  # noqa: PLR2004 - as many as fit a line
        super().__init__(
            f"{len(candidates)} {kind}s fit {reference!r}: {listed}{more}.",
            hint="Name one by its id: the digits shown here, more of them, or all.",
        )
        self.reference = reference
        self.candidates = candidates
        self.kind = kind


class NoActiveSession(SessionsError, LookupError):
    """Something was asked of the active session, and none is active."""

    def __init__(self) -> None:
        super().__init__(
            "No session is active.", hint="Name one, or make one active with create or resume."
        )


class InputInvalid(SessionsError, ValueError):
    """What was given as the user's message cannot be one; nothing was stored."""


class ArgumentInvalid(SessionsError, ValueError):
    """The value of `argument` is one that it cannot have; nothing was done."""

    def __init__(self, argument: str, *, wanted: str) -> None:
        super().__init__(
            f"The argument {argument!r} must be {wanted}.", hint="Correct it; nothing was done."
        )
        self.argument = argument


class ArgumentTypeInvalid(SessionsError, TypeError):
    """`argument` is of a type that it cannot have; nothing was done."""

    def __init__(self, argument: str, *, wanted: str, found: str) -> None:
        super().__init__(
            f"The argument {argument!r} must be {wanted}, not {found}.",
            hint="Correct it; nothing was done.",
        )
        self.argument = argument


class SelectionInvalid(SessionsError, ValueError):
    """What the agent's `select` answered, or raised (`__cause__`), makes no request.

    Nothing was sent, and nothing of the turn was stored.
    """

    def __init__(self, problem: str) -> None:
        super().__init__(
            f"The agent's select cannot be used: {problem}.",
            hint="Return some of the exchanges that it is given, in order, each at most once.",
        )
        self.problem = problem


class ImportInvalid(SessionsError, ValueError):
    """What is to be imported is damaged, cut off or of another format.

    `source` names it, `line` is the number of the line, from 1, `reason` says what is wrong there.
    """

    def __init__(self, source: str, *, line: int, reason: str, hint: str | None = None) -> None:
        super().__init__(
            f"{source} cannot be imported: line {line}: {reason}.",
            hint=hint or "Make the export again, or take an undamaged copy of it.",
        )
        self.source = source
        self.line = line
        self.reason = reason


class ToolDefinitionInvalid(SessionsError, TypeError):
    """A function cannot be offered to a model as a tool."""


class RetryRefused(SessionsError, ValueError):
    """The run `run_id` of `session_id` cannot be tried again; its `status` is what it has now."""

    def __init__(self, *, run_id: str, session_id: str, status: str, why: str, hint: str) -> None:
        super().__init__(f"Run {run_id[-8:]} cannot be tried again: {why}.", hint=hint)
        self.run_id = run_id
        self.session_id = session_id
        self.status = status


class UnsafeRetry(RetryRefused):
    """Tools that are unsafe to run twice had started, in the run or in another try at its input.

    `executions` are these, in the order in which they started: each took effect, or may have.
    """

    def __init__(
        self, *, run_id: str, session_id: str, status: str, executions: tuple[ToolExecution, ...]
    ) -> None:
        told = ", ".join(f"{_tool_name(one.name)} ({one.outcome})" for one in executions[:5])
        more = f" and {len(executions) - 5} more" if len(executions) > 5 else ""  # noqa: PLR2004 - as many as fit a line
        super().__init__(
            run_id=run_id,
            session_id=session_id,
            status=status,
            why=f"it may have taken effect already, by {told}{more}",
            hint="Look at what they did first; to run them again: retry(…, allow_unsafe=True).",
        )
        self.executions = executions


def _tool_name(name: str) -> str:
    """Return the name of a tool, and no text that a model has made up instead of one."""
    return name if name.isidentifier() and len(name) <= 64 else "an unknown tool"  # noqa: PLR2004 - as long as a tool's name can be


class AgentClosed(SessionsError, RuntimeError):
    """The agent was closed before this call."""


class SettingsInvalid(SessionsError, ValueError):
    """A setting, flag or line of the configuration file cannot be used."""
