"""Functions as tools: what the model is told about them, and what it may call them with.

Owns the `tool` decorator, the schema from type hints and the check of a model's arguments against
it. Invariant: a tool that cannot be described is refused when its agent is made, by name; what a
partial binds is its owner's, and no model is told of it or may change it.

Must not: run anything; `working` does. pydantic is imported when the first schema is needed.
"""

from __future__ import annotations

import inspect
import json
from dataclasses import dataclass
from functools import cached_property, partial
from operator import getitem
from typing import TYPE_CHECKING, Annotated, Any, overload

from sessions_api.errors import ToolDefinitionInvalid
from sessions_api.providers.base import ToolSpec

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from state_store import ReplayPolicy

NAME_LIMIT = 64


class ToolArgumentsInvalid(Exception):
    """The model's arguments do not fit the tool; the message is for the model."""


@dataclass(frozen=True, kw_only=True)
class Tool:
    """A function that a model may call; still callable as the function it was.

    `replay` says whether running it again is harmless ("safe") or not ("unsafe"). After
    `timeout_s` seconds the model is told that it timed out; None waits for ever.
    """

    function: Callable[..., Any]
    name: str
    description: str
    replay: ReplayPolicy
    timeout_s: float | None
    given_spec: ToolSpec | None = None

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Call the function itself."""
        return self.function(*args, **kwargs)

    @property
    def is_async(self) -> bool:
        """Whether the function, or the call of the object, is a coroutine function."""
        call = getattr(self.function, "__call__", None)  # noqa: B004 - its kind is asked, too
        return any(map(inspect.iscoroutinefunction, (self.function, call)))

    @cached_property
    def _model(self) -> Any:
        from pydantic import ConfigDict, Field, create_model  # noqa: PLC0415 - heavy, rarely needed

        # Fields have names of their own: "json", "copy" or "_x" are good parameters and bad fields.
        # Each is given its name by itself: types inside would take a generator of aliases over.
        fields: dict[str, Any] = {}
        for field, parameter in self._offered.items():
            name = parameter.name
            hint = Any if parameter.annotation is parameter.empty else parameter.annotation
            default = ... if parameter.default is parameter.empty else parameter.default
            own_name = Field(alias=name)
            named = getitem(Annotated, (hint, own_name))  # the default may be a `Field` as well
            fields[field] = (named, default)
        return create_model(self.name, __config__=ConfigDict(extra="forbid"), **fields)

    @cached_property
    def _offered(self) -> Mapping[str, inspect.Parameter]:
        """What a model may say, by field; ToolDefinitionInvalid for what it could not."""
        try:
            signature = inspect.signature(self.function, eval_str=True)
        except (ValueError, TypeError) as error:  # of some built-in functions nobody knows it
            raise ToolDefinitionInvalid(
                f"What the tool {self.name} takes cannot be found out.",
                hint="Wrap it in a function that names what it takes.",
            ) from error
        bound = self.function.keywords if isinstance(self.function, partial) else {}
        for name, parameter in signature.parameters.items():
            if parameter.kind in {parameter.POSITIONAL_ONLY, parameter.VAR_POSITIONAL}:
                raise ToolDefinitionInvalid(
                    f"The tool {self.name} takes {name!r} by position, which a model cannot do.",
                    hint="Make every parameter one that can be passed by name.",
                )
            if parameter.kind is parameter.VAR_KEYWORD:
                raise ToolDefinitionInvalid(
                    f"The tool {self.name} takes any keyword (**{name}), so it has no schema.",
                    hint="Name the parameters that it takes.",
                )
        offered = [one for name, one in signature.parameters.items() if name not in bound]
        return {f"argument_{number}": one for number, one in enumerate(offered)}

    @cached_property
    def spec(self) -> ToolSpec:
        """The tool as a provider is told about it."""
        if self.given_spec is not None:
            return self.given_spec
        from pydantic.errors import PydanticUserError  # noqa: PLC0415 - heavy, and rarely needed

        try:
            schema: dict[str, Any] = self._model.model_json_schema(
                schema_generator=_schema_generator()
            )
        except (PydanticUserError, NameError, AttributeError) as error:
            raise ToolDefinitionInvalid(
                f"The type hints of the tool {self.name} cannot be described to a model"
                f" ({type(error).__name__}).",
                hint="Use types that JSON can carry, and names that the function's module knows.",
            ) from error
        schema.pop("title", None)
        try:
            json.dumps([self.description, schema], ensure_ascii=False).encode()
        except UnicodeEncodeError:
            raise ToolDefinitionInvalid(
                f"The description of the tool {self.name} is not valid Unicode.",
                hint="Look for half a surrogate pair in its docstring, defaults and hints.",
            ) from None
        return ToolSpec(name=self.name, description=self.description, parameters=schema)

    def parse(self, arguments: str) -> dict[str, Any]:
        """Return keyword arguments from the model's JSON text, or raise ToolArgumentsInvalid."""
        from pydantic import ValidationError  # noqa: PLC0415 - heavy, and rarely needed

        try:
            parsed = self._model.model_validate_json(arguments or "{}")
        except ValidationError as error:
            found = "; ".join(
                f"{'.'.join(map(str, one['loc'])) or 'arguments'}: {one['msg']}"
                for one in error.errors(include_url=False, include_input=False)
            )
            raise ToolArgumentsInvalid(f"invalid arguments for {self.name}: {found}") from None
        return {one.name: getattr(parsed, field) for field, one in self._offered.items()}


@overload
def tool(function: Callable[..., Any], /) -> Tool: ...


@overload
def tool(
    *, name: str | None = None, replay: ReplayPolicy = "unsafe", timeout_s: float | None = None
) -> Callable[[Callable[..., Any]], Tool]: ...


def tool(
    function: Callable[..., Any] | None = None,
    /,
    *,
    name: str | None = None,
    replay: ReplayPolicy = "unsafe",
    timeout_s: float | None = None,
) -> Tool | Callable[[Callable[..., Any]], Tool]:
    """Offer a function, sync or async, to the model; use it bare or with options.

    The schema comes from the type hints, the description from the docstring; what a
    `functools.partial` binds is not in it. Without options a tool counts as "unsafe": after a crash
    it is not run again unless the caller says so. A name that services refuse raises
    `ToolDefinitionInvalid` here; parameters that cannot be described do when an agent is made.
    """

    def wrap(function: Callable[..., Any]) -> Tool:
        chosen = name or str(getattr(function, "__name__", ""))
        if not (chosen.isascii() and chosen.isidentifier() and len(chosen) <= NAME_LIMIT):
            raise ToolDefinitionInvalid(
                f"{chosen!r} cannot be a tool's name.",
                hint="Name it with tool(name=…): letters from A to Z, digits and underscores,"
                f" at most {NAME_LIMIT}.",
            )
        return Tool(
            function=function,
            name=chosen,
            description=inspect.getdoc(_inside(function)) or "",
            replay=replay,
            timeout_s=timeout_s,
        )

    return wrap if function is None else wrap(function)


def toolbox(tools: Iterable[Tool | Callable[..., Any]]) -> Mapping[str, Tool]:
    """Return *tools* by name; plain functions become tools. Two of one name are refused."""
    box: dict[str, Tool] = {}
    for one in tools:
        made = one if isinstance(one, Tool) else tool(one)
        if made.name in box:
            raise ToolDefinitionInvalid(
                f"Two tools are named {made.name}.", hint="Give one of them another name."
            )
        box[made.name] = made
    return box


def _inside(function: Callable[..., Any]) -> Callable[..., Any]:
    """Return what a partial calls, whose own docstring is that of partials."""
    while isinstance(function, partial):
        function = function.func
    return function


def _schema_generator() -> Any:
    from pydantic.json_schema import GenerateJsonSchema  # noqa: PLC0415 - heavy, and rarely needed

    class Quiet(GenerateJsonSchema):
        # A default that JSON cannot carry, such as a sentinel, is left out: nobody need be warned.
        ignored_warning_kinds = GenerateJsonSchema.ignored_warning_kinds | {
            "non-serializable-default"
        }

    return Quiet
