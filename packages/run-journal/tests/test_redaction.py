from __future__ import annotations

import base64
import json
import re
from typing import TYPE_CHECKING
from urllib.parse import quote

import pytest
from hypothesis import given
from hypothesis import strategies as st

from invented_secrets import SHAPES as SECRETS
from invented_secrets import shows
from run_journal import (
    ErrorType,
    FinishReason,
    Journal,
    Name,
    ProviderRequested,
    ProviderResponded,
    RunFailed,
    RunStarted,
    SessionRenamed,
    ToolStarted,
    TripReason,
    name_of,
)
from run_journal.redact import _SHAPES, Guard

if TYPE_CHECKING:
    from pathlib import Path
    from types import SimpleNamespace

# Built from pieces, so that scanners of repositories see no key.
LIVE = "hunter2-" + "XYZ-0815"
SHAPES = [
    "sk-" + "proj-" + "a1B2" * 8,
    "sk-" + "ant-" + "api03-" + "Zz9" * 10,
    "sk" + "_live_" + "a1b2c3d4" * 3,
    "gh" + "p_" + "A1b2" * 9,
    "github" + "_pat_" + "A1b2" * 9,
    "gl" + "pat-" + "A1b2" * 5,
    "AK" + "IA" + "ABCD1234" * 2,
    "AI" + "za" + "Sy_b2c3d4" * 4,
    "xo" + "xb-" + "1234567890-abc",
    "hf" + "_" + "AbCd" * 8,
    "gs" + "k_" + "AbCd" * 8,
    "ey" + "JhbGciOiJI" + ".ey" + "JzdWIiOiIx" + ".c2lnbmF0",
    "cs" + "k-" + "A1b2" * 8,
    "dckr" + "_pat_" + "A1b2" * 6,
    "nv" + "api-" + "A1b2" * 12,
    "hv" + "s." + "A1b2" * 6,
    "xo" + "xd-" + "A1b2" * 6,
    "xk" + "eysib-" + "0a1b" * 9,
    "do" + "o_v1_" + "0a1b" * 8,
    "tv" + "ly-" + "A1b2" * 8,
]


def test_a_live_secret_in_a_name_stops_the_event(directory: Path, ids: SimpleNamespace) -> None:
    """C35: the whole event is replaced, told as a fact, and counted; the control passes."""
    with Journal(directory, workspace_id=ids.workspace, secrets=lambda: [LIVE]) as journal:
        tool = {"session_id": ids.session, "run_id": ids.run}
        journal.write(ToolStarted(tool=name_of("db"), **tool))
        assert journal.tripped_count == 0
        head = journal.write(ToolStarted(tool=Name(LIVE), **tool))
        assert head is not None
        assert journal.tripped_count == 1
        text = journal.path_for(ids.session).read_text("ascii")
    assert LIVE not in text
    tripped = json.loads(text.splitlines()[1])
    assert tripped["event"] == "redaction.tripped"
    assert tripped["tripped_event"] == "tool.started"
    assert tripped["reason"] == "live_key"
    assert tripped["run_id"] == ids.run
    assert "tool" not in tripped


def test_without_the_guard_the_same_name_would_be_written(
    directory: Path, ids: SimpleNamespace
) -> None:
    """The control: a journal that is told of no secret has nothing to stop."""
    with Journal(directory, workspace_id=ids.workspace) as journal:
        journal.write(ToolStarted(session_id=ids.session, run_id=ids.run, tool=Name(LIVE)))
        assert LIVE in journal.path_for(ids.session).read_text("ascii")


@pytest.mark.parametrize("shape", SHAPES)
def test_the_shape_of_a_well_known_key_stops_the_event(
    directory: Path, ids: SimpleNamespace, shape: str
) -> None:
    """A key nobody told us of, raw and behind an underscore."""
    with Journal(directory, workspace_id=ids.workspace) as journal:
        for name in (shape, f"tool_{shape}"[:64]):
            event = ProviderRequested(
                session_id=ids.session, run_id=ids.run, provider=name_of("p"), model=Name(name)
            )
            assert event.model == name
            journal.write(event)
        assert journal.tripped_count == 2
        assert shape not in journal.path_for(ids.session).read_text("ascii")


@given(st.data())
def test_no_key_is_passed_over_for_want_of_its_telltale(data: st.DataObject) -> None:
    """A shape is looked for only where its row's telltale is, so each of them must contain it."""
    telltale, shapes = data.draw(st.sampled_from(sorted(_SHAPES.items())))
    key = data.draw(st.from_regex(data.draw(st.sampled_from(shapes)), fullmatch=True))
    assert re.search(telltale, key)
    assert Guard(tuple).reason_against(f'{{"name":"{key}"}}') is TripReason.KEY_SHAPE


@pytest.mark.parametrize("shape", SECRETS)
def test_a_live_secret_of_any_shape_gets_into_no_line(
    directory: Path, ids: SimpleNamespace, shape: str
) -> None:
    """C35: as every name that an event takes, whole and in every encoding that fits one."""
    secret = SECRETS[shape]
    raw = secret.encode()
    texts = {secret, raw.hex(), quote(secret, safe=""), json.dumps(secret)}
    texts |= {base64.urlsafe_b64encode(b"\0" * n + raw).decode().rstrip("=") for n in range(3)}
    with Journal(directory, workspace_id=ids.workspace, secrets=lambda: [secret]) as journal:
        about = {"session_id": ids.session, "run_id": ids.run}
        for text in texts:
            failed = ErrorType.INTERNAL
            for event in (
                ToolStarted(tool=Name(text), **about),
                RunStarted(model=Name(text), provider=Name(text), **about),
                ProviderResponded(provider=name_of("p"), finish_reason=FinishReason(text), **about),
                RunFailed(
                    error_type=failed, exception_types=(Name(text), Name(f"a{text}")), **about
                ),
            ):
                assert journal.write(event) is not None
        written = journal.path_for(ids.session).read_text("ascii")
    assert written.count("\n") == 4 * len(texts)
    assert not shows(secret, written)


@pytest.mark.parametrize(
    "name",
    [
        "gpt-4o-mini",
        "claude-sonnet-4-5-20250929",
        "org/risk-model-with-a-very-long-name-2024-05-01",
    ],
)
def test_ordinary_names_trip_nothing(name: str) -> None:
    """Model names look a little like keys; they must not be taken for any."""
    assert Guard(tuple).reason_against(json.dumps({"model": name})) is None


@given(
    secret=st.text(min_size=8, max_size=40),
    before=st.text(max_size=5),
    after=st.text(max_size=5),
)
def test_a_live_secret_is_found_in_every_form(secret: str, before: str, after: str) -> None:
    """Raw, JSON-escaped, URL-quoted, hex, base64 at any alignment and in both alphabets."""
    guard = Guard(lambda: [secret])
    around = [text.encode("utf-8", "surrogatepass") for text in (before, secret, after)]
    whole, alone = b"".join(around), around[1]
    forms = [
        secret,
        json.dumps(secret),
        quote(alone, safe=""),
        quote(alone, safe="").lower(),
        alone.hex(),
        alone.hex().upper(),
        base64.b64encode(whole).decode(),
        base64.urlsafe_b64encode(whole).decode().rstrip("="),
    ]
    for form in forms:
        assert guard.reason_against(f"{{{before}{form}{after}}}") is TripReason.LIVE_KEY


def test_a_letter_whose_small_form_depends_on_its_place_hides_no_secret() -> None:
    """A Greek sigma at the end of a word and inside one are the same letter."""
    word = "odysseu\u03a3"
    for after in ("", "b", " "):
        reason = Guard(lambda: [word]).reason_against(f"{{{word}{after}}}")
        assert reason is TripReason.LIVE_KEY


def test_a_word_that_serves_as_a_dummy_key_is_not_searched_for() -> None:
    """`ollama` is the key of many local servers and part of their provider's name."""
    assert Guard(lambda: ["ollama", "EMPTY", ""]).reason_against('"provider":"ollama"') is None


def test_secrets_are_asked_for_again_with_every_line(
    journal: Journal, ids: SimpleNamespace
) -> None:
    """A key that is changed in a running process is covered from the next line on."""
    live: list[str] = []
    guard = Guard(lambda: live)
    assert guard.reason_against(LIVE) is None
    live.append(LIVE)
    assert guard.reason_against(LIVE) is TripReason.LIVE_KEY


def test_a_line_is_not_written_when_the_secrets_cannot_be_had(
    directory: Path, ids: SimpleNamespace
) -> None:
    """Fail closed, and never fail the run."""

    def broken() -> list[str]:
        raise RuntimeError

    with Journal(directory, workspace_id=ids.workspace, secrets=broken) as journal:
        assert journal.write(SessionRenamed(session_id=ids.session)) is None
        assert journal.failed_count == 1
        assert not journal.path_for(ids.session).exists()


def test_a_secret_that_stands_in_an_id_costs_the_ids(directory: Path, ids: SimpleNamespace) -> None:
    """The replacement is searched too; what cannot be said without the secret is not said."""
    with Journal(directory, workspace_id=ids.workspace, secrets=lambda: [ids.run]) as journal:
        journal.write(RunStarted(session_id=ids.session, run_id=ids.run))
        line = json.loads(journal.path_for(ids.session).read_text("ascii"))
    assert line["event"] == "redaction.tripped"
    assert line["run_id"] is None
    with Journal(directory, workspace_id=ids.workspace, secrets=lambda: [ids.workspace]) as journal:
        assert journal.write(RunStarted(session_id=ids.session, run_id=ids.run)) is None
        assert journal.failed_count == 1
