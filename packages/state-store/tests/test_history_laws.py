"""A machine of turns that fail, are retried, undone, redone, forked and carried about, and a model.

The model knows nothing of sequence numbers kept with an undo, of chains or of clocks: it has a list
of what was said, and a stack of what was taken back.
"""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    Bundle,
    RuleBasedStateMachine,
    consumes,
    initialize,
    invariant,
    multiple,
    precondition,
    rule,
)

from state_store import (
    BoundaryInvalid,
    NewMessage,
    NothingToRedo,
    NothingToUndo,
    SqliteStore,
    Usage,
    new_id,
)
from state_store.sqlite import consistency
from state_store.testing.clocks import SteppingClock
from state_store.testing.turns import assistant, calling, result, said, user

SESSION_COUNT = 3
LONG = os.environ.get("STATE_STORE_LONG") == "1"
WORKSPACE_ID = "11111111-2222-4333-8444-555555555555"


@dataclass(slots=True, eq=False)
class Exchange:
    """One input and what followed it; `turn` is the typed input that it belongs to."""

    turn: int
    contents: list[str]
    status: str | None = None  # of its run, None without one
    run_id: str = ""
    tokens: int = 0
    state: str = "live"  # or undone, or gone: undone and not to come back
    is_copied: bool = False


@dataclass(slots=True)
class Model:
    """One session: its exchanges in order, and the turns that were undone, the last one last."""

    exchanges: list[Exchange] = field(default_factory=list)
    undone: list[int] = field(default_factory=list)
    turn_count: int = 0
    status: str = "idle"

    def live(self) -> list[Exchange]:
        """Return what is live, in order."""
        return [one for one in self.exchanges if one.state == "live"]

    def say(self, exchange: Exchange) -> None:
        """Add something new: what was undone before stays undone."""
        for one in self.exchanges:
            one.state = "gone" if one.state == "undone" else one.state
        self.undone.clear()
        self.exchanges.append(exchange)
        self.status = "failed" if exchange.status == "failed" else "idle"

    def settle(self) -> None:
        """Be what the last live run was."""
        last = [one.status for one in self.live() if one.status][-1:]
        self.status = "failed" if last == ["failed"] else "idle"

    def undo(self, count: int) -> bool:
        """Take the last live turns back."""
        for _ in range(count):
            if not (live := self.live()):
                return bool(_)
            turn = live[-1].turn
            self.undone.append(turn)
            for one in live:
                one.state = "undone" if one.turn == turn else one.state
        return True

    def redo(self, count: int) -> bool:
        """Bring the last ones that were taken back."""
        was_there = bool(self.undone)
        for _ in range(min(count, len(self.undone))):
            turn = self.undone.pop()
            for one in self.exchanges:
                if one.turn == turn and one.state == "undone":
                    one.state = "live"
        return was_there

    def copied(self, count: int) -> Model:
        """Return what a fork of the first *count* live exchanges is."""
        new = Model(turn_count=self.turn_count)
        for one in self.live()[:count]:
            new.exchanges.append(
                Exchange(one.turn, list(one.contents), one.status, "", one.tokens, is_copied=True)
            )
        new.settle()
        return new


# With many sessions none would come far.
few = precondition(lambda self: len(self.models) < SESSION_COUNT)


class Histories(RuleBasedStateMachine):
    """Any order of steps leaves every session as the model says."""

    sessions: Bundle[str] = Bundle("sessions")

    def __init__(self) -> None:
        super().__init__()
        clock = SteppingClock(step=timedelta(0))
        self.store = SqliteStore.in_memory(workspace_id=WORKSPACE_ID, clock=clock)
        self.models: dict[str, Model] = {}
        self.said_count = 0

    def teardown(self) -> None:
        """See that no two rows contradict each other, and close the store of the example."""
        with self.store._database.read() as connection:
            for search in consistency.SEARCHES:
                assert [one.message for one in search(connection) if one.severity == "error"] == []
        self.store.close()

    def words(self) -> str:
        """Return something that nobody has said."""
        self.said_count += 1
        return f"words {self.said_count}"

    @initialize(target=sessions)
    def one(self) -> str:
        """Begin with one session."""
        return self.created()

    def created(self) -> str:
        """Create a session in both."""
        session_id = self.store.create_session().id
        self.models[session_id] = Model()
        return session_id

    @few
    @rule(target=sessions)
    def another(self) -> str:
        """Create one more."""
        return self.created()

    def answered(self, session_id: str, turn: int, how: str, retry_of: str | None) -> None:
        """Run once: complete with or without a tool, or fail."""
        question, answer = self.words(), self.words()
        run_id = new_id()
        self.store.begin_run(session_id, user(question), run_id=run_id, retry_of=retry_of)
        exchange = Exchange(turn, [question], run_id=run_id, tokens=3)
        usage = Usage(input_tokens=2, output_tokens=1)
        if how == "tool":
            asked = self.store.start_tools(run_id, calling("a"), ["safe"])
            seen = self.words()
            self.store.finish_tool(
                run_id, call_seq=asked.seq, call_index=0, outcome="ok", message=result("a", seen)
            )
            exchange.contents += ["", seen]
        if how == "failed":
            self.store.fail_run(run_id, "provider.error", usage=usage)
        else:
            self.store.complete_run(run_id, assistant(answer), usage=usage)
            exchange.contents.append(answer)
        exchange.status = "failed" if how == "failed" else "completed"
        self.models[session_id].say(exchange)

    @rule(session_id=sessions, how=st.sampled_from(["completed", "tool", "failed"]))
    def ask(self, session_id: str, how: str) -> None:
        """Type something new."""
        model = self.models[session_id]
        model.turn_count += 1
        self.answered(session_id, model.turn_count, how, None)

    @rule(session_id=sessions, how=st.sampled_from(["completed", "failed"]), which=st.integers(0))
    def retry(self, session_id: str, how: str, which: int) -> None:
        """Retry any run that there is, also one that was undone."""
        runs = [one for one in self.models[session_id].exchanges if one.status and one.run_id]
        if runs:
            chosen = runs[which % len(runs)]
            self.answered(session_id, chosen.turn, how, chosen.run_id)

    @rule(session_id=sessions, is_answered=st.booleans())
    def save(self, session_id: str, *, is_answered: bool) -> None:
        """Append without a run."""
        model = self.models[session_id]
        model.turn_count += 1
        contents = [self.words() for _ in range(1 + is_answered)]
        made: list[NewMessage] = [user(contents[0]), *map(assistant, contents[1:])]
        said(self.store, session_id, *made)
        model.say(Exchange(model.turn_count, contents))

    @rule(session_id=sessions, count=st.integers(1, 3))
    def undo(self, session_id: str, count: int) -> None:
        """Take turns back, or be told that there are none."""
        if self.models[session_id].undo(count):
            self.store.undo(session_id, count)
            self.models[session_id].settle()
        else:
            with pytest.raises(NothingToUndo):
                self.store.undo(session_id, count)

    @rule(session_id=sessions, count=st.integers(1, 3))
    def redo(self, session_id: str, count: int) -> None:
        """Bring turns back, or be told that there are none."""
        if self.models[session_id].redo(count):
            self.store.redo(session_id, count)
            self.models[session_id].settle()
        else:
            with pytest.raises(NothingToRedo):
                self.store.redo(session_id, count)

    @few
    @rule(target=sessions, session_id=sessions, cut=st.integers(0, 9))
    def fork(self, session_id: str, cut: int) -> str:
        """Fork at the end of an exchange; anywhere else it is refused."""
        model = self.models[session_id]
        live = model.live()
        cut = min(cut, len(live))
        seqs = [one.seq for one in self.store.messages(session_id).items]
        ends = [sum(len(one.contents) for one in live[:n]) for n in range(1, len(live) + 1)]
        legal = {seqs[end - 1] for end in ends}
        for seq in set(range(max(seqs, default=0) + 2)) - legal:
            with pytest.raises(BoundaryInvalid):
                self.store.fork_session(session_id, at=seq)
        at = seqs[ends[cut - 1] - 1] if cut else None
        fork = self.store.fork_session(session_id, at=at)
        self.models[fork.id] = model.copied(cut or len(live))
        self.name_runs(fork.id)
        return fork.id

    @few
    @rule(target=sessions, session_id=sessions)
    def carry(self, session_id: str) -> str:
        """Bring everything about it in again, beside it."""
        store = self.store
        whole = store.snapshot(session_id)
        messages = store.messages(session_id, view="all").items
        made = store.import_session(
            whole.session,
            messages=messages,
            runs=whole.runs,
            executions=whole.executions,
            digest=self.words(),
        )
        assert made.outcome == "renamed"
        new = self.models[made.session.id] = Model(turn_count=self.models[session_id].turn_count)
        new.exchanges = [
            Exchange(
                one.turn,
                list(one.contents),
                one.status,
                "",
                one.tokens,
                one.state,
                is_copied=one.is_copied,
            )
            for one in self.models[session_id].exchanges
        ]
        new.undone = list(self.models[session_id].undone)
        new.status = self.models[session_id].status
        self.name_runs(made.session.id)
        return made.session.id

    def name_runs(self, session_id: str) -> None:
        """Give the model's copied exchanges the ids that their runs have."""
        ids = [run.id for run in self.store.runs(session_id).items]
        having = [one for one in self.models[session_id].exchanges if one.status]
        for one, run_id in zip(having, ids, strict=True):
            one.run_id = run_id

    @rule(session_id=sessions, which=st.integers(0))
    def summarize(self, session_id: str, which: int) -> None:
        """Sum up an early part; nothing else is different for it.

        What was undone and could come back under it is given up by the model too.
        """
        model = self.models[session_id]
        live = model.live()
        if not live:
            return
        end = sum(len(one.contents) for one in live[: which % len(live) + 1])
        through = self.store.messages(session_id).items[end - 1].seq
        self.store.summarize(session_id, self.words(), through=through)
        limit = model.exchanges.index(live[which % len(live)])
        barred = {one.turn for one in model.exchanges[:limit] if one.state == "undone"}
        for one in model.exchanges:
            if one.state == "undone" and one.turn in barred:
                one.state = "gone"
        model.undone = [turn for turn in model.undone if turn not in barred]

    @precondition(lambda self: len(self.models) > 1)
    @rule(target=sessions, session_id=consumes(sessions))
    def delete(self, session_id: str) -> Any:
        """Delete one; the others do not notice."""
        self.store.delete(session_id)
        del self.models[session_id]
        return multiple()

    @invariant()
    def the_store_says_what_the_model_says(self) -> None:
        """Compare what is seen and counted."""
        total = 0
        for session_id, model in self.models.items():
            live = [content for one in model.live() for content in one.contents]
            stored = [one.content or "" for one in self.store.messages(session_id).items]
            assert stored == live
            assert [one.content or "" for one in self.store.last_messages(session_id, 99)] == live
            session = self.store.get_session(session_id)
            runs = [one for one in model.exchanges if one.status]
            own = sum(one.tokens for one in runs if not one.is_copied)
            assert session.total_tokens == self.store.totals(session_id).total_tokens == own
            assert session.inherited_tokens == sum(one.tokens for one in runs if one.is_copied)
            assert session.message_count == sum(len(one.contents) for one in model.exchanges)
            assert session.status == model.status
            total += own
        assert self.store.totals().total_tokens == total


TestHistories = pytest.mark.timeout(3600)(Histories.TestCase)  # to find the least steps takes long
TestHistories.settings = settings(
    max_examples=1000 if LONG else 40, stateful_step_count=30, deadline=None, print_blob=True
)
