"""What is done with turns as wholes: branching off, undoing, redoing, summing up.

Owns what happens beside the store when it does so: the fork becomes the active session, because
whoever branches off wants to go on there, and the journal is told of each run that was undone or
came back. Invariant: nothing that was said is changed or deleted by any of these.
"""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING

from sessions_api.arguments import checked
from sessions_api.errors import InputInvalid
from sessions_api.sessions_basis import SessionsBasis
from state_store import Message, Session, StandInKind, StateStoreError

if TYPE_CHECKING:
    from collections.abc import Callable


@checked
class BranchMethods(SessionsBasis):
    """The methods that cut a history, and those that take turns out of it."""

    def fork(
        self, ref: str | None = None, at: int | None = None, *, title: str | None = None
    ) -> Session:
        """Begin a session with what was said in another one, and make it active.

        Through the message whose seq is *at*, which has to end an exchange: BoundaryInvalid names
        the nearest that do. None means all of it, without a run that is under way. Its title is
        *title*, or the parent's. Usage stays the parent's: the fork's `inherited_tokens` and
        `inherited_cost` are in no total. Whichever of the two is deleted, the other stays whole.
        SessionBusy when *at* lies in a run that is under way.
        """
        session = self._store.fork_session(self._id_of(ref), at=at, title=title)
        self._state.tell_recovered()
        if self._story is not None:
            self._story.forked(session)
        return self._active.enter(session)

    def undo(self, n: int = 1, *, ref: str | None = None) -> Session:
        """Mark the last *n* turns undone, or as many as there are; nothing is deleted.

        A turn is one typed input and all that answered it, failed runs and retries too. It is not
        sent any more, and only `view="all"` shows it; what it used is still counted. NothingToUndo
        when no turn is left; SessionBusy while a live process runs the session.
        """
        return self._turn(self._store.undo, n, ref)

    def redo(self, n: int = 1, *, ref: str | None = None) -> Session:
        """Bring back the earliest *n* undone turns, or as many as can be.

        Only while nothing new was said since they were undone, nor summed up in their place:
        NothingToRedo otherwise. SessionBusy while a live process runs the session.
        """
        return self._turn(self._store.redo, n, ref)

    def summarize(
        self, text: str, through: int, kind: StandInKind = "summary", *, ref: str | None = None
    ) -> Message:
        """Store *text* as what stands for all originals through the one whose seq is *through*.

        From the next run on it is sent in their place; they stay as they are, and so do earlier
        summaries, of which the latest counts. What to say, when and how far is the caller's policy.
        "derived" is the same for text that is no summary. BoundaryInvalid, which names the nearest,
        unless *through* ends an exchange; InputInvalid for a text that says nothing.
        """
        _require_words(text)
        session_id = self._id_of(ref)
        message = self._store.summarize(session_id, text, through=through, kind=kind)
        self._active.refresh(session_id)
        return message

    def _turn(self, turn: Callable[[str, int], Session], n: int, ref: str | None) -> Session:
        """Undo or redo, and tell the journal of each run whose state that has changed."""
        session_id = self._id_of(ref)
        before = self._undone(session_id)
        session = turn(session_id, n)
        self._state.tell_recovered()
        if self._story is not None:
            with suppress(StateStoreError):  # done is done; evidence of it fails nothing
                after = self._undone(session_id)
                self._story.undone(session_id, [one for one in after if one not in before])
                self._story.redone(session_id, [one for one in before if one not in after])
        return self._active.seen(session)

    def _undone(self, session_id: str) -> dict[str, None]:
        """Return the ids of the undone runs, in the order in which they began."""
        if self._story is None:
            return {}
        runs = self._store.runs(session_id).items
        return {run.id: None for run in runs if run.undone_at is not None}


def _require_words(text: object) -> None:
    if not isinstance(text, str):
        raise InputInvalid(f"A summary is text, not {type(text).__name__}.")
    if not text.strip():
        raise InputInvalid(
            "A summary that says nothing would hide what it stands for.",
            hint="Give its text; nothing was stored.",
        )
