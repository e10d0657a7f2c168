"""Functions as tools: what the model is told about them, and how their answers become text.

Owns the `tool` decorator, the schema from type hints and the one rule by which a return value
becomes the text of a result: a string as it is, anything else as strict JSON in pydantic's JSON
mode (NaN and Infinity as strings). What that cannot express is a tool error which the model sees.

Must not: run anything; drivers do. pydantic is imported when the first schema is needed.
"""

from __future__ import annotations

import inspect
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, overload

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
        """Whether the function is a coroutine function."""
        return inspect.iscoroutinefunction(self.function)

    @cached_property
    def _model(self) -> Any:
        from pydantic import ConfigDict, create_model  # noqa: PLC0415 - heavy, and rarely needed

        # Fields have names of their own: "json", "copy" or "_x" are good parameters and bad fields.
        fields: dict[str, Any] = {}
        names: dict[str, str] = {}
        hints = inspect.get_annotations(self.function, eval_str=True)
        for name, parameter in inspect.signature(self.function).parameters.items():
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
            default = ... if parameter.default is parameter.empty else parameter.default
            field = f"argument_{len(names)}"
            names[field] = name
            fields[field] = (hints.get(name, Any), default)
        config = ConfigDict(extra="forbid", alias_generator=names.__getitem__)
        return create_model(self.name, __config__=config, **fields)

    @cached_property
    def spec(self) -> ToolSpec:
        """The tool as a provider is told about it."""
        if self.given_spec is not None:
            return self.given_spec
        from pydantic.errors import PydanticUserError  # noqa: PLC0415 - heavy, and rarely needed

        try:
            schema: dict[str, Any] = self._model.model_json_schema()
        except (PydanticUserError, NameError, AttributeError) as error:
            raise ToolDefinitionInvalid(
                f"The type hints of the tool {self.name} cannot be described to a model"
                f" ({type(error).__name__}).",
                hint="Use types that JSON can carry, and names that the function's module knows.",
            ) from error
        schema.pop("title", None)
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
        fields = type(parsed).model_fields
        return {field.alias: getattr(parsed, name) for name, field in fields.items()}


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

    The schema comes from the type hints, the description from the docstring. Without options a
    tool counts as "unsafe": after a crash it is not run again unless the caller says so.
    """

    def wrap(function: Callable[..., Any]) -> Tool:
        chosen = name or str(getattr(function, "__name__", ""))
        if not chosen.isidentifier() or len(chosen) > NAME_LIMIT:
            raise ToolDefinitionInvalid(
                f"{chosen!r} cannot be a tool's name.",
                hint=f"Use letters, digits and underscores, at most {NAME_LIMIT}.",
            )
        return Tool(
            function=function,
            name=chosen,
            description=inspect.getdoc(function) or "",
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


def result_text(value: Any) -> str:
    """Return what a tool returned as the text of its result; raises what pydantic raises."""
    if isinstance(value, str):
        return value
    from pydantic_core import to_json  # noqa: PLC0415 - heavy, and rarely needed

    return to_json(value, inf_nan_mode="strings").decode()
