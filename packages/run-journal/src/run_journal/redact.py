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

# Shapes of keys by an expression that each of them contains a match of. They are looked for only
# where that occurs, so a clean line costs one plain search for each row: one letter, or one that
# few words of a line have and little behind it.
_SHAPES: dict[str, tuple[str, ...]] = {
    r"k(?:[-_]|ey-1|ia|r_)": (
        r"c?sk-[a-z0-9_-]{20,}",
        r"sk_(?:live|test)_[a-z0-9]{16,}",
        r"rk_(?:live|test)_[a-z0-9]{16,}",
        r"gsk_[a-z0-9]{20,}",
        r"age-secret-key-1[a-z0-9]{20,}",
        r"akia[a-z0-9]{16}(?![a-z0-9])",
        r"dckr_pat_[a-z0-9_-]{20,}",
    ),
    r"h(?:[pousrf]_|ub_|sec_|pat_|vs\.)": (
        r"gh[pousr]_[a-z0-9]{20,}",
        r"hf_[a-z0-9]{20,}",
        r"github_pat_[a-z0-9_]{20,}",
        r"whsec_[a-z0-9]{16,}",
        r"shpat_[a-f0-9]{30,}",
        r"hvs\.[a-z0-9_-]{20,}",
    ),
    r"p(?:at-|i-|m_)": (
        r"glpat-[a-z0-9_-]{16,}",
        r"pypi-[a-z0-9_-]{30,}",
        r"nvapi-[a-z0-9_-]{30,}",
        r"npm_[a-z0-9]{30,}",
    ),
    r"i(?:a|za)": (r"asia[a-z0-9]{16}(?![a-z0-9])", r"aiza[a-z0-9_-]{30,}"),
    r"v(?:1_|ly-)": (r"do[opr]_v1_[a-f0-9]{30,}", r"tvly-[a-z0-9_-]{20,}"),
    r"g(?:\.|in)": (r"sg\.[a-z0-9_-]{16,}\.[a-z0-9_-]{16,}", r"-----begin"),
    r"x": (
        r"xox[a-z]-[a-z0-9-]{10,}",
        r"xapp-[a-z0-9-]{10,}",
        r"xai-[a-z0-9]{20,}",
        r"xkeysib-[a-f0-9]{30,}",
        r"pplx-[a-z0-9]{20,}",
    ),
    r"j": (r"eyj[a-z0-9_-]{8,}\.eyj[a-z0-9_-]{8,}",),
    r"ya29": (r"ya29\.[a-z0-9_-]{16,}",),
    r"8_": (r"r8_[a-z0-9]{20,}",),
    r"bearer": (r"bearer[\s:/.-]+[a-z0-9._-]{8,}",),
}
# Those with a percent sign, which hardly a line has, and the others.
_Forms = tuple[tuple[str, ...], tuple[str, ...]]

# No word border: `_` counts as a letter there, and a key may stand behind one.
_COMPILED = tuple(
    (re.compile(telltale).search, re.compile(f"(?<![a-z0-9])(?:{'|'.join(shapes)})"))
    for telltale, shapes in _SHAPES.items()
)


def key_shapes() -> tuple[str, ...]:
    """Return the shapes of well-known keys, as regular expressions for lower-case text."""
    return tuple(shape for shapes in _SHAPES.values() for shape in shapes)


def forms_of(secret: str) -> tuple[str, ...]:
    """Return the case-folded texts by which *secret* would show in a line; empty if too short."""
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
    folded = {form.casefold() for form in forms}
    # A form that contains another one cannot occur without it.
    return tuple(sorted(f for f in folded if not any(o != f and o in f for o in folded)))


class Guard:
    """Searches finished lines. `secrets` is asked again for every line, so rotation just works.

    Thread-safe: what it remembers is replaced as a whole.
    """

    __slots__ = ("_known", "_secrets")

    def __init__(self, secrets: Callable[[], Iterable[str]]) -> None:
        self._secrets = secrets
        self._known: tuple[tuple[str, ...], _Forms] = ((), ((), ()))

    def reason_against(self, body: str) -> TripReason | None:
        """Return why *body* must not be written, or None."""
        folded = body.casefold()  # `lower` makes another letter of a Greek one at a word's end
        quoted, others = self._forms()
        for form in (*others, *quoted) if "%" in folded else others:
            if form in folded:
                return TripReason.LIVE_KEY
        for find_telltale, shape in _COMPILED:
            if find_telltale(folded) and shape.search(folded):
                return TripReason.KEY_SHAPE
        return None

    def _forms(self) -> _Forms:
        secrets = tuple(self._secrets())
        known, forms = self._known
        if secrets != known:
            every = [form for secret in secrets for form in forms_of(secret)]
            quoted = tuple(form for form in every if "%" in form)
            forms = quoted, tuple(form for form in every if "%" not in form)
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
