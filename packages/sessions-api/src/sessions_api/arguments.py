"""What public methods and agents may be given: one rule a name, checked before anything is done.

Invariant: a name means the same wherever it is a parameter, so it has one rule; None passes where
the parameter is declared with None. A wrong type is ArgumentTypeInvalid, an impossible value
ArgumentInvalid; neither repeats the value, which may be a secret in the wrong place. Both faces
are checked here, because the asynchronous one calls the synchronous one.

Must not: look anything up. Whether a session, page or tool is there is for those who own them.
"""

from __future__ import annotations

import inspect
import json
import os
from collections.abc import Callable, Iterable, Mapping
from datetime import timedelta
from functools import wraps
from typing import Any, Literal, TypeVar, get_args

from sessions_api.errors import ArgumentInvalid, ArgumentTypeInvalid, SettingsInvalid
from sessions_api.runs.rates import COST_SHAPE, rates_of
from sessions_api.state import Persistence
from state_store import (
    NewMessage,
    NewSession,
    SearchOrder,
    SessionState,
    StandInKind,
    ToolCall,
)

View = Literal["original", "context", "all"]
Rule = Callable[[str, Any], None]
C = TypeVar("C")


def checked(cls: type[C]) -> type[C]:
    """Check what the public methods of *cls* are given; for use as a decorator."""
    for name, method in list(vars(cls).items()):
        if inspect.isfunction(method) and not name.startswith("_"):
            setattr(cls, name, _checking(method))
    return cls


def check_options(workspace: object, options: Mapping[str, Any]) -> None:
    """Check what an agent is made with; a mistyped option could lose a conversation."""
    known = [name for name in OPTIONS if name != "workspace"]
    if unknown := set(options) - set(known):
        raise SettingsInvalid(
            f"An agent has no option {', '.join(sorted(unknown))}.",
            hint=f"There are: {', '.join(known)}.",
        )
    check(OPTIONS, {"workspace": workspace, **options})


def check(rules: Mapping[str, Rule], given: Mapping[str, Any]) -> None:
    """Check what is *given* by name; a name without a rule takes anything."""
    for name, value in given.items():
        if (rule := rules.get(name)) is not None:
            rule(name, value)


def request_limit(provider: object) -> int | None:
    """Return how many bytes *provider* says that its service takes; None if it does not say."""
    limit: int | None = getattr(provider, "max_request_bytes", None)
    _or_none(_count)("provider.max_request_bytes", limit)
    return limit


def _checking(method: Callable[..., Any]) -> Callable[..., Any]:
    rules: dict[str, Rule] = {}
    for name, parameter in inspect.signature(method).parameters.items():
        if (rule := PARAMETERS.get(name)) is not None:
            rules[name] = _or_none(rule) if "None" in str(parameter.annotation) else rule
    names = tuple(inspect.signature(method).parameters)

    @wraps(method)
    def call(*args: Any, **kwargs: Any) -> Any:
        check(rules, dict(zip(names, args, strict=False)))
        check(rules, kwargs)
        return method(*args, **kwargs)

    return call


# --- rules ------------------------------------------------------------------------------------


def _or_none(rule: Rule) -> Rule:
    def checking(name: str, value: Any) -> None:
        if value is not None:
            rule(name, value)

    return checking


def _is(kind: type[Any] | tuple[type[Any], ...], wanted: str) -> Rule:
    def checking(name: str, value: Any) -> None:
        if not isinstance(value, kind):
            raise _wrong_type(name, wanted, value)

    return checking


def _count(name: str, value: Any) -> None:
    wanted = "a whole number of at least 1"
    if not isinstance(value, int) or isinstance(value, bool):
        raise _wrong_type(name, wanted, value)
    if value < 1:
        raise ArgumentInvalid(name, wanted=wanted)


def _one_of(*choices: str) -> Rule:
    wanted = f"one of {', '.join(choices)}"

    def checking(name: str, value: Any) -> None:
        _is(str, wanted)(name, value)
        if value not in choices:
            raise ArgumentInvalid(name, wanted=wanted)

    return checking


def _json_object(name: str, value: Any) -> None:
    """Take a mapping that strict JSON can carry: as such it is stored."""
    wanted = "a mapping that JSON can express"
    if not isinstance(value, Mapping):
        raise _wrong_type(name, wanted, value)
    try:
        json.dumps(value, allow_nan=False, default=_plain)
    except (TypeError, ValueError, RecursionError):
        raise ArgumentInvalid(name, wanted=wanted) from None


def _model_config(name: str, value: Any) -> None:
    """Take what is known of a model: any JSON object whose `cost`, if there is one, is a price."""
    _json_object(name, value)
    own = value.get("cost")
    if own is not None and rates_of(own) is None:
        raise ArgumentInvalid(f"{name}['cost']", wanted=COST_SHAPE)
    window = value.get("context_window")
    if window is not None:
        _count(f"{name}['context_window']", window)


def _runtime(name: str, value: Any) -> None:
    """Take what a caller needs beside a session: anything, under names."""
    wanted = "a mapping whose names are text"
    if not isinstance(value, Mapping):
        raise _wrong_type(name, wanted, value)
    if not all(isinstance(one, str) for one in value):
        raise ArgumentInvalid(name, wanted=wanted)


def _plain(value: Any) -> dict[Any, Any]:
    if isinstance(value, Mapping):
        return dict(value)
    raise TypeError


def _duration(name: str, value: Any) -> None:
    wanted = "a timedelta that is not negative"
    if not isinstance(value, timedelta):
        raise _wrong_type(name, wanted, value)
    if value < timedelta():
        raise ArgumentInvalid(name, wanted=wanted)


def _state(name: str, value: Any) -> None:
    """Take a session whose every text is text and whose every structure is JSON."""
    _is(SessionState, "a SessionState")(name, value)
    _text(f"{name}.id", value.id)
    _is(NewSession, "a NewSession")(f"{name}.settings", value.settings)
    check(_SETTINGS, {f: getattr(value.settings, f) for f in NewSession.__dataclass_fields__})
    for number, message in enumerate(value.messages):
        where = f"{name}.messages[{number}]"
        _is(NewMessage, "a NewMessage")(where, message)
        _text(f"{where}.role", message.role)
        for field in _TEXTS_OF_A_MESSAGE:
            _or_none(_text)(f"{where}.{field}", getattr(message, field))
        for call in message.tool_calls or ():
            _is(ToolCall, "a ToolCall")(f"{where}.tool_calls", call)
            for text in (call.id, call.name, call.arguments):
                _text(f"{where}.tool_calls", text)
        for part in message.parts or ():
            _json_object(f"{where}.parts", part)


def _provider(name: str, value: Any) -> None:
    if isinstance(value, str):
        return
    known = all(hasattr(value, needed) for needed in ("name", "endpoint", "reply"))
    if not known or isinstance(value, type):
        wanted = "a provider's name, or an object with name, endpoint and reply()"
        raise _wrong_type(name, wanted, value)


def _iterable(name: str, value: Any) -> None:
    if isinstance(value, str) or not isinstance(value, Iterable):
        raise _wrong_type(name, "functions or tools, in a list", value)


def _persistence(_: str, value: Any) -> None:
    if value not in get_args(Persistence):
        raise SettingsInvalid(
            f"There is no persistence {value!r}.",
            hint=f"Choose one of: {', '.join(get_args(Persistence))}.",
        )


def _callable(name: str, value: Any) -> None:
    if not callable(value):
        raise _wrong_type(name, "something to call", value)


def _select(name: str, value: Any) -> None:
    wanted = "a function that returns exchanges, and no coroutine function"
    if not callable(value) or inspect.iscoroutinefunction(value):
        raise _wrong_type(name, wanted, value)


def _wrong_type(name: str, wanted: str, value: Any) -> ArgumentTypeInvalid:
    found = f"the class {value.__name__}" if isinstance(value, type) else type(value).__name__
    return ArgumentTypeInvalid(name, wanted=wanted, found=found)


_text = _is(str, "text")
_flag = _is(bool, "True or False")
_path = _is((str, os.PathLike), "a path")
_TEXTS_OF_A_MESSAGE = ("content", "reasoning_content", "tool_call_id", "name", "provider_data")
_SETTINGS = {
    **dict.fromkeys(
        ("title", "provider", "endpoint", "model_id", "system_prompt"), _or_none(_text)
    ),
    **dict.fromkeys(("model_config", "parameters", "metadata"), _or_none(_json_object)),
}

# Of methods; whether None is meant stands in their signatures.
PARAMETERS: Mapping[str, Rule] = {
    "ref": _text,
    "cursor": _text,
    "limit": _count,
    "archived": _flag,
    "shown": _flag,
    "order": _one_of(*get_args(SearchOrder)),
    "kind": _one_of(*get_args(StandInKind)),
    "runtime": _runtime,
    "view": _one_of(*get_args(View)),
    "title": _text,
    "system_prompt": _text,
    "parameters": _json_object,
    "metadata": _json_object,
    "model_config": _model_config,
    "session_id": _text,
    "run_id": _text,
    "note": _text,
    "query": _text,
    "allow_unsafe": _flag,
    "redact": _flag,
    "at": _count,
    "through": _count,
    "n": _count,
    "format": _text,  # `export` knows which there are
    "progress": _callable,
    "state": _state,
    "duration": _duration,
}

# Of agents.
OPTIONS: Mapping[str, Rule] = {
    "workspace": _path,
    "provider": _or_none(_provider),
    "model": _or_none(_text),
    "base_url": _or_none(_text),
    "api_key": _or_none(_text),
    "system_prompt": _or_none(_text),
    "parameters": _or_none(_json_object),
    "model_config": _or_none(_model_config),
    "select": _or_none(_select),
    "tools": _iterable,
    "persistence": _persistence,
    "accept_endpoint": _flag,
    "state_home": _or_none(_path),
    "progress": _callable,
    "clock": _callable,
    "new_id": _callable,
}
