"""The last line of defence: a finished line is searched for secrets before it reaches the disk.

Owns two searches: for every live secret in the forms in which one may travel (raw, URL-quoted,
hex, base64 at its three alignments and in both alphabets, JSON-escaped), and for the shapes of
well-known keys. Invariant: it decides only yes or no; it never rewrites a line and never keeps,
prints or returns what it found. It is not how redaction works here, events being typed is, so a
hit is a bug.

Upper and lower case are not told apart. A secret of fewer than 8 characters is not searched for:
dummy keys such as `none` or `ollama` are parts of ordinary words.
"""

from __future__ import annotations

import base64
import json
import re
from typing import TYPE_CHECKING
from urllib.parse import quote, quote_plus

from run_journal.vocabulary import TripReason

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

MIN_SECRET_LENGTH = 8

# Shapes of keys by a text that each of them contains. They are looked for only where that text
# occurs, so a clean line costs one plain search for each row; a letter that is rare in lines is
# the cheapest of all.
_SHAPES: dict[str, tuple[str, ...]] = {
    "k-": (r"c?sk-[a-z0-9_-]{20,}",),
    "k_": (
        r"sk_(?:live|test)_[a-z0-9]{16,}",
        r"rk_(?:live|test)_[a-z0-9]{16,}",
        r"gsk_[a-z0-9]{20,}",
    ),
    "sec_": (r"whsec_[a-z0-9]{16,}",),
    "gh": (r"gh[pousr]_[a-z0-9]{20,}",),
    "pat": (
        r"github_pat_[a-z0-9_]{20,}",
        r"glpat-[a-z0-9_-]{16,}",
        r"shpat_[a-f0-9]{30,}",
        r"dckr_pat_[a-z0-9_-]{20,}",
    ),
    "ia": (r"akia[a-z0-9]{16}(?![a-z0-9])", r"asia[a-z0-9]{16}(?![a-z0-9])"),
    "aiza": (r"aiza[a-z0-9_-]{30,}",),
    "ya29.": (r"ya29\.[a-z0-9_-]{16,}",),
    "x": (
        r"xox[a-z]-[a-z0-9-]{10,}",
        r"xapp-[a-z0-9-]{10,}",
        r"xai-[a-z0-9]{20,}",
        r"xkeysib-[a-f0-9]{30,}",
        r"pplx-[a-z0-9]{20,}",
    ),
    "hf_": (r"hf_[a-z0-9]{20,}",),
    "r8_": (r"r8_[a-z0-9]{20,}",),
    "npm_": (r"npm_[a-z0-9]{30,}",),
    "pi-": (r"pypi-[a-z0-9_-]{30,}", r"nvapi-[a-z0-9_-]{30,}"),
    "_v1_": (r"do[opr]_v1_[a-f0-9]{30,}",),
    "tvly-": (r"tvly-[a-z0-9_-]{20,}",),
    "hvs.": (r"hvs\.[a-z0-9_-]{20,}",),
    "sg.": (r"sg\.[a-z0-9_-]{16,}\.[a-z0-9_-]{16,}",),
    "age-": (r"age-secret-key-1[a-z0-9]{20,}",),
    "j": (r"eyj[a-z0-9_-]{8,}\.eyj[a-z0-9_-]{8,}",),
    "-----": (r"-----begin",),
    "bearer": (r"bearer[\s:/.-]+[a-z0-9._-]{8,}",),
}
# No word border: `_` counts as a letter there, and a key may stand behind one.
_COMPILED = tuple(
    (telltale, re.compile(f"(?<![a-z0-9])(?:{'|'.join(shapes)})"))
    for telltale, shapes in _SHAPES.items()
)


def forms_of(secret: str) -> tuple[str, ...]:
    """Return the lower-case texts by which *secret* would show in a line; empty if too short."""
    if len(secret) < MIN_SECRET_LENGTH:
        return ()
    raw = secret.encode("utf-8", "surrogatepass")
    forms = {
        secret,
        json.dumps(secret)[1:-1],
        quote(raw, safe=""),
        quote(raw),
        quote_plus(raw),
        "".join(f"%{byte:02x}" for byte in raw),
        raw.hex(),
        *_base64_cores(raw),
    }
    lowered = {form.lower() for form in forms}
    # A form that contains another one cannot occur without it.
    return tuple(sorted(f for f in lowered if not any(o != f and o in f for o in lowered)))


class Guard:
    """Searches finished lines. `secrets` is asked again for every line, so rotation just works.

    Thread-safe: what it remembers is replaced as a whole.
    """

    __slots__ = ("_known", "_secrets")

    def __init__(self, secrets: Callable[[], Iterable[str]]) -> None:
        self._secrets = secrets
        self._known: tuple[tuple[str, ...], tuple[str, ...]] = ((), ())

    def reason_against(self, body: str) -> TripReason | None:
        """Return why *body* must not be written, or None."""
        lowered = body.lower()
        for form in self._forms():
            if form in lowered:
                return TripReason.LIVE_KEY
        for telltale, shape in _COMPILED:
            if telltale in lowered and shape.search(lowered):
                return TripReason.KEY_SHAPE
        return None

    def _forms(self) -> tuple[str, ...]:
        secrets = tuple(self._secrets())
        known, forms = self._known
        if secrets != known:
            forms = tuple(form for secret in secrets for form in forms_of(secret))
            self._known = (secrets, forms)
        return forms


def _base64_cores(raw: bytes) -> set[str]:
    """Base64 of *raw* inside a longer text: the characters that no neighbour can change."""
    cores = set()
    for shift, dirty in ((0, 0), (1, 2), (2, 3)):
        padded = b"\0" * shift + raw
        clean = len(padded) * 8 // 6
        for encode in (base64.b64encode, base64.urlsafe_b64encode):
            cores.add(encode(padded).decode("ascii")[dirty:clean])
    return cores
