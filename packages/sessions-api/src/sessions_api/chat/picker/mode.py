"""What the picker is doing, and what a key does to that; no terminal here.

Owns the three modes (filtering, renaming, asking whether to delete), the preview and the outcome.
Invariants: nothing is deleted without a "y" to the question that names it; a change that failed is
told in one line and changes nothing that is shown.
"""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, Literal

from sessions_api.chat.picker.listing import Listing, Row
from sessions_api.errors import SessionsError
from sessions_api.problems import problem_of
from sessions_api.showing.listing import handle, shown_title
from sessions_api.showing.terminal_text import one_line
from state_store import StateStoreError
from workspace_identity import WorkspaceIdentityError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from state_store import Message

Mode = Literal["filter", "rename", "delete"]
_PREVIEWED = 6
FAILURES = (SessionsError, StateStoreError, WorkspaceIdentityError, OSError, ValueError)


class Picking:
    """One use of the picker, up to its outcome: `chosen` is the row that was taken."""

    def __init__(self) -> None:
        self.listing = Listing()
        self.mode: Mode = "filter"
        self.typed = ""  # the new title while renaming
        self.said = ""
        self.previewing = False
        self.chosen: Row | None = None
        self.deleted: set[str] = set()
        self._preview: tuple[Row, tuple[Message, ...]] | None = None

    def restart(self) -> None:
        """Begin again with other rows; what was deleted stays known."""
        self.listing, self.mode = Listing(), "filter"

    def type(self, text: str) -> None:
        """Take letters that were typed, or pasted."""
        letters = one_line(text)
        if self.mode == "rename":
            self.typed += letters
        elif self.mode == "delete":
            self._answer(letters)
        else:
            self.said = ""
            self.listing.filter(self.listing.query + letters)

    def space(self) -> None:
        """Show or hide the preview; in a title, a space."""
        if self.mode == "filter":
            self.previewing = not self.previewing
        elif self.mode == "rename":
            self.typed += " "

    def erase(self, *, all_of_it: bool = False) -> None:
        """Take the last letter back, or all."""
        if self.mode == "rename":
            self.typed = "" if all_of_it else self.typed[:-1]
        elif self.mode == "filter":
            self.listing.filter("" if all_of_it else self.listing.query[:-1])

    def move(self, by: int) -> None:
        """Mark another row."""
        if self.mode == "filter":
            self.said = ""
            self.listing.move(by)

    def enter(self) -> bool:
        """Take the marked row, True; or carry out the rename, False."""
        if self.mode == "filter":
            self.chosen = self.listing.marked
            return self.chosen is not None
        if self.mode == "rename":
            self._rename(self.typed.strip())
        else:
            self._answer("n")
        return False

    def escape(self) -> bool:
        """Leave the mode, False; or the picker, True."""
        leaves = self.mode == "filter"
        self.mode = "filter"
        return leaves

    def begin_rename(self) -> None:
        """Let the title of the marked row be typed."""
        if self.mode == "filter" and (row := self.listing.marked) is not None:
            self.mode, self.typed = "rename", one_line(row.session.title or "")

    def begin_delete(self) -> None:
        """Ask whether to delete the marked row."""
        if self.mode == "filter" and self.listing.marked is not None:
            self.mode = "delete"

    def preview(self) -> tuple[Message, ...]:
        """Return what was said last in the marked session, in order."""
        row = self.listing.marked
        if row is None:
            return ()
        if self._preview is None or self._preview[0] is not row:
            self._preview = (row, ())
            with self._telling():
                self._preview = (row, row.place.last_messages(row.session.id, _PREVIEWED))
        return self._preview[1]

    def _rename(self, title: str) -> None:
        row = self.listing.marked
        self.mode = "filter"
        if row is None or not title or title == row.session.title:
            return
        with self._telling():
            row.place.rename(row.session.id, title)
            self.listing.renamed(row, title)
            self.said = f"It is now called {one_line(title)}."

    def _answer(self, letters: str) -> None:
        row = self.listing.marked
        self.mode = "filter"
        self.said = "Nothing was deleted."
        if row is None or letters.lower() not in {"y", "yes"}:
            return
        with self._telling():
            row.place.delete(row.session.id)
            self.deleted.add(row.session.id)
            self.listing.remove(row)
            self.said = f"Deleted: {handle(row.session.id)} {shown_title(row.session.title)}"

    @contextmanager
    def _telling(self) -> Iterator[None]:
        try:
            yield
        except FAILURES as error:
            self.said = one_line(problem_of(error).message)
