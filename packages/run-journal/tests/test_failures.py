from __future__ import annotations

import pickle
import traceback
from pathlib import Path

import pytest

import run_journal
from run_journal import (
    CodeName,
    CollapsedFrames,
    EventInvalid,
    Frame,
    Id,
    JournalBusy,
    JournalMissing,
    JournalUnavailable,
    RunJournalError,
    stack_of,
    type_names_of,
)

WORDS = "".join(["sk-", "invented", "0" * 24])
OWN = __name__.partition(".")[0]


def _raise(depth: int) -> None:
    local = WORDS
    if depth:
        _raise(depth - 1)
    raise ValueError(local)


def _caught(depth: int) -> BaseException:
    try:
        _raise(depth)
    except ValueError as error:
        error.add_note(WORDS)
        return error
    raise AssertionError


def test_a_stack_names_own_frames_and_counts_the_rest() -> None:
    """Module, function and line for own code; other people's frames are a number."""
    with pytest.raises(EventInvalid) as caught:
        run_journal.SessionRenamed(session_id=Id("x"))
    stack = stack_of(caught.value)
    assert isinstance(stack[0], CollapsedFrames)
    last = stack[-1]
    assert isinstance(last, Frame)
    assert (last.module, last.function) == ("run_journal.event_base", "__post_init__")
    assert last.line > 0


def test_a_deep_stack_keeps_its_innermost_sixteen_entries() -> None:
    """The bound holds and no frame is lost without being counted."""
    error = _caught(100)
    stack = stack_of(error, own_packages=(OWN,))
    assert len(stack) == 16
    assert stack[0] == CollapsedFrames(count=len(traceback.extract_tb(error.__traceback__)) - 15)
    assert all(isinstance(entry, Frame) and entry.function == "_raise" for entry in stack[1:])


def test_nothing_but_code_names_leaves_an_exception() -> None:
    """No message, note, local, path or source line: C35 in the error columns."""
    error = _caught(3)
    told = repr(stack_of(error, own_packages=(OWN,))) + repr(type_names_of(error))
    assert WORDS not in told
    assert "/" not in told
    assert ".py" not in told


def test_a_code_name_that_is_no_name_becomes_invalid() -> None:
    """A module name can be any text at run time."""
    function = CodeName("<lambda>")
    frame = Frame(module=CodeName("my secret is"), function=function, line=3)
    assert frame == Frame(module=CodeName("<invalid>"), function=function, line=3)


def test_causes_and_groups_are_told_by_type_only() -> None:
    """The chain is followed through causes, contexts and groups, and it is bounded."""
    group = ExceptionGroup(WORDS, [KeyError(WORDS), OSError(WORDS)])
    error = RuntimeError(WORDS)
    error.__cause__ = group
    assert type_names_of(error) == ("RuntimeError", "ExceptionGroup", "KeyError", "OSError")
    odd = type("my secret name", (Exception,), {})
    assert type_names_of(odd()) == ("<invalid>",)
    many = ExceptionGroup("", [ValueError() for _ in range(50)])
    assert len(type_names_of(many)) == 8
    loop = ValueError()
    loop.__context__ = KeyError()
    loop.__context__.__context__ = loop
    assert type_names_of(loop) == ("ValueError", "KeyError")


@pytest.mark.parametrize(
    "error",
    [
        EventInvalid(event="RunFailed", field="error_type", rule="one of a, b"),
        JournalMissing(Path("x.jsonl")),
        JournalUnavailable(Path("x.jsonl"), reason="it is a FIFO", hint="Remove it."),
        JournalBusy(Path("x.jsonl"), timeout_s=5.0),
    ],
)
def test_errors_survive_pickling_and_keep_their_facts(error: RunJournalError) -> None:
    """An error that crosses a process border says the same as before."""
    again = pickle.loads(pickle.dumps(error))  # noqa: S301 - our own bytes
    assert type(again) is type(error)
    assert str(again) == str(error)
    assert vars(again) == vars(error)


@pytest.mark.parametrize(
    "error",
    [
        EventInvalid(event="RunFailed", field="error_type", rule="one of a, b"),
        JournalMissing(Path("x.jsonl")),
        JournalUnavailable(Path("x.jsonl"), reason="it is a FIFO", hint="Remove it."),
        JournalBusy(Path("x.jsonl"), timeout_s=5.0),
    ],
)
def test_every_error_says_what_failed_and_apart_from_that_what_to_do(
    error: RunJournalError,
) -> None:
    """One sentence for each, so that a caller can show them where they belong."""
    assert error.hint is not None
    assert error.hint.endswith(".")
    assert str(error).endswith(".")
    assert error.hint not in str(error)


def test_errors_are_also_the_built_in_that_a_caller_expects() -> None:
    """`except FileNotFoundError` and the like keep working."""
    assert issubclass(EventInvalid, ValueError)
    assert issubclass(JournalMissing, FileNotFoundError)
    assert issubclass(JournalUnavailable, OSError)
    assert issubclass(JournalBusy, TimeoutError)
    assert "x.jsonl" in str(JournalMissing(Path("x.jsonl")))


def test_a_context_that_tracebacks_leave_out_is_told_by_type() -> None:
    """`from None` keeps a text from being printed; the type is a fact all the same."""
    with pytest.raises(RuntimeError) as caught:
        _translated()
    assert type_names_of(caught.value) == ("RuntimeError", "KeyError")


def _translated() -> None:
    try:
        _ = dict[str, str]()[WORDS]
    except KeyError:
        raise RuntimeError(WORDS) from None


def test_an_exception_that_counts_as_false_hides_nothing_behind_it() -> None:
    """An error may have a length, as one that collects others has, or no truth at all."""

    class Collected(Exception):
        def __len__(self) -> int:
            return 0

    class Neither(Exception):
        def __bool__(self) -> bool:
            raise ValueError

    error, collected, neither = RuntimeError(), Collected(), Neither()
    error.__cause__, collected.__cause__, neither.__cause__ = collected, neither, KeyError()
    assert type_names_of(error)[0::3] == ("RuntimeError", "KeyError")
    assert len(type_names_of(error)) == 4
