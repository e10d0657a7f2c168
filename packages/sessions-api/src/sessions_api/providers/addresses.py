"""Addresses of services: what may be stored and shown of one, and when two are the same place.

Owns both, for providers and for the consent that a history needs to go elsewhere. Invariants: user
name, password, query and fragment, where keys are put, are in no stored address; two texts that
lead to one place are one address, and two that cannot be read are the same only if they are equal.

Must not: look a name up.
Source: RFC 3986, "Scheme-Based Normalization"; RFC 6454, "Origin of a URI".
"""

from __future__ import annotations

from urllib.parse import SplitResult, urlsplit, urlunsplit

_DEFAULT_PORTS = {"http": 80, "https": 443}


def without_secrets(address: str) -> str:
    """Return what may be stored of *address*, in its one form: no credentials, no slash at the end.

    A text that names no host comes back as it is.
    """
    parts = _parts(address)
    if parts is None:
        return address
    return urlunsplit((parts.scheme, _place(parts), parts.path.rstrip("/"), "", ""))


def origin_of(address: str) -> tuple[str, str]:
    """Return scheme and host, the latter with its port: where a request to *address* goes."""
    parts = _parts(address)
    return ("", address) if parts is None else (parts.scheme, _place(parts))


def host_of(address: str) -> str:
    """Return the host that *address* names, with its port, as people know the service."""
    return origin_of(address)[1]


def is_http(address: str) -> bool:
    """Whether *address* is one that a request can be sent to over HTTP, as it stands."""
    parts = _parts(address)
    written_right = address.isprintable() and " " not in address
    return parts is not None and parts.scheme in _DEFAULT_PORTS and written_right


def _parts(address: str) -> SplitResult | None:
    try:
        parts = urlsplit(address)
        usable = bool(parts.hostname) and parts.port != 0
    except ValueError:  # a port that is no number, half an IPv6 address
        return None
    return parts if usable else None


def _place(parts: SplitResult) -> str:
    host = parts.hostname or ""
    named = f"[{host}]" if ":" in host else host
    usual = parts.port in {None, _DEFAULT_PORTS.get(parts.scheme)}
    return named if usual else f"{named}:{parts.port}"
