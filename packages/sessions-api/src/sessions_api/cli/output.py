"""Standard output and standard error, each for what belongs there.

Owns every write of a command. Invariants: data goes to standard output and nothing else does;
JSON is one object a command, nothing in it is shortened, and it carries `schema_version`; what
cannot be said on standard error is not worth failing for.
"""

from __future__ import annotations

import os
import shutil
import sys
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from sessions_api.cli.failures import OutputFailed
from sessions_api.cli.progress import ProgressLine
from sessions_api.showing.terminal_text import Ink, prints_on_terminal, safe

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

SCHEMA_VERSION = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Output:
    """Where a command writes. `json` chooses the form of its data, `color` allows colours."""

    json: bool = False
    color: bool = True

    @property
    def ink(self) -> Ink:
        """Colours for standard output, if it is a terminal and they are wanted."""
        return self._ink_for(sys.stdout)

    @property
    def aside_ink(self) -> Ink:
        """The same for standard error."""
        return self._ink_for(sys.stderr)

    @property
    def columns_wide(self) -> int | None:
        """How wide a table may be; None where nobody looks at it."""
        return shutil.get_terminal_size().columns if prints_on_terminal(sys.stdout) else None

    def progress(self) -> ProgressLine:
        """Return what long work tells how far it is; nobody looks at it beside JSON in a pipe."""
        piped = self.json and not prints_on_terminal(sys.stdout)
        return ProgressLine(shown=prints_on_terminal(sys.stderr) and not piped)

    def lines(self, lines: Iterable[str]) -> None:
        """Write lines of data, which are safe for a terminal."""
        for line in lines:
            self._write(f"{line}\n")

    def text(self, text: str) -> None:
        """Write text that others wrote, safe for a terminal and exact in a pipe."""
        shown = safe(text) if prints_on_terminal(sys.stdout) else text
        self._write(shown if shown.endswith("\n") else f"{shown}\n")

    def record(self, fields: Mapping[str, Any]) -> None:
        """Write one JSON object."""
        self.chunks([json_text({"schema_version": SCHEMA_VERSION, **fields}).encode(), b"\n"])

    def chunks(self, chunks: Iterable[bytes]) -> None:
        """Write bytes as they are."""
        stream = self._stream()
        for chunk in chunks:
            try:
                stream.buffer.write(chunk)
            except BrokenPipeError:
                raise
            except OSError as error:
                raise _failed(error) from error

    def flush(self) -> None:
        """Hand everything to the system, so that a failure is found while it can be told."""
        if sys.stdout is None:
            return
        try:
            sys.stdout.flush()
        except BrokenPipeError:
            raise
        except OSError as error:
            raise _failed(error) from error

    def note(self, line: str) -> None:
        """Write one line that is not data."""
        with suppress(OSError, ValueError):
            if sys.stderr is not None:
                sys.stderr.write(f"{line}\n")
                sys.stderr.flush()

    def _write(self, text: str) -> None:
        self.chunks([text.encode("utf-8", "backslashreplace")])

    def _stream(self) -> Any:
        if sys.stdout is None:
            raise OutputFailed(
                "Standard output is closed.", hint="Send it to a file, a pipe or a terminal."
            )
        return sys.stdout

    def _ink_for(self, stream: object) -> Ink:
        wanted = self.color and not os.environ.get("NO_COLOR") and prints_on_terminal(stream)
        return Ink(color=wanted)


def json_text(value: Any) -> str:
    """Return *value* as strict JSON on one line; lone surrogates as escapes."""
    import json  # noqa: PLC0415 - for JSON output alone

    text = json.dumps(value, ensure_ascii=False, allow_nan=False)
    return text.encode("utf-8", "backslashreplace").decode("utf-8")


def _failed(error: OSError) -> OutputFailed:
    return OutputFailed(
        f"Standard output cannot be written: {error.strerror or type(error).__name__}.",
        hint="Free space, or send it somewhere else.",
    )
