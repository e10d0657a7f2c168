"""Secrets of many shapes, all invented, and the search for them in what a program put out.

Owns the shapes and the search. Invariant: a part of a secret and every usual encoding of it count
as the secret; the search shares no code with the package, which it is to check.
"""

from __future__ import annotations

import base64
import json
from urllib.parse import quote, quote_plus

SHORT = 12  # a part of a secret as long as this is a leak too

# All made up, and put together here so that scanners of repositories see none.
SHAPES = {
    "openai": "sk-" + "proj-" + "a1B2c3D4" * 5,
    "anthropic": "sk-" + "ant-api03-" + "Zz9Yy8Xx7" * 5,
    "github": "gh" + "p_" + "A1b2C3d4E" * 4,
    "github-fine": "github" + "_pat_" + "11AAbbCCdd" * 5,
    "gitlab": "gl" + "pat-" + "x9Y8z7W6v5U4t3S2r1Q0",
    "aws-id": "AK" + "IA" + "QWERTYUIOPASDFGH",
    "aws-secret": "wJalr" + "XUtnFEMI/K7MDENG+bPxRfiCYzzINVENTEDKEY",
    "google": "AI" + "za" + "SyB_c2d4E6f8G0h2I4j6K8l0M2n4O6p8Q",
    "google-oauth": "ya" + "29." + "a0AfB_byCinventedinventedinvented",
    "slack-bot": "xo" + "xb-" + "1234567890-abcdefghijKLMNOP",
    "slack-app": "xa" + "pp-" + "1-A0123456789-9876543210-abcdef",
    "hugging-face": "hf" + "_" + "AbCdEfGhIjKlMnOpQrStUvWxYz01234567",
    "groq": "gs" + "k_" + "aBcDeFgHiJkLmNoPqRsTuVwXyZ012345",
    "xai": "xa" + "i-" + "0a1b2c3d4e5f6g7h8i9j0k1l2m3n4o5p",
    "stripe": "sk" + "_live_" + "a1b2c3d4e5f6g7h8i9j0k1l2",
    "webhook": "wh" + "sec_" + "Mfke9Xq7Tz3Rb5Vn1Kc8Wd2Yp4Hs6Jg0",
    "npm": "np" + "m_" + "zYxWvUtSrQpOnMlKjIhGfEdCbA9876543210",
    "pypi": "py" + "pi-" + "AgEIcHlwaS5vcmcCJGludmVudGVkaW52ZW50ZWQ",
    "sendgrid": "SG" + "." + "inventedInventedInven" + ".t3dInventedInventedInventedInvented1",
    "jwt": "ey" + "JhbGciOiJIUzI1NiJ9.ey" + "JzdWIiOiJpbnZlbnRlZCJ9.c2lnbmF0dXJlaW52ZW50ZWQ",
    "pem": "-----BEGIN " + "PRIVATE KEY-----\nMIIEvQinventedKEYinvented\n-----END PRIVATE KEY-----",
    "age": "AGE-SECRET-" + "KEY-1QQPZRY9X8GF2TVDW0S3JN54KHCE6MUA7L",
    "database-url": "postgres://ann:" + "s3cr3t-p4ssw0rd" + "@db.internal:5432/prod",
    "password": "hunter2-" + "XYZ-0815",
    "one-word": "CorrectHorse" + "BatteryStaple",
    "quoted": "pa\"ss'wo\\rd" + " with {braces} & %signs%",
    "beyond-ascii": "пароль-" + "påssø-秘密-0815",
    "hex": "0123abcd4567ef89" * 4,
    "azure": "Zm9vYmFy" + "aW52ZW50ZWRrZXlpbnZlbnRlZGtleQ==",
    "several-lines": "line one of it\n" + "line two of it\tend",
}


def shows(secret: str, text: str) -> bool:
    """Whether *secret*, or a part of it, stands in *text* raw or in any usual form."""
    raw, lowered = secret.encode(), text.lower()
    forms = {secret, json.dumps(secret)[1:-1], repr(secret)[1:-1], raw.hex(), quote_plus(secret)}
    forms |= {quote(secret), quote(secret, safe=""), ascii(secret)[1:-1]}
    for shift, dirty in ((0, 0), (1, 2), (2, 3)):
        padded = b"\0" * shift + raw
        clean = len(padded) * 8 // 6
        for encode in (base64.b64encode, base64.urlsafe_b64encode):
            forms.add(encode(padded).decode()[dirty:clean])
    forms |= {secret[at : at + SHORT] for at in range(len(secret) - SHORT + 1)}
    return any(form.lower() in lowered for form in forms)
