"""Names under which people and programs keep secrets.

Invariant: a name is judged alone, without its value, whatever its spelling: `apiKey`, `API_KEY` and
`x-api-key` are one. Counts such as `max_tokens` are none.

Must not: be taken for complete. It errs on the side of masking.
"""

from __future__ import annotations

import re

_WORD = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|\d+")
_PARTS = (
    *("password", "passwd", "passphrase", "passcode", "secret", "apikey", "accesskey"),
    *("privatekey", "signingkey", "encryptionkey", "credential", "authorization", "cookie"),
    *("connectionstring", "bearer", "passwort", "kennwort", "contrasena", "senha"),
)
_FOREIGN_PARTS = ("contraseña", "пароль", "密码", "密碼", "パスワード", "비밀번호")
_WORDS = {"pwd", "pass", "auth", "jwt", "otp", "pin", "cvv", "cvc", "mnemonic"}


def is_sensitive(name: str) -> bool:
    """Whether what stands under *name* is likely a secret."""
    words = [word.lower() for word in _WORD.findall(name)]
    joined = "".join(words)
    return (
        any(part in joined for part in _PARTS)
        or joined.endswith("token")
        or not _WORDS.isdisjoint(words)
        or (not name.isascii() and any(part in name.lower() for part in _FOREIGN_PARTS))
    )
