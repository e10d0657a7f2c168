"""Secrets in text: found by what is known of them, by their shape, or by the name before them.

Owns `Masker`, which puts `MASK` in place of what it finds. Invariant: every search is linear in
the text, whoever wrote it; a text in which nothing is found comes back as the same text. JSON is
looked at as JSON, leaf by leaf, so that no escaping hides anything, and stays JSON.

Must not: promise anything. A secret of no known shape, under no telling name and unknown to this
process cannot be told from other text.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from functools import cache
from itertools import pairwise
from typing import Any

from run_journal import forms_of, key_shapes
from sessions_api.transfer.sensitive_names import is_sensitive

MASK = "[redacted]"
_DEEPEST_TEXT = 6  # JSON in a text in JSON in a text …
_LONGEST_FOUND, _MOST_FOUND = 4096, 100
_SHORTEST_FOUND, _SHORTEST_MIXED = 8, 5
_SHORTEST_PART = 10

# Shapes that could be begun at each place of a text and looked for to its end, which takes the
# square of it, and what begins a key in lines: these are searched for in ways of their own below.
_OWN_SEARCH = ("eyj", r"sg\.", "-----")
_DOTTED = re.compile(r"(?<![A-Za-z0-9_.-])[A-Za-z0-9_-]+(?:\.[A-Za-z0-9_-]+)+")
_KEY_BLOCK = re.compile(
    r"-----BEGIN [A-Z0-9 ]{0,40}PRIVATE KEY[A-Z ]{0,10}-----"
    r"(?:[^-]|-(?!----)){0,16384}(?:-----END [A-Z0-9 ]{0,60}-----)?"
)
_URL_USER = re.compile(r"([A-Za-z][A-Za-z0-9+.-]{1,30}://)[^\s/?#@\"'<>\\]{1,512}@")
_URL_VALUE = re.compile(
    r"([?&;][\w.-]{0,40}(?:token|key|secret|password|passwd|pwd|auth|credential|signature|sig|session"
    r"|code)[\w.-]{0,20}=)[^&#\s\"'<>\\\[]{1,8192}",
    re.IGNORECASE,
)
_NAME = (
    r"(?:pass(?:word|wd|phrase|code)|pwd|secret|api[_-]?key|access[_-]?key|private[_-]?key"
    r"|credential|authorization|token(?!s)|cookie|passwort|kennwort|contrase(?:ñ|n)a|senha|пароль"
    r"|密码|密碼|パスワード|비밀번호)[\w-]{0,30}"
)
_SCHEMES = r"(?:bearer|basic|digest|token)[ \t]{1,4}"
_SCHEME = rf"(?:{_SCHEMES})?"
_NAMED_QUOTED = re.compile(
    rf"({_NAME}[\"'\\]{{0,4}}\s{{0,4}}(?:=>|[:=])\s{{0,4}}{_SCHEME})"
    r"(?:\"((?:\\.|[^\"\\\n]){1,4096})\"|'((?:\\.|[^'\\\n]){1,4096})')",
    re.IGNORECASE,
)
_NAMED_BARE = re.compile(
    rf"({_NAME}[\"'\\]{{0,4}}\s{{0,4}}(?:=>|[:=])\s{{0,4}}[\"'\\]{{0,4}}{_SCHEME})"
    rf"(?!{_SCHEMES})([^\s\"'\\,;&<>(){{}}\[\]]{{1,4096}})",
    re.IGNORECASE,
)
_FLAG = re.compile(
    r"((?<![\w-])--?(?:password|passwd|token|secret|api-?key|auth)[ \t]{1,4}|"
    r"(?<![\w-])(?:-u|--user)[ \t]{1,4}[^\s:]{1,64}:)([^\s\"'\[]{1,4096})",
    re.IGNORECASE,
)
_CODE_NAME = re.compile(r"[A-Za-z/]*(?:[_./][A-Za-z]+)+_?")
_JSON_ESCAPE = re.compile(r"(?<!\\)\\+u00([2-7][0-9A-Fa-f])")
_URL_ESCAPE = re.compile(r"%([2-7][0-9A-Fa-f])")
_COOKIES = re.compile(
    r"((?:set-)?cookie[ \t]{0,4}:[ \t]{0,4})([^\s\[][^\r\n]{0,8191})", re.IGNORECASE
)


# One of these stands in every name that is searched for: most texts have none, and are done.
_TELLTALE = re.compile(
    "pass|pwd|secret|key|credential|auth|token|cookie|kennwort|contrase|senha|-u"
    "|парол|密|パスワード|비밀번호"
)


@cache
def _shape() -> tuple[re.Pattern[str], re.Pattern[str]]:
    """Return what finds a key in folded text, quickly, and what finds it in any text."""
    shapes = [shape for shape in key_shapes() if not shape.startswith(_OWN_SEARCH)]
    begin = f"(?<![a-z0-9])(?:{'|'.join(shapes)})"
    # What follows a key in its own alphabet goes with it: a shape tells where one begins.
    return re.compile(begin), re.compile(f"{begin}[a-z0-9_+/=~-]*", re.IGNORECASE)


class Masker:
    """Masks secrets. `known` are looked for in every form that a text may carry them in.

    `found` collects what stood under telling names, so that a second masker knows it wherever else
    it occurs. Not for two threads at once.
    """

    def __init__(self, known: Iterable[str] = ()) -> None:
        self.known = frozenset(known)
        self.found: set[str] = set()
        forms = {form for secret in self.known for form in (secret, *forms_of(secret))}
        self._forms = tuple(
            (form, re.compile(re.escape(form), re.IGNORECASE))
            for form in sorted(forms, key=len, reverse=True)
            if form
        )

    def text(self, text: str) -> str:
        """Return *text*, which may be JSON, with its secrets masked."""
        return self._text(text, 0)

    def optional(self, text: str | None) -> str | None:
        """Return `text` of *text*, and None as None."""
        return None if text is None else self.text(text)

    def value(self, value: Any) -> Any:
        """Return a JSON value with its secrets masked; what stands under telling names is one."""
        return self._value(value, 0)

    def _text(self, text: str, depth: int) -> str:
        if depth < _DEEPEST_TEXT and text.lstrip()[:1] in ("{", "["):
            try:
                before = json.loads(text, object_pairs_hook=_every_member)
                after = self._value(before, depth + 1)
                if after != before:
                    return self._plain(json.dumps(after, ensure_ascii=False), in_json=True)
            except (ValueError, RecursionError):
                return self._plain(text, in_json=False)  # it only looks like JSON
            return self._plain(text, in_json=True)
        return self._plain(text, in_json=False)

    def _value(self, value: Any, depth: int) -> Any:
        if isinstance(value, str):
            return self._text(value, depth)
        if isinstance(value, Mapping):
            return {
                self._text(str(name), depth): (
                    self._hidden(one) if is_sensitive(str(name)) else self._value(one, depth)
                )
                for name, one in value.items()
            }
        if isinstance(value, list | tuple):
            return [self._value(one, depth) for one in value]
        return value

    def _hidden(self, value: Any) -> Any:
        """Return what stands for *value*, which stood under a telling name, and remember it."""
        if isinstance(value, Mapping):
            return {self.text(str(name)): self._hidden(one) for name, one in value.items()}
        if isinstance(value, list | tuple):
            return [self._hidden(one) for one in value]
        if value is None or isinstance(value, bool) or value == "":
            return value
        self._remember(str(value))
        return MASK

    def _remember(self, secret: str) -> None:
        is_mixed = any(map(str.isalpha, secret)) and not secret.isalpha()
        shortest = _SHORTEST_MIXED if is_mixed else _SHORTEST_FOUND
        if shortest <= len(secret) <= _LONGEST_FOUND and len(self.found) < _MOST_FOUND:
            self.found.add(secret)

    def _plain(self, text: str, *, in_json: bool) -> str:
        masked = self._searched(text, in_json=in_json)
        spelled = _without_needless_escapes(masked)
        if spelled == masked:
            return masked
        again = self._searched(spelled, in_json=in_json)
        return masked if again == spelled else again

    def _searched(self, text: str, *, in_json: bool) -> str:
        lowered = text.casefold()
        for form, pattern in self._forms:
            if form in lowered or form in text:
                text = pattern.sub(MASK, text)
        if "private key" in lowered:
            text = _KEY_BLOCK.sub(MASK, text)
        if ".eyj" in lowered or "sg." in lowered:
            text = _DOTTED.sub(_masked_if_token, text)
        is_there, shape = _shape()
        if is_there.search(lowered):
            text = shape.sub(MASK, text)
        if "://" in text:
            text = _URL_USER.sub(rf"\1{MASK}@", text)
        if "=" in text:
            text = _URL_VALUE.sub(rf"\1{MASK}", text)
        if not _TELLTALE.search(lowered):
            return text
        text = _NAMED_QUOTED.sub(self._masked_in_quotes, text)
        if not in_json:
            text = _COOKIES.sub(rf"\1{MASK}", text)
            text = _FLAG.sub(self._masked_bare, text)
            text = _NAMED_BARE.sub(self._masked_bare, text)
        return text

    def _masked_in_quotes(self, match: re.Match[str]) -> str:
        value = match[2] or match[3]
        if value == MASK:
            return match[0]
        if not _is_code(value):
            self._remember(value)
        quote = match[0][-1]
        return f"{match[1]}{quote}{MASK}{quote}"

    def _masked_bare(self, match: re.Match[str]) -> str:
        # A word alone, "required" say, is masked here but not elsewhere.
        if not (match[2].isalpha() or _is_code(match[2])):
            self._remember(match[2])
        return match[1] + MASK


def _every_member(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Return an object in which a name that stands twice hides nothing: it gets a number before."""
    found: dict[str, Any] = {}
    for name, value in pairs:
        found[f"{len(found)}#{name}" if name in found else name] = value
    return found


def _without_needless_escapes(text: str) -> str:
    """Return *text* with letters and digits themselves where JSON or an address has them escaped.

    JSON amid other text is not looked at as JSON, and nobody has to write a letter as it is.
    """
    if "\\u00" in text:
        text = _JSON_ESCAPE.sub(_character, text)
    if "%" in text:
        text = _URL_ESCAPE.sub(_character, text)
    return text


def _character(match: re.Match[str]) -> str:
    character = chr(int(match[1], 16))
    return character if character.isalnum() or character in "-_." else match[0]


def _is_code(value: str) -> bool:
    """Whether *value* is what code calls a secret, `self.api_key`, and stands in many places."""
    return bool(_CODE_NAME.fullmatch(value)) and is_sensitive(value)


def _masked_if_token(match: re.Match[str]) -> str:
    """Mask a signed token (JWT), or a key in three dotted parts."""
    parts = match[0].lower().split(".")
    for before, after in pairwise(parts):
        begin = before.find("eyj")
        is_long = len(after) > _SHORTEST_PART
        is_header = begin >= 0 and len(before) - begin > _SHORTEST_PART
        if is_long and (before.endswith("sg") or (is_header and after.startswith("eyj"))):
            return MASK
    return match[0]
