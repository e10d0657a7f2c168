"""What may be said of an exception: where it passed and of what type it was.

Owns the reduction of an exception to facts. Invariant: no message, argument, note, local
variable, source line or path leaves this module; a frame is (module, function, line), and frames
of other people's packages are only counted. The result is bounded, so that a line stays under
4 KB however deep the stack or the chain of causes was.

Source: with a formatting logger a key inside an exception's message came out in the log even
with every diagnostic switched off; so exceptions are never handed to one.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, NewType

from run_journal.names import INVALID_NAME, Name

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator
    from types import TracebackType

MAX_STACK_ENTRIES = 16
MAX_TYPE_NAMES = 8

# Names only: nothing of these packages is imported here.
OWN_PACKAGES = ("run_journal", "sessions_api", "state_store", "workspace_identity")

CodeName = NewType("CodeName", str)

_CODE_NAME = re.compile(
    r"[A-Za-z0-9_.]{1,64}|<(?:module|lambda|listcomp|dictcomp|setcomp|genexpr)>"
)
_MAX_LINE = 2**31 - 1

# As they stand in a line: [module, function, line], and a number of frames that are not told.
_CODE_NAME_SCHEMA = {"type": "string", "pattern": f"^(?:{_CODE_NAME.pattern}|{INVALID_NAME})$"}
COLLAPSED_FRAMES_SCHEMA = {"type": "integer", "minimum": 0, "maximum": _MAX_LINE}
FRAME_SCHEMA = {
    "type": "array",
    "minItems": 3,
    "maxItems": 3,
    "prefixItems": [_CODE_NAME_SCHEMA, _CODE_NAME_SCHEMA, COLLAPSED_FRAMES_SCHEMA],
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Frame:
    """One place in this project's own code. What is no code name becomes `<invalid>`."""

    module: CodeName
    function: CodeName
    line: int

    def __post_init__(self) -> None:
        """Keep only what can be a name in source code."""
        for field in ("module", "function"):
            value = getattr(self, field)
            if not (isinstance(value, str) and _CODE_NAME.fullmatch(value)):
                object.__setattr__(self, field, INVALID_NAME)
        if type(self.line) is not int or not 0 <= self.line <= _MAX_LINE:
            object.__setattr__(self, "line", 0)


@dataclass(frozen=True, slots=True, kw_only=True)
class CollapsedFrames:
    """So many neighbouring frames that are not told apart: other people's, or too many."""

    count: int

    def __post_init__(self) -> None:
        """Keep the count a small integer."""
        if type(self.count) is not int or not 0 <= self.count <= _MAX_LINE:
            object.__setattr__(self, "count", 0)


Stack = tuple[Frame | CollapsedFrames, ...]


def stack_of(exception: BaseException, own_packages: Collection[str] = OWN_PACKAGES) -> Stack:
    """Return where *exception* passed, outermost first, at most 16 entries.

    Frames whose module lies in one of *own_packages* are named; each row of others becomes one
    `CollapsedFrames`. Of a longer stack the innermost entries are kept. Reads no source file.
    """
    entries: list[Frame | CollapsedFrames] = []
    foreign_count = 0
    for module, function, line in _places(exception.__traceback__):
        if module.partition(".")[0] not in own_packages:
            foreign_count += 1
            continue
        if foreign_count:
            entries.append(CollapsedFrames(count=foreign_count))
            foreign_count = 0
        entries.append(Frame(module=CodeName(module), function=CodeName(function), line=line))
    if foreign_count:
        entries.append(CollapsedFrames(count=foreign_count))
    return _innermost(entries)


def type_names_of(exception: BaseException) -> tuple[Name, ...]:
    """Return the types of *exception*, its causes and the members of groups, at most 8.

    The exception's own type comes first. A context that tracebacks suppress is followed too: it is
    suppressed for its text, and none is taken. A type outside builtins has its module before its
    name; a name that is no code name becomes `<invalid>`.
    """
    names: list[Name] = []
    seen: set[int] = set()
    waiting: list[BaseException | None] = [exception]
    while waiting and len(names) < MAX_TYPE_NAMES:
        current = waiting.pop(0)
        if current is None or id(current) in seen:
            continue
        seen.add(id(current))
        names.append(_type_name(type(current)))
        if isinstance(current, BaseExceptionGroup):
            waiting.extend(current.exceptions)
        # Not by truth: an exception may have a length, and one without members would hide the rest.
        waiting.append(current.__context__ if current.__cause__ is None else current.__cause__)
    return tuple(names)


def _places(traceback: TracebackType | None) -> Iterator[tuple[str, str, int]]:
    while traceback is not None:
        frame = traceback.tb_frame
        module = frame.f_globals.get("__name__")
        yield (
            module if isinstance(module, str) else "",
            frame.f_code.co_name,
            traceback.tb_lineno or 0,
        )
        traceback = traceback.tb_next


def _innermost(entries: list[Frame | CollapsedFrames]) -> Stack:
    surplus = len(entries) - MAX_STACK_ENTRIES
    if surplus <= 0:
        return tuple(entries)
    dropped, kept = entries[: surplus + 1], entries[surplus + 1 :]
    count = sum(entry.count if isinstance(entry, CollapsedFrames) else 1 for entry in dropped)
    return (CollapsedFrames(count=count), *kept)


def _type_name(cls: type[BaseException]) -> Name:
    module = cls.__module__
    name = cls.__name__ if module == "builtins" else f"{module}.{cls.__name__}"
    return Name(name) if _CODE_NAME.fullmatch(name) else INVALID_NAME
