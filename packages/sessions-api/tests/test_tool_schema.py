from __future__ import annotations

import json
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


@pytest.mark.parametrize("function", [positional, any_position, any_keyword, not_json, odd_hint])
def test_what_cannot_be_described_is_refused_by_name(function: Callable[..., Any]) -> None:
    """When the agent is made, not in the middle of a run."""
    with pytest.raises(ToolDefinitionInvalid, match=function.__name__) as caught:
        _ = tool(function).spec
    assert caught.value.hint
    assert issubclass(ToolDefinitionInvalid, TypeError)


@pytest.mark.parametrize("name", ["with space", "x" * 65, "a-b"])
def test_a_name_that_services_refuse_is_refused_here(name: str) -> None:
    """Before it costs a request."""
    with pytest.raises(ToolDefinitionInvalid):
        tool(name=name)(weather)
    with pytest.raises(ToolDefinitionInvalid):
        tool(lambda: None)
