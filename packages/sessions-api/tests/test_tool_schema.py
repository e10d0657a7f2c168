from __future__ import annotations

import json
from dataclasses import dataclass
from functools import partial, wraps
from typing import TYPE_CHECKING, Annotated, Any, Literal

import pytest
from pydantic import BaseModel, Field

from sessions_api import Tool, ToolDefinitionInvalid, tool
from sessions_api.runs.tools import ToolArgumentsInvalid

if TYPE_CHECKING:
    from collections.abc import Callable


class Place(BaseModel):
    """A nested type."""

    city: str


def weather(
    place: Place,
    days: Annotated[int, Field(ge=1, description="how many")] = 3,
    unit: Literal["C", "F"] = "C",
) -> str:
    """Say how the weather will be."""
    return f"{place.city} {days} {unit}"


def test_the_schema_comes_from_the_type_hints() -> None:
    """The model is told names, types, limits, defaults and the docstring."""
    spec = tool(weather).spec
    assert (spec.name, spec.description) == ("weather", "Say how the weather will be.")
    parameters: Any = spec.parameters
    assert parameters["type"] == "object"
    assert parameters["required"] == ["place"]
    assert parameters["additionalProperties"] is False
    assert list(parameters["properties"]) == ["place", "days", "unit"]
    assert parameters["properties"]["days"]["minimum"] == 1
    assert parameters["properties"]["days"]["default"] == 3
    assert parameters["properties"]["days"]["description"] == "how many"
    assert parameters["properties"]["unit"]["enum"] == ["C", "F"]
    assert "argument_" not in json.dumps(parameters)


def test_arguments_become_what_the_hints_say() -> None:
    """Nested values are validated and built, defaults filled in."""
    made = tool(weather)
    parsed = made.parse('{"place":{"city":"Łódź"}}')
    assert made(**parsed) == "Łódź 3 C"
    with pytest.raises(ToolArgumentsInvalid, match="days"):
        made.parse('{"place":{"city":"x"},"days":0}')


def test_a_tool_is_still_the_function() -> None:
    """It can be called and tested as before."""
    made = tool(name="renamed", replay="safe", timeout_s=1.5)(weather)
    assert isinstance(made, Tool)
    assert (made.name, made.replay, made.timeout_s) == ("renamed", "safe", 1.5)
    assert made(Place(city="x")) == "x 3 C"
    assert tool(weather).replay == "unsafe"


@pytest.mark.parametrize("name", ["json", "copy", "schema", "model_config", "_hidden", "self_"])
def test_any_good_parameter_name_is_a_good_one(name: str) -> None:
    """Names that the validation library uses itself are no exception."""
    namespace: dict[str, Any] = {}
    exec(f"def f({name}: int = 1): return {name}", namespace)  # noqa: S102 - the names are above
    made = tool(namespace["f"])
    assert list(made.spec.parameters["properties"]) == [name]
    assert made(**made.parse(f'{{"{name}": 5}}')) == 5
    assert made(**made.parse("{}")) == 1


@dataclass
class Window:
    """A nested type of the standard library."""

    width: int
    open: bool = False


def test_a_dataclass_keeps_the_names_of_its_fields() -> None:
    """Alone and in a list it is described, checked and built."""

    def look(window: Window, others: tuple[Window, ...] = ()) -> str:
        return f"{window} {others}"

    made = tool(look)
    assert set(made.spec.parameters["$defs"]["Window"]["properties"]) == {"width", "open"}
    parsed = made.parse('{"window": {"width": 3}, "others": [{"width": 4}]}')
    assert parsed == {"window": Window(3), "others": (Window(4),)}
    with pytest.raises(ToolArgumentsInvalid, match=r"window\.width"):
        made.parse('{"window": {"width": "wide"}}')


def test_what_a_partial_binds_is_not_told_and_not_for_the_model_to_say() -> None:
    """It may be a key; the rest has its hints and the docstring of the function."""

    def fetch(page: int, key: str, *, unit: str = "m") -> str:
        """Fetch a page."""
        return f"{page} {key} {unit}"

    made = tool(name="fetch")(partial(fetch, key="SECRET"))
    assert made.spec.description == "Fetch a page."
    assert "SECRET" not in str(made.spec)
    assert set(made.spec.parameters["properties"]) == {"page", "unit"}
    assert made(**made.parse('{"page": 2}')) == "2 SECRET m"
    for odd in ('{"page": 2, "key": "mine"}', '{"page": "two"}'):
        with pytest.raises(ToolArgumentsInvalid):
            made.parse(odd)


class Counter:
    """Count."""

    def __call__(self, n: int) -> int:
        """Return it."""
        return n

    def method(self, n: int) -> int:
        """Return it."""
        return n


def passed_on(function: Callable[..., Any]) -> Callable[..., Any]:
    """Decorate as one does."""

    @wraps(function)
    def inner(*args: Any, **kwargs: Any) -> Any:
        return function(*args, **kwargs)

    return inner


@pytest.mark.parametrize(
    "function",
    [Counter(), Counter().method, passed_on(Counter().method), partial(Counter().method)],
    ids=["object", "method", "decorated", "partial"],
)
def test_hints_are_found_wherever_the_signature_is(function: Callable[..., Any]) -> None:
    """Whatever can be called with a name keeps the types of what it takes."""
    made = tool(name="count")(function)
    assert made.spec.parameters["properties"]["n"]["type"] == "integer"
    assert made(**made.parse('{"n": 3}')) == 3
    with pytest.raises(ToolArgumentsInvalid):
        made.parse('{"n": "many"}')


def test_a_default_may_be_a_field_with_all_that_it_says() -> None:
    """As people write it who know the validation library."""

    def page(number: int = Field(default=1, ge=1, alias="page"), size: int = Field(ge=2)) -> str:
        return f"{number} {size}"

    made = tool(page)
    properties = made.spec.parameters["properties"]
    assert list(properties) == ["page", "size"]
    assert (properties["page"]["minimum"], properties["page"]["default"]) == (1, 1)
    assert made.spec.parameters["required"] == ["size"]
    assert made(**made.parse('{"size": 3}')) == "1 3"
    assert made(**made.parse('{"size": 3, "page": 2}')) == "2 3"


def test_a_default_that_json_cannot_carry_is_kept_from_the_model() -> None:
    """Without a warning that nobody could do anything about."""
    absent: Any = object()

    def find(name: str = absent) -> bool:
        return name is absent

    made = tool(find)
    assert "default" not in made.spec.parameters["properties"]["name"]
    assert made(**made.parse("{}")) is True


def positional(x: int, /) -> int:
    """Take by position."""
    return x


def any_position(*x: int) -> int:
    """Take any number."""
    return len(x)


def any_keyword(**x: int) -> int:
    """Take any keyword."""
    return len(x)


def not_json(x: Callable[[], int]) -> int:
    """Take what JSON cannot carry."""
    return x()


def odd_hint(x: object = None, y: NotThere = None) -> None:  # type: ignore[name-defined]  # noqa: F821 - the point
    """Have a hint that nobody can resolve."""


@pytest.mark.parametrize(
    "function", [positional, any_position, any_keyword, not_json, odd_hint, dict]
)
def test_what_cannot_be_described_is_refused_by_name(function: Callable[..., Any]) -> None:
    """When the agent is made, not in the middle of a run."""
    with pytest.raises(ToolDefinitionInvalid, match=function.__name__) as caught:
        _ = tool(function).spec
    assert caught.value.hint
    assert issubclass(ToolDefinitionInvalid, TypeError)


def test_a_description_that_no_request_can_carry_is_refused() -> None:
    """Half a surrogate pair in a docstring or a default would fail every run."""

    def find(name: str = "\udc80") -> str:
        return name

    def look(name: str) -> str:
        return name

    look.__doc__ = "Look at \ud83d."
    for function in (find, look):
        with pytest.raises(ToolDefinitionInvalid, match="Unicode"):
            _ = tool(function).spec


@pytest.mark.parametrize("name", ["with space", "x" * 65, "a-b", "größe"])
def test_a_name_that_services_refuse_is_refused_here(name: str) -> None:
    """Before it costs a request."""
    with pytest.raises(ToolDefinitionInvalid):
        tool(name=name)(weather)
    with pytest.raises(ToolDefinitionInvalid):
        tool(lambda: None)
