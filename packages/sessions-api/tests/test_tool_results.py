"""The one rule by which what a tool returns becomes text, over all that tools return (C39, C26)."""

from __future__ import annotations

import asyncio
import enum
import json
import math
import os
from collections import OrderedDict, namedtuple
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta, timezone
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING, Any
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import BaseModel, ConfigDict

from faces import calling, said
from sessions_api import tool
from sessions_api.runs.tool_output import result_text

if TYPE_CHECKING:
    from collections.abc import Iterator

    from faces import Looker

OpenAgent = Callable[..., Any]
Pair = namedtuple("Pair", "a b")  # noqa: PYI024 - the kind that people return


@dataclass
class Point:
    """A dataclass."""

    x: int
    when: datetime


class Plain(enum.Enum):
    """An enum."""

    RED = "red"


class TextEnum(enum.StrEnum):
    """An enum of texts."""

    RED = "red"


class OldTextEnum(str, enum.Enum):  # noqa: UP042 - code that is around has these
    """An enum of texts whose `str` is another."""

    RED = "red"


class Number(enum.IntEnum):
    """An enum of numbers."""

    THREE = 3


class Model(BaseModel):
    """A model with pydantic's usual settings."""

    path: Path
    price: Decimal
    share: float = math.nan


class Exact(BaseModel):
    """A model that says what becomes of NaN."""

    model_config = ConfigDict(ser_json_inf_nan="strings")
    share: float = math.nan


def numbers() -> Iterator[int]:
    """Yield two."""
    yield 1
    yield 2


INDIA = timezone(timedelta(hours=5, minutes=30))
AS_TEXT: list[tuple[object, str]] = [
    ("text as it is \u2028 \x00 \r", "text as it is \u2028 \x00 \r"),
    (TextEnum.RED, "red"),
    (OldTextEnum.RED, "red"),
    (b"abc", '"abc"'),
    (bytearray(b"abc"), '"abc"'),
    (datetime(2026, 1, 2, 3, 4, 5, 6, tzinfo=UTC), '"2026-01-02T03:04:05.000006Z"'),
    (datetime(2026, 1, 2, tzinfo=INDIA), '"2026-01-02T00:00:00+05:30"'),
    (date(2026, 1, 2), '"2026-01-02"'),
    (timedelta(days=1, seconds=1), '"P1DT1S"'),
    (Decimal("1.10"), '"1.10"'),
    (Point(x=1, when=datetime(2026, 1, 2, tzinfo=UTC)), '{"x":1,"when":"2026-01-02T00:00:00Z"}'),
    (math.nan, '"NaN"'),
    ([math.inf, -math.inf, {"a": math.nan}], '["Infinity","-Infinity",{"a":"NaN"}]'),
    ({math.nan: 1}, '{"nan":1}'),
    ({7}, "[7]"),
    (frozenset("a"), '["a"]'),
    (2**70, "1180591620717411303424"),
    (-(2**70), "-1180591620717411303424"),
    (Plain.RED, '"red"'),
    (Number.THREE, "3"),
    (Path("/a/b"), '"/a/b"'),
    (UUID(int=1), '"00000000-0000-0000-0000-000000000001"'),
    (Model(path=Path("a"), price=Decimal("1.10")), '{"path":"a","price":"1.10","share":null}'),
    (Exact(), '{"share":"NaN"}'),
    (Pair(1, (2, 3)), "[1,[2,3]]"),
    (OrderedDict(b=1, a=2), '{"b":1,"a":2}'),
    ({1: {None: True}, (1, 2): 3}, '{"1":{"None":true},"1,2":3}'),
    ("\u2028", "\u2028"),
    (["\u2028", "\x00", "é😀"], '["\u2028","\\u0000","é😀"]'),
    (numbers(), "[1,2]"),
    (None, "null"),
    ({"deep": [{"a": ({Decimal("0.10")}, b"x")}]}, '{"deep":[{"a":[["0.10"],"x"]}]}'),
]
CIRCULAR: list[object] = []
CIRCULAR.append(CIRCULAR)
NOT_TEXT: list[object] = [
    b"\xff\xfe",
    {"deep": [b"\xff\xfe"]},
    object(),
    lambda: None,
    CIRCULAR,
    ["caf\udce9", b"\xff"],
    ["caf\udce9", object()],
    ["caf\udce9", numbers()],  # which is used up when the first attempt fails
    ValueError("no"),
]


def refuse(token: str) -> None:
    """Fail on what is no JSON."""
    raise AssertionError(token)


def run_all(open_agent: OpenAgent, values: list[object], *, asynchronous: bool) -> Any:
    """Return an agent after a run in which one reply has called a tool for each value."""

    async def give_later(number: int) -> object:
        """Return one."""
        await asyncio.sleep(0)
        return values[number]

    def give(number: int) -> object:
        """Return one."""
        return values[number]

    made = tool(name="give")(give_later if asynchronous else give)
    calls = calling(*(("give", json.dumps({"number": n})) for n in range(len(values))))
    agent = open_agent([calls, said("done"), said("later")], tools=[made])
    assert agent.run("go").text == "done"
    return agent


@pytest.mark.parametrize("asynchronous", [False, True], ids=["sync-tool", "async-tool"])
def test_c39_every_value_has_one_text(
    open_agent: OpenAgent, look: Looker, *, asynchronous: bool
) -> None:
    """A text is itself, all else is strict JSON, and what is sent is what is stored."""
    values = [value for value, _ in AS_TEXT]
    values[values.index(AS_TEXT[-3][0])] = numbers()  # a generator serves once
    expected = [text for _, text in AS_TEXT]
    agent = run_all(open_agent, values, asynchronous=asynchronous)
    sent = [one.content for one in agent.provider.requests[1].messages if one.role == "tool"]
    stored = {row.tool_call_id: row.content for row in look.messages() if row.role == "tool"}
    assert sent == expected
    assert [stored[f"c{number}"] for number in range(1, len(expected) + 1)] == expected
    assert look.outcomes() == ["ok"] * len(expected)
    agent.run("again")
    replayed = agent.provider.requests[2].messages
    assert [one.content for one in replayed if one.role == "tool"] == expected
    for value, text in zip(values, expected, strict=True):
        if not isinstance(value, str):
            json.loads(text, parse_constant=refuse)


@pytest.mark.parametrize("asynchronous", [False, True], ids=["sync-tool", "async-tool"])
def test_c39_what_has_no_text_is_an_error_of_its_call_alone(
    open_agent: OpenAgent, look: Looker, *, asynchronous: bool
) -> None:
    """The model reads of it, its neighbours' results stay, and the turn is committed whole."""
    values = [*NOT_TEXT, "fine"]
    values[values.index(NOT_TEXT[-2])] = ["caf\udce9", numbers()]
    agent = run_all(open_agent, values, asynchronous=asynchronous)
    sent = [one.content for one in agent.provider.requests[1].messages if one.role == "tool"]
    assert all(text.startswith("Error: Pydantic") for text in sent[:-1])
    assert sent[-1] == "fine"
    assert look.outcomes() == [*["error"] * len(NOT_TEXT), "ok"]
    assert look.endings() == [("completed", None)]
    roles = [role for role, _ in look.texts()]
    assert roles == ["user", "assistant", *["tool"] * len(values), "assistant"]


BROKEN: list[tuple[object, str]] = [
    ("caf\udce9", "caf\ufffd"),
    (["caf\udce9.txt", 1.5], '["caf\ufffd.txt",1.5]'),
    ({"k\udc97": [math.nan, {(1, 2): None}]}, '{"k\ufffd":["NaN",{"1,2":null}]}'),
    (Path(os.fsdecode(b"caf\xe9")), '"caf\ufffd"'),
    ({"a": Exact(share=0.5), "b": "\udce9"}, '{"a":{"share":0.5},"b":"\ufffd"}'),
    ({"\ud83d\ude00": Plain.RED}, '{"😀":"red"}'),
]


def test_c26_lone_surrogates_in_any_value_are_repaired_and_marked(
    open_agent: OpenAgent, look: Looker
) -> None:
    """Names of files have them: a list of such names is an answer like any other."""
    values = [value for value, _ in BROKEN]
    agent = run_all(open_agent, values, asynchronous=False)
    rows = sorted((row for row in look.messages() if row.role == "tool"), key=lambda row: row.seq)
    stored = {row.tool_call_id: row for row in rows}
    sent = [one.content for one in agent.provider.requests[1].messages if one.role == "tool"]
    for number, (value, text) in enumerate(BROKEN):
        row = stored[f"c{number + 1}"]
        assert row.content == sent[number] == text
        assert row.repaired, value
    b"".join(agent.sessions.export()).decode()
    assert look.outcomes() == ["ok"] * len(BROKEN)


plain_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text() | st.decimals(allow_nan=False),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner) | st.tuples(inner),
)


@given(value=plain_values.filter(lambda value: not isinstance(value, str)))
def test_the_way_for_broken_text_gives_what_pydantic_gives(value: object) -> None:
    """A lone surrogate beside it changes nothing about the rest."""
    text = result_text([value, "\ud800"])
    assert text == f'[{result_text(value)},"\ud800"]'
    json.loads(text, parse_constant=refuse)


class Unspeakable(Exception):
    """An exception that cannot say what it is."""

    def __str__(self) -> str:
        raise ZeroDivisionError


def test_an_exception_without_words_is_told_by_its_name(
    open_agent: OpenAgent, look: Looker
) -> None:
    """A tool's exception may fail even when it is asked what it is."""

    def fail() -> None:
        """Fail."""
        raise Unspeakable

    agent = open_agent([calling(("fail", "{}")), said("done")], tools=[fail])
    assert agent.run("go").text == "done"
    assert look.texts()[2] == ("tool", "Error: Unspeakable")


def test_what_hides_that_it_is_asynchronous_is_told_how_to_say_it(
    open_agent: OpenAgent, look: Looker
) -> None:
    """A wrapper that forgets `async` leaves no coroutine behind; an object's own call is seen."""

    async def work() -> str:
        return "never"

    class Worker:
        async def __call__(self) -> str:
            """Work."""
            await asyncio.sleep(0)
            return "worked"

    def wrapped() -> object:
        """Hand on what another function returns."""
        return work()

    tools = [wrapped, tool(name="worker")(Worker())]
    agent = open_agent([calling(("wrapped", "{}"), ("worker", "{}")), said("done")], tools=tools)
    agent.run("go")
    results = {content for role, content in look.texts() if role == "tool"}
    assert results == {
        "Error: TypeError: it returned a coroutine; declare the tool with `async def`",
        "worked",
    }
