"""Whatever is said, undone, redone and summed up: each word is sent once, and none taken back.

A machine against a real store. A summary's text is what was live when it was made, so that a
context can be spelled out and compared with what is live now.
"""

from __future__ import annotations

import json
from contextlib import suppress
from datetime import timedelta
from typing import TYPE_CHECKING

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from sessions_api.runs.replay import context
from state_store import (
    NewMessage,
    NothingToRedo,
    NothingToUndo,
    SqliteStore,
    Usage,
    new_id,
)

if TYPE_CHECKING:
    from state_store import Message

WORKSPACE_ID = "11111111-2222-4333-8444-555555555555"


class Summaries(RuleBasedStateMachine):
    """Steps in one session, or in a fork of it from then on."""

    def __init__(self) -> None:
        super().__init__()
        self.store = SqliteStore.in_memory(workspace_id=WORKSPACE_ID)
        self.session_id = self.store.create_session().id
        self.count = 0

    def teardown(self) -> None:
        """Close the store of the example."""
        self.store.close()

    def words(self) -> str:
        """Return something that nobody has said."""
        self.count += 1
        return f"words {self.count}"

    @rule(fails=st.booleans(), retries=st.booleans())
    def ask(self, *, fails: bool, retries: bool) -> None:
        """Ask, or ask again what failed last."""
        failed = [
            one
            for one in self.store.runs(self.session_id).items
            if one.status == "failed" and one.undone_at is None
        ]
        run, _ = self.store.begin_run(
            self.session_id,
            NewMessage(role="user", content=self.words()),
            run_id=new_id(),
            retry_of=failed[-1].id if failed and retries else None,
        )
        if fails:
            self.store.fail_run(run.id, "internal", usage=Usage())
        else:
            answer = NewMessage(role="assistant", content=self.words())
            self.store.complete_run(run.id, answer, usage=Usage())

    @rule()
    def save(self) -> None:
        """Say something without a run."""
        state = self.store.load(self.session_id)
        said = (NewMessage(role="user", content=self.words()),)
        self.store.save(
            type(state)(id=state.id, settings=state.settings, messages=state.messages + said),
            timedelta(0),
        )

    @rule(count=st.integers(1, 3))
    def undo(self, count: int) -> None:
        """Take turns back."""
        with suppress(NothingToUndo):
            self.store.undo(self.session_id, count)

    @rule(count=st.integers(1, 3))
    def redo(self, count: int) -> None:
        """Bring turns back."""
        with suppress(NothingToRedo):
            self.store.redo(self.session_id, count)

    @rule(where=st.integers(0, 9))
    def summarize(self, where: int) -> None:
        """Sum up what is live, through some exchange."""
        ends = self.ends()
        if ends:
            through = ends[where % len(ends)]
            text = json.dumps([one.content for one in self.replayed() if one.seq <= through])
            self.store.summarize(self.session_id, text, through=through)

    @rule(where=st.integers(0, 9))
    def fork(self, where: int) -> None:
        """Go on in a fork."""
        ends = self.ends()
        if ends:
            fork = self.store.fork_session(self.session_id, at=ends[where % len(ends)])
            self.session_id = fork.id

    def ends(self) -> list[int]:
        """Return where exchanges end: here, before the next question."""
        messages = self.store.messages(self.session_id).items
        following = [*(one.role for one in messages[1:]), "user"]
        return [one.seq for one, role in zip(messages, following, strict=False) if role == "user"]

    def replayed(self) -> list[Message]:
        """Return the live originals of completed runs and without a run."""
        runs = {one.id: one for one in self.store.runs(self.session_id).items}
        return [
            one
            for one in self.store.messages(self.session_id).items
            if one.run_id is None or runs[one.run_id].status == "completed"
        ]

    @invariant()
    def each_live_original_is_sent_once(self) -> None:
        """In a summary that counts, or by itself behind it."""
        sent: list[str | None] = []
        messages = self.store.messages(self.session_id, view="all").items
        for one in context(messages, self.store.runs(self.session_id).items):
            sent += [one.content] if one.kind == "original" else json.loads(one.content or "")
        assert sent == [one.content for one in self.replayed()]


TestSummaries = Summaries.TestCase
TestSummaries.settings = settings(
    max_examples=50, stateful_step_count=25, deadline=None, print_blob=True
)
