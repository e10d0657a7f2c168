"""Text: stored exactly, or repaired and marked where no encoding can carry it."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Any

import pytest

from state_store.clock import new_id
from state_store.records import NewMessage, NewSession, SessionState, ToolCall
from state_store.testing.contract.basis import Contract
from state_store.testing.turns import USAGE, begin, only_message

if TYPE_CHECKING:
    from state_store.protocol import SessionStore

EXACT = {
    "empty": "",
    "NUL": "a\0b",
    "only NUL": "\0",
    "line separators": "a\u2028b\u2029c\x85d",
    "bare CR": "a\rb\r\nc\n",
    "spaces": " \t a \n ",
    "wide": "日本語 🧑‍🚀 e\u0301",
    "no character": "\ufffe\uffff\U0010ffff",
    "replacement": "\ufffd",
    "BOM": "\ufeffx",
    "escapes": "\\u0000 \\ud83d \" ' -- %s {} <b>",
}
LONE = "caf\udce9"
REPAIRED = "caf\ufffd"
MEGABYTE = 1_000_000


def everywhere(text: str) -> NewMessage:
    """Return a message with *text* in each of its text fields."""
    return NewMessage(
        role="user",
        content=text,
        reasoning_content=text,
        tool_calls=(ToolCall(id=text, name=text, arguments=text),),
        tool_call_id=text,
        name=text,
        parts=({text: [text, {"in": text}]},),
        provider_data=text,
    )


class TextContract(Contract):
    """The store judges no text."""

    @pytest.mark.parametrize("text", EXACT.values(), ids=EXACT)
    def test_text_is_stored_exactly(self, store: SessionStore, text: str) -> None:
        """In every field, to the last character, and not marked as repaired (C27)."""
        message = everywhere(text)
        session_id = new_id()
        store.begin_run(
            session_id,
            message,
            run_id=new_id(),
            create=NewSession(title=text, system_prompt=text, metadata={text: text}),
        )
        stored = only_message(store, session_id)
        for name in NewMessage.__dataclass_fields__:
            if name != "created_at":
                assert getattr(stored, name) == getattr(message, name), name
        assert stored.repaired is False
        session = store.get_session(session_id)
        assert (session.title, session.system_prompt) == (text, text)
        assert session.metadata == {text: text}

    def test_a_line_of_20_megabytes_is_stored_exactly(self, store: SessionStore) -> None:
        """And comes back through reading, loading and exporting."""
        text = "0123456789abcdef ✓"[:20] * MEGABYTE
        session_id = store.create_session().id
        store.begin_run(session_id, NewMessage(role="user", content=text), run_id=new_id())
        assert only_message(store, session_id).content == text
        (line,) = store.export_messages(session_id)
        assert len(line) > 20 * MEGABYTE

    def test_a_lone_surrogate_is_repaired_and_the_message_says_so(
        self, store: SessionStore
    ) -> None:
        """In every field, keys of parts included (C26)."""
        session_id = store.create_session().id
        _, returned = store.begin_run(session_id, everywhere(LONE), run_id=new_id())
        stored = only_message(store, session_id)
        assert returned == stored
        assert stored.repaired is True
        assert (stored.content, stored.reasoning_content) == (REPAIRED, REPAIRED)
        assert (stored.tool_call_id, stored.name, stored.provider_data) == (REPAIRED,) * 3
        assert stored.tool_calls == (ToolCall(id=REPAIRED, name=REPAIRED, arguments=REPAIRED),)
        assert stored.parts == ({REPAIRED: [REPAIRED, {"in": REPAIRED}]},)

    @pytest.mark.parametrize(
        "field", ["content", "reasoning_content", "tool_call_id", "name", "provider_data"]
    )
    def test_one_repaired_field_marks_the_message(self, store: SessionStore, field: str) -> None:
        """Whichever it is (C26)."""
        session_id = store.create_session().id
        fields: dict[str, Any] = {field: LONE}
        store.begin_run(session_id, NewMessage(role="user", **fields), run_id=new_id())
        assert only_message(store, session_id).repaired is True

    def test_a_pair_that_was_split_in_two_becomes_its_character(self, store: SessionStore) -> None:
        """Two halves beside one another lose nothing (C26)."""
        session_id = store.create_session().id
        message = NewMessage(role="user", content="\ud83d\ude80 \ude80\ud83d")
        store.begin_run(session_id, message, run_id=new_id())
        assert only_message(store, session_id).content == "🚀 \ufffd\ufffd"

    def test_no_path_into_the_store_breaks_on_a_lone_surrogate(self, store: SessionStore) -> None:
        """Runs, tools, titles, settings, saving and finding (C26)."""
        session_id, run_id = new_id(), new_id()
        store.begin_run(
            session_id,
            NewMessage(role="user", content=LONE),
            run_id=run_id,
            create=NewSession(
                provider=LONE,
                endpoint=LONE,
                model_id=LONE,
                system_prompt=LONE,
                model_config={LONE: LONE},
                parameters={LONE: [LONE]},
                metadata={LONE: {LONE: LONE}},
            ),
            auto_title=LONE,
            provider=LONE,
            model=LONE,
        )
        call = ToolCall(id=LONE, name=LONE, arguments=LONE)
        seq = store.start_tools(
            run_id, NewMessage(role="assistant", tool_calls=(call,)), ["safe"]
        ).seq
        store.finish_tool(
            run_id,
            call_seq=seq,
            call_index=0,
            outcome="ok",
            message=NewMessage(role="tool", content=LONE, tool_call_id=LONE),
        )
        store.complete_run(run_id, NewMessage(role="assistant", content=LONE), usage=USAGE)
        session = store.get_session(session_id)
        assert (session.title, session.provider, session.endpoint) == (REPAIRED,) * 3
        assert session.metadata == {REPAIRED: {REPAIRED: REPAIRED}}
        run = store.get_run(run_id)
        assert (run.provider, run.model) == (REPAIRED, REPAIRED)
        (execution,) = store.tool_executions(session_id)
        assert (execution.call_id, execution.name) == (REPAIRED, REPAIRED)
        assert [one.id for one in store.find_sessions(LONE)] == [session_id]
        assert store.update_session(session_id, {"title": LONE}).title == REPAIRED
        for line in store.export_messages(session_id):
            assert line.decode().endswith("\n")

    def test_saving_repaired_text_again_is_no_conflict(self, store: SessionStore) -> None:
        """A message equals the one that it was repaired from (C26)."""
        state = SessionState(id=new_id(), messages=(everywhere(LONE),))
        store.save(state, timedelta(0))
        assert store.save(state, timedelta(0)).message_count == 1

    def test_parts_of_any_json_shape_are_not_marked_as_repaired(self, store: SessionStore) -> None:
        """What a write returns is what a read returns, nested tuples or not."""
        session_id = store.create_session().id
        message = NewMessage(role="user", parts=({"a": (1, 2.5, None), "b": {"c": ()}},))
        run_id = new_id()
        _, returned = store.begin_run(session_id, message, run_id=run_id)
        assert returned == only_message(store, session_id)
        assert returned.parts == ({"a": [1, 2.5, None], "b": {"c": []}},)
        assert returned.repaired is False

    def test_a_part_that_is_no_object_is_refused(self, store: SessionStore) -> None:
        """Nobody could read it again, and a check would call it damage."""
        session_id = store.create_session().id
        parts: Any = ({"type": "text", "text": "fine"}, 5)
        with pytest.raises(TypeError, match="mapping"):
            store.begin_run(session_id, NewMessage(role="user", parts=parts), run_id=new_id())
        assert store.messages(session_id).items == ()

    @pytest.mark.parametrize(
        "value",
        [float("nan"), float("inf"), object(), {1, 2}],
        ids=["nan", "infinity", "object", "set"],
    )
    def test_what_json_cannot_say_is_refused_and_nothing_is_written(
        self, store: SessionStore, value: object
    ) -> None:
        """No NaN tokens on disk, and no half of a turn (C39)."""
        session_id = store.create_session().id
        run = begin(store, session_id)
        message = NewMessage(role="assistant", parts=({"value": value},))
        with pytest.raises((ValueError, TypeError), match="JSON"):
            store.complete_run(run.id, message, usage=USAGE)
        assert store.get_run(run.id).status == "pending"
        with pytest.raises((ValueError, TypeError), match="JSON"):
            store.update_session(session_id, {"metadata": {"value": value}})
