"""Where one invented secret is let in, and everything that comes out of there.

Owns a directory with a workspace, a state home, a file for what was written to standard error and
one for what was printed. Invariant: `outputs` holds all that is told of a run beside the
conversation itself, so a secret that it does not hold did not come out.
"""

from __future__ import annotations

import contextlib
import traceback
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import apsw

from run_journal import Entry, read
from sessions_api import Agent
from sessions_api.cli.debug import debug_lines
from sessions_api.cli.failures import problem_lines
from sessions_api.problems import OUR_ERRORS, problem_of

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

# All that the database says of how things went; messages and titles are content.
ERROR_COLUMNS = (
    "SELECT * FROM runs",
    "SELECT * FROM tool_executions",
    "SELECT * FROM tombstones",
    "SELECT id, provider, model_id, status, endpoint, metadata FROM sessions",
)


@dataclass(frozen=True, slots=True)
class Cell:
    """One shape at one entrance, on the disk."""

    root: Path

    @property
    def workspace(self) -> Path:
        """Where the agent works."""
        return self.root / "ws"

    @property
    def home(self) -> Path:
        """Its state home."""
        return self.root / "home"

    def tell(self, error: BaseException, *, whole: bool) -> None:
        """Print *error* in all the ways that a person gets to see one.

        With *whole* also as a traceback that ends a program: not for exceptions that a caller's own
        provider raised, whose words Python prints when the caller lets them.
        """
        said = [*problem_lines(problem_of(error)), *debug_lines(error)]
        if isinstance(error, OUR_ERRORS):
            said += [str(error), repr(error), str(vars(error))]
        said += traceback.format_exception(error) if whole else []
        self.print(*said)

    def print(self, *lines: str) -> None:
        """Write *lines* to what was printed."""
        with (self.root / "printed").open("a", encoding="utf-8", errors="backslashreplace") as file:
            file.write("\n".join((*lines, "")))

    @contextlib.contextmanager
    def telling(self, *, whole: bool) -> Iterator[None]:
        """Tell of the exception that ends the block, whatever it is."""
        try:
            yield
        except BaseException as error:  # noqa: BLE001 - cancellations and interrupts as well
            self.tell(error, whole=whole)

    # --- what the parent looks at -------------------------------------------------------------

    def journal(self) -> str:
        """Return all lines of all journals."""
        files = sorted((self.home / "logs").rglob("*"))
        return "".join(path.read_text("utf-8") for path in files if path.is_file())

    def line_count(self) -> int:
        """Return how many good lines there are."""
        files = [path for path in (self.home / "logs").rglob("*.jsonl") if path.is_file()]
        return sum(isinstance(item, Entry) for path in files for item in read(path))

    def lost_line_count(self) -> int:
        """Return how many lines the database says could not be written."""
        (path,) = self.home.glob("workspaces/*/state.sqlite3")
        ((count,),) = _rows(path, "SELECT sum(journal_lost_count) FROM runs")
        return int(count)

    def error_columns(self) -> str:
        """Return all that the database says of runs and tools; messages are content."""
        return "\n".join(
            str(row)
            for path in self.home.glob("workspaces/*/state.sqlite3")
            for statement in ERROR_COLUMNS
            for row in _rows(path, statement)
        )

    def messages(self) -> str:
        """Return the conversation itself."""
        rows = "SELECT content, reasoning_content, tool_calls FROM messages"
        prompts = "SELECT system_prompt FROM sessions"
        (path,) = self.home.glob("workspaces/*/state.sqlite3")
        return "".join(str(row) for statement in (rows, prompts) for row in _rows(path, statement))

    def all_else(self) -> str:
        """Return every byte of the state home, for what is no content and is never stored."""
        paths = sorted(path for path in self.home.rglob("*") if path.is_file())
        return "".join(path.read_bytes().decode("utf-8", "replace") for path in paths)

    def outputs(self) -> dict[str, str]:
        """Return what must be free of the secret at every entrance."""
        texts = {"journal": self.journal(), "error columns": self.error_columns()}
        for name in ("stderr", "printed"):
            path = self.root / name
            texts[name] = path.read_text("utf-8", "replace") if path.exists() else ""
        return texts


def _rows(path: Path, statement: str) -> list[Any]:
    connection = apsw.Connection(str(path), flags=apsw.SQLITE_OPEN_READONLY)
    try:
        return list(connection.execute(statement))
    finally:
        connection.close()


def converse(cell: Cell, provider: Any, *, whole: bool = True, count: int = 1, **more: Any) -> None:
    """Ask *count* times, every second time as a stream, and tell of what went wrong."""
    with (
        cell.telling(whole=whole),
        Agent(cell.workspace, provider=provider, state_home=cell.home, **more) as agent,
    ):
        for number in range(count):
            with cell.telling(whole=whole):
                if number % 2 == 0:
                    agent.run("hello")
                else:
                    with agent.stream("hello again") as stream:
                        list(stream)
    if close := getattr(provider, "close", None):
        close()
