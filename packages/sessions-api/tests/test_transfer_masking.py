from __future__ import annotations

import base64
import json
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from faces import calling, said
from full_sessions import Texts, filled, sessions_in
from sessions_api.transfer.masking import environment_secrets
from sessions_api.transfer.secrets_in_text import MASK, Masker
from sessions_api.transfer.sensitive_names import is_sensitive

if TYPE_CHECKING:
    from pathlib import Path

    from conftest import OpenAgent
    from sessions_api.transfer.exporting import ExportFormat

FORMS: tuple[ExportFormat, ...] = ("jsonl", "archive", "markdown", "html")
TAIL = "9f8e7d6c5b4a39281706f5e4d3c2b1a0"
# Put together here, so that nobody who looks for keys in this file finds one.
KEYS = {
    "openai": "sk-" + "proj-" + TAIL,
    "anthropic": "sk-" + "ant-api03-" + TAIL,
    "github": "gh" + "p_" + TAIL,
    "github, fine": "github" + "_pat_" + TAIL,
    "gitlab": "gl" + "pat-" + TAIL,
    "slack": "xox" + "b-" + TAIL,
    "aws": "AK" + "IA" + "ABCDEFGHIJKLMNOP",
    "google": "AI" + "za" + TAIL + TAIL,
    "stripe": "sk" + "_live_" + TAIL,
    "hugging face": "h" + "f_" + TAIL,
    "npm": "np" + "m_" + TAIL + TAIL,
    "sendgrid": "S" + "G." + TAIL + "." + TAIL,
    "jwt": "ey" + "JhbGciOiJIUzI1NiJ9" + ".ey" + "JzdWIiOiIxMjM0In0" + "." + TAIL,
    "bearer": "Bearer " + TAIL,
}
LIVE = 'live/secret+"é" value=9'


def masked(text: str, *known: str) -> str:
    """Return *text* masked once."""
    return Masker(known).text(text)


@pytest.mark.parametrize("key", KEYS.values(), ids=KEYS.keys())
@pytest.mark.parametrize(
    "around", ["{}", "the key is {}.", "x={}&y", '{{"a": ["{}"]}}', "_{}", "'{}'", "\n{}\n", "({})"]
)
def test_a_key_is_known_by_its_shape(key: str, around: str) -> None:
    """Wherever it stands, and what is around it stays."""
    found = masked(around.format(key))
    assert key not in found
    assert TAIL not in found
    assert MASK in found


@pytest.mark.parametrize("begin", ["RSA ", "EC ", "OPENSSH ", "ENCRYPTED ", ""])
def test_a_private_key_goes_as_a_whole(begin: str) -> None:
    """Also one with lines before its body, one that was cut off, and one in JSON."""
    body = f"Proc-Type: 4,ENCRYPTED\nDEK-Info: AES-128-CBC,00\n\n{TAIL}\n{TAIL}\n"
    block = f"-----BEGIN {begin}PRIVATE KEY-----\n{body}-----END {begin}PRIVATE KEY-----"
    for text in (f"a {block} b", f"a {block.removesuffix('KEY-----')}", json.dumps({"f": block})):
        assert TAIL not in masked(text)
        assert "Proc-Type" not in masked(text)


@pytest.mark.parametrize(
    ("text", "secret"),
    [
        ("db(password='hunter2-XYZ')", "hunter2-XYZ"),
        ('{"password": "hunter2"}', "hunter2"),
        ('{"outer": "{\\"apiKey\\": \\"hunter2\\"}"}', "hunter2"),
        ('{"auth": {"user": "bob", "deep": ["hunter2", 4711]}}', "hunter2"),
        ('{"password": "hunter2", "password": null}', "hunter2"),
        ('{"pin": 4711}', "4711"),
        ('broken {"password": "hunter2"', "hunter2"),
        ('{"password": "with \\" quote hunter2"}', "hunter2"),
        ("DB_PASSWORD=hunter2 run", "hunter2"),
        ("export API_KEY='hunter2'", "hunter2"),
        ("client_secret: hunter2", "hunter2"),
        ("secret => hunter2", "hunter2"),
        ("Authorization: Basic aHVudGVyMg==", "aHVudGVyMg"),
        ("Cookie: sid=hunter2; other=hunter2b\nnext", "hunter2"),
        ("Set-Cookie: hunter2", "hunter2"),
        ("mysql --password hunter2 -h x", "hunter2"),
        ("curl -u bob:hunter2 x", "hunter2"),
        ("postgres://bob:hunter2@db.invalid/x", "hunter2"),
        ("https://hunter2@git.invalid/x.git", "hunter2"),
        ("https://x.invalid/?access_token=hunter2&b=1", "hunter2"),
        ("https://x.invalid/?X-Amz-Signature=hunter2", "hunter2"),
        ("пароль: hunter2", "hunter2"),
        ("密码: hunter2", "hunter2"),
        ('see {"pass\\u0077ord": "hunter2"} there', "hunter2"),
        ('```json\n{"password": "\\u0068unter2"}\n```', "unter2"),
        ("https://x.invalid/?access%5Ftoken=hunter2", "hunter2"),
    ],
)
def test_what_stands_under_a_telling_name_is_masked(text: str, secret: str) -> None:
    """In JSON, in JSON inside of text, in arguments, headers, addresses and assignments."""
    found = masked(text)
    assert secret not in found
    assert MASK in found
    assert masked(found) == found


@pytest.mark.parametrize(
    "text",
    [
        '{"max_tokens": 500, "tokens": 3, "author": "bob", "passed": true, "key": "value"}',
        '{"password": null, "token": true, "secret": ""}',
        '{ "n" : 1.10, "n" : 1e400, "é": "\\u00e9" }',
        "The answer has 5 tokens: one, two.",
        "see https://example.invalid/a?b=c#d and mail@example.invalid",
        "sk-short gh_x AKIA eyJ.eyJ",
        "[not json",
        "",
    ],
)
def test_what_is_no_secret_stays_as_it_is(text: str) -> None:
    """Not a space is changed where nothing is found."""
    assert masked(text) == text


@pytest.mark.parametrize("escape", ["\\u{:04x}", "\\\\u{:04X}", "%{:02X}"])
def test_a_key_spelled_in_escapes_amid_other_text_is_masked(escape: str) -> None:
    """JSON in a sentence is not read as JSON, and an address may spell any letter so."""
    key = KEYS["openai"]
    spelled = "".join(map(escape.format, map(ord, key)))
    assert masked(f'see {{"k": "{spelled}"}} and 100%') == f'see {{"k": "{MASK}"}} and 100%'


def test_code_about_secrets_stays_readable() -> None:
    """A name that a secret is given by is no secret: where else it stands it stays."""
    code = "api_key = self.api_key\ntoken = env['API_TOKEN']\nask(self.api_key, api_key)\n"
    masker = Masker()
    masker.text(code)
    assert not masker.found
    assert "ask(self.api_key, api_key)" in masker.text(code)


def test_what_a_run_is_told_with_is_known_too(tmp_path: Path) -> None:
    """A value is masked wherever it stands when a telling name stood before it once."""
    with sessions_in(tmp_path) as sessions:
        texts = Texts(error="password=hunter2-XYZ", content="it was hunter2-XYZ")
        session_id = filled(sessions._store, texts)
        for form in FORMS:
            assert b"hunter2" not in b"".join(sessions.export(session_id, form, redact=True))


def test_names_are_judged_whatever_their_spelling() -> None:
    """And counts, authors and keys of maps are none of them."""
    for name in ("apiKey", "API_KEY", "x-api-key", "accessToken", "PGPASSWORD", "clientSecret"):
        assert is_sensitive(name), name
    for name in ("author", "max_tokens", "tokenizer", "key", "keyboard", "passing", "compass", "n"):
        assert not is_sensitive(name), name
    assert environment_secrets(
        {"MY_API_KEY": "abcdefgh", "SSH_AUTH_SOCK": "/run/agent", "TOKEN": "short", "HOME": "x" * 9}
    ) == {"abcdefgh"}


@pytest.mark.parametrize("form", FORMS)
def test_a_live_secret_is_in_no_field_of_no_format(form: Any) -> None:
    """Raw, in an address, in base64, in hexadecimal, inside JSON: wherever text can stand."""
    raw = LIVE.encode()
    disguises = [
        *(LIVE, quote(LIVE), quote(LIVE, safe=""), base64.b64encode(raw).decode(), raw.hex()),
        *(json.dumps(LIVE), json.dumps({"a": LIVE}), LIVE.upper(), f"before{LIVE}after"),
        base64.urlsafe_b64encode(b"x" + raw + b"y").decode(),
    ]
    for disguise in disguises:
        with sessions_in() as sessions:
            session_id = filled(sessions._store, Texts().everywhere(disguise))
            sessions._secrets = lambda: (LIVE,)
            exact = b"".join(sessions.export(session_id, form, redact=False)).decode()
            found = b"".join(sessions.export(session_id, form, redact=True)).decode()
        assert MASK.strip("[]") in found
        assert exact != found
        for sign in (
            "live/secret",
            "live%2Fsecret",
            raw.hex(),
            base64.b64encode(raw)[3:-4].decode(),
        ):
            assert sign.lower() not in found.lower(), disguise


def test_c35_an_export_is_exact_unless_masking_is_asked_for(open_agent: OpenAgent) -> None:
    """A password that a tool was given is masked wherever else the conversation says it."""

    def db(password: str) -> str:
        """Connect."""
        return f"connected with {password}"

    arguments = '{"password":"hunter2-XYZ"}'
    script = [calling(("db", arguments)), said("I used hunter2-XYZ."), said("later")]
    agent = open_agent(script, tools=[db], api_key="live-key-of-the-runtime")
    agent.run("The password is hunter2-XYZ, the key live-key-of-the-runtime.")
    for form in FORMS:
        exact = b"".join(agent.sessions.export(format=form, redact=False)).decode()
        assert exact.replace("\\", "").count("hunter2-XYZ") >= 4
        assert "live-key" in exact.replace("\\", "")
        found = b"".join(agent.sessions.export(format=form, redact=True)).decode()
        assert "hunter2" not in found
        assert "live" not in found
        by_itself = b"".join(agent.sessions.export(format=form))
        is_masked = b"hunter2" not in by_itself
        assert is_masked == (form == "html")
    agent.run("again")
    sent = agent.provider.requests[-1].messages
    assert sent[1].tool_calls[0].arguments == arguments
    assert sent[2].content == "connected with hunter2-XYZ"


@pytest.mark.parametrize(
    "text",
    [
        *("eyj" * 100_000, "eyjaaaaaaaa-" * 20_000, "sg.aaaa-" * 25_000, "a.b-" * 62_000),
        *("password" * 25_000, "password: " * 25_000, "token=" * 37_000, "cookie:" * 25_000),
        *("-----BEGIN PRIVATE KEY-----" * 7_000, "bearer " * 25_000, "a://" * 50_000),
        *("?token" * 37_000, '"' * 225_000, "\\" * 225_000, "{" * 225_000, "[" * 225_000),
        *("sk-" * 75_000, "authorization: bearer " * 10_000, "-u " * 75_000, "--token " * 25_000),
        "\\" * 225_000 + "\\u0061",
        '{"a":' * 22_000 + "1" + "}" * 22_000,
        json.dumps({"a": "x" * 225_000}),
    ],
    ids=lambda text: text[:10],
)
def test_no_text_makes_masking_slow(text: str) -> None:
    """A text made to be looked at again and again: the time-out of the test would find it."""
    masked(text, "some-live-secret")


@given(st.text(max_size=30), st.sampled_from([*KEYS.values(), LIVE]), st.text(max_size=30))
@settings(max_examples=100, deadline=None)
def test_masking_leaks_nothing_and_is_done_once(before: str, secret: str, after: str) -> None:
    """Whatever is around it; and what is masked is not masked again."""
    text = f"{before} {secret} {after}"
    for carried in (text, json.dumps([text]), json.dumps({"k": json.dumps({"v": text})})):
        found = masked(carried, LIVE)
        assert secret not in found
        assert TAIL not in found
        assert masked(found, LIVE) == found
