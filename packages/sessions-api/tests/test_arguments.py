from __future__ import annotations

import inspect
import pickle
from collections.abc import Callable
from datetime import timedelta
from decimal import Decimal
from typing import TYPE_CHECKING, Any

import pytest

from faces import said
from sessions_api import (
    Agent,
    AgentOptions,
    ArgumentInvalid,
    ArgumentTypeInvalid,
    AsyncAgent,
    NewMessage,
    NewSession,
    Sessions,
    SessionsError,
    SessionState,
    ToolCall,
)
from sessions_api.arguments import OPTIONS, PARAMETERS
from sessions_api.async_sessions import AsyncSessions

if TYPE_CHECKING:
    from faces import Looker

OpenAgent = Callable[..., Any]
ID = "01890000-0000-7000-8000-000000000001"
SECRET = "sk-in-the-wrong-place"  # noqa: S105 - made up
TYPE, VALUE = ArgumentTypeInvalid, ArgumentInvalid
# Parameters of a run, which `InputInvalid` refuses; of Python's own; and what is checked by use.
RULED_ELSEWHERE = {"self", "args", "kwargs", "text", "source", "options"}


def state_with(**message: Any) -> SessionState:
    """Return a state of one message."""
    return SessionState(id=ID, messages=(NewMessage(**{"role": "user"} | message),))


CALLS: list[tuple[str, dict[str, Any], type[SessionsError], str]] = [
    ("list", {"limit": 1.5}, TYPE, "limit"),
    ("list", {"limit": "3"}, TYPE, "limit"),
    ("list", {"limit": True}, TYPE, "limit"),
    ("list", {"limit": 0}, VALUE, "limit"),
    ("list", {"limit": -1}, VALUE, "limit"),
    ("list", {"cursor": 5}, TYPE, "cursor"),
    ("list", {"archived": "no"}, TYPE, "archived"),
    ("get", {"ref": 5}, TYPE, "ref"),
    ("resume", {"ref": None}, TYPE, "ref"),
    ("delete", {"ref": b"latest"}, TYPE, "ref"),
    ("messages", {"view": "nope"}, VALUE, "view"),
    ("messages", {"view": None}, TYPE, "view"),
    ("messages", {"view": "context", "limit": float("nan")}, TYPE, "limit"),
    ("runs", {"limit": Decimal(1)}, TYPE, "limit"),
    ("tool_executions", {"ref": ["latest"]}, TYPE, "ref"),
    ("rename", {"ref": "latest", "title": None}, TYPE, "title"),
    ("create", {"title": 5}, TYPE, "title"),
    ("create", {"system_prompt": b"x"}, TYPE, "system_prompt"),
    ("create", {"parameters": [1]}, TYPE, "parameters"),
    ("create", {"parameters": {"a": object()}}, VALUE, "parameters"),
    ("create", {"metadata": {"a": float("nan")}}, VALUE, "metadata"),
    ("create", {"metadata": {(1, 2): 3}}, VALUE, "metadata"),
    ("export", {"format": 5}, TYPE, "format"),
    ("export", {"format": "x"}, VALUE, "format"),
    ("export", {"redact": "no"}, TYPE, "redact"),
    ("import_", {"source": b"", "progress": 5}, TYPE, "progress"),
    ("save", {"state": {}, "duration": timedelta()}, TYPE, "state"),
    ("save", {"state": state_with(), "duration": 5}, TYPE, "duration"),
    ("save", {"state": state_with(), "duration": timedelta(-1)}, VALUE, "duration"),
    ("save", {"state": state_with(role=None)}, TYPE, "state.messages[0].role"),
    ("save", {"state": state_with(content=b"x")}, TYPE, "state.messages[0].content"),
    ("save", {"state": state_with(parts=({"a": {1}},))}, VALUE, "state.messages[0].parts"),
    (
        "save",
        {"state": state_with(tool_calls=(ToolCall(id="", name="n", arguments={}),))},  # type: ignore[arg-type]  # what is refused
        TYPE,
        "state.messages[0].tool_calls",
    ),
    ("fork", {"ref": 5}, TYPE, "ref"),
    ("fork", {"at": 0}, VALUE, "at"),
    ("fork", {"at": 2.0}, TYPE, "at"),
    ("fork", {"title": b"x"}, TYPE, "title"),
    ("undo", {"n": 0}, VALUE, "n"),
    ("undo", {"n": None}, TYPE, "n"),
    ("redo", {"n": -1}, VALUE, "n"),
    ("redo", {"ref": 5}, TYPE, "ref"),
    ("summarize", {"text": "x", "through": "2"}, TYPE, "through"),
    ("summarize", {"text": "x", "through": 2, "kind": "original"}, VALUE, "kind"),
    ("search", {"query": None}, TYPE, "query"),
    ("search", {"query": "x", "limit": 0}, VALUE, "limit"),
    ("search", {"query": "x", "order": "oldest"}, VALUE, "order"),
    ("search", {"query": "x", "archived": "no"}, TYPE, "archived"),
    ("totals", {"ref": 5}, TYPE, "ref"),
    ("show_reasoning", {"shown": 1}, TYPE, "shown"),
    ("load", {"runtime": "key"}, TYPE, "runtime"),
    ("load", {"runtime": {1: "key"}}, VALUE, "runtime"),
    ("messages", {"view": "context", "limit": 5}, VALUE, "limit"),
    ("messages", {"view": "context", "cursor": "x"}, VALUE, "cursor"),
    (
        "save",
        {"state": SessionState(id=ID, settings=NewSession(metadata={"a": float("inf")}))},
        VALUE,
        "metadata",
    ),
]


@pytest.mark.parametrize(
    "call",
    CALLS,
    ids=[f"{method}-{argument}-{number}" for number, (method, *_, argument) in enumerate(CALLS)],
)
def test_what_a_method_cannot_mean_is_refused_by_the_name_of_the_argument(
    open_agent: OpenAgent, look: Looker, call: tuple[str, dict[str, Any], type[Any], str]
) -> None:
    """It is typed, inherits what Python would raise, and nothing was done."""
    method, given, error, argument = call
    agent = open_agent([said("x")])
    agent.run("hello")
    before = look.database().read_bytes()
    if method == "save":
        given = {"duration": timedelta()} | given
    with pytest.raises(error) as caught:
        getattr(agent.sessions, method)(**given)
    assert issubclass(error, ValueError if error is VALUE else TypeError)
    facts = vars(caught.value)
    assert facts["argument"] == argument
    assert facts["hint"]
    assert look.database().read_bytes() == before
    assert len(agent.sessions.list(limit=None).items) == 1
    copy = pickle.loads(pickle.dumps(caught.value))  # noqa: S301 - our own bytes
    assert (type(copy), vars(copy), str(copy)) == (error, facts, str(caught.value))


def test_positions_are_checked_like_names(open_agent: OpenAgent) -> None:
    """And what is right passes, None where it is declared."""
    agent = open_agent([said("x")])
    agent.run("hello")
    for name, given in (("list", 1.5), ("get", 5)):
        with pytest.raises(ArgumentTypeInvalid):
            getattr(agent.sessions, name)(given)
    assert len(agent.sessions.list(None, None).items) == 1
    assert len(agent.sessions.messages(None, limit=2**70).items) == 2


async def _later(exchanges: Any) -> Any:
    return exchanges


OPTION_CASES: list[tuple[str, Any, type[SessionsError]]] = [
    ("provider", 5, TYPE),
    ("provider", object(), TYPE),
    ("model", 5, TYPE),
    ("base_url", b"http://127.0.0.1", TYPE),
    ("api_key", 5, TYPE),
    ("system_prompt", 5, TYPE),
    ("parameters", [("a", 1)], TYPE),
    ("parameters", {"a": float("nan")}, VALUE),
    ("select", 5, TYPE),
    ("select", _later, TYPE),
    ("tools", "ab", TYPE),
    ("tools", 5, TYPE),
    ("accept_endpoint", "no", TYPE),
    ("state_home", 5, TYPE),
    ("workspace", 5, TYPE),
    ("clock", 5, TYPE),
    ("new_id", "x", TYPE),
    ("progress", 5, TYPE),
]


@pytest.mark.parametrize(("name", "value", "error"), OPTION_CASES, ids=lambda one: str(one)[:16])
def test_an_option_of_another_type_is_refused_before_anything_is_opened(
    open_agent: OpenAgent, look: Looker, name: str, value: object, error: type[SessionsError]
) -> None:
    """A text where consent is asked would otherwise count as consent."""
    with pytest.raises(error) as caught:
        open_agent([], **{name: value})
    assert vars(caught.value)["argument"] == name
    assert not look.state_home.exists()


def test_retry_is_checked_in_both_faces(open_agent: OpenAgent) -> None:
    """A text that would count as consent to run a tool twice is none."""
    agent = open_agent([said("x")])
    run_id = agent.run("x").run_id
    for argument, given in (
        ("run_id", {"run_id": 5}),
        ("allow_unsafe", {"run_id": run_id, "allow_unsafe": "no"}),
        ("note", {"run_id": run_id, "note": 5}),
    ):
        with pytest.raises(ArgumentTypeInvalid) as caught:
            agent.retry(**given)
        assert caught.value.argument == argument


def test_a_providers_class_in_its_place_is_named(open_agent: OpenAgent) -> None:
    """The usual slip: the parentheses are missing."""

    class Mine:
        name = "mine"
        endpoint = None

        def reply(self, _: object) -> None: ...

    with pytest.raises(ArgumentTypeInvalid, match="the class Mine"):
        open_agent(provider=Mine)


def test_no_refusal_repeats_the_value(open_agent: OpenAgent) -> None:
    """It may be a secret in the wrong place."""
    agent = open_agent([])
    for given in ({"view": SECRET}, {"limit": SECRET}, {"ref": [SECRET]}):
        with pytest.raises((ArgumentInvalid, ArgumentTypeInvalid)) as caught:
            agent.sessions.messages(**given)
        assert SECRET not in f"{caught.value} {caught.value.hint} {vars(caught.value)}"


def test_every_public_parameter_and_option_has_a_rule() -> None:
    """A new one is checked, or its absence here is decided: give it a rule in `arguments`."""
    missing = set()
    for kind in (Agent, AsyncAgent, Sessions, AsyncSessions):
        for name, method in inspect.getmembers(kind, inspect.isfunction):
            if not name.startswith("_"):
                missing |= set(inspect.signature(method).parameters) - set(PARAMETERS)
    assert missing <= RULED_ELSEWHERE
    assert set(OPTIONS) == {*AgentOptions.__annotations__, "workspace"}
    for face in (Agent, AsyncAgent):
        assert set(inspect.signature(face).parameters) == {"workspace", "options"}
