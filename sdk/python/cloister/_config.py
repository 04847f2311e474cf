# SPDX-License-Identifier: Apache-2.0
"""Which server to ask, and with which key: arguments, then CLOISTER_URL and CLOISTER_API_KEY, then the server of this
account, which the command line finds in the same way: `address`, `admin.key` and `certificate.pem` in its state directory.

The key of a state directory is sent to no address but that of its own server. A URL is https://…, http://…, or
unix:/PATH for the server's Unix socket.
"""

from __future__ import annotations

import os
import pathlib
import ssl
import urllib.parse
from dataclasses import dataclass
from typing import Optional

from .errors import ConfigurationError

_MOST_BYTES = 4096


@dataclass(frozen=True)
class Target:
    """A server and the way to it."""

    host: str
    port: int
    base: str  # the path before every target; "" or "/…" without a slash at the end
    socket: Optional[str] = None  # the path of a Unix socket
    tls: bool = False
    api_key: Optional[str] = None
    ca: Optional[str] = None
    pinned: Optional[str] = None  # the certificate of this account's own server
    certificate: Optional[str] = None
    certificate_key: Optional[str] = None

    @property
    def authority(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        return host if self.port == (443 if self.tls else 80) else f"{host}:{self.port}"

    @property
    def url(self) -> str:
        """The URL before every target."""
        if self.socket:
            return f"unix:{self.socket}"
        return f"{'https' if self.tls else 'http'}://{self.authority}{self.base}"

    def ssl_context(self) -> Optional[ssl.SSLContext]:
        if not self.tls:
            return None
        try:
            context = ssl.create_default_context(cafile=self.pinned or self.ca)
            if self.pinned:  # exactly this certificate, whatever its name
                context.check_hostname = False
                context.verify_flags |= getattr(ssl, "VERIFY_X509_PARTIAL_CHAIN", 0x80000)
            if self.certificate:
                context.load_cert_chain(self.certificate, self.certificate_key)
        except (OSError, ValueError) as error:
            raise ConfigurationError(f"reading the certificates: {error}",
                                     remedy="check CLOISTER_CA, CLOISTER_CERT and CLOISTER_CERT_KEY") from None
        context.minimum_version = ssl.TLSVersion.TLSv1_2
        return context


def parse(url: str) -> Target:
    """The target of a URL, without a key."""
    if url.startswith("unix:"):
        path = url[len("unix:"):]
        if not path.startswith("/"):
            raise ConfigurationError(f"reading the URL {url!r}: the path is not absolute", remedy="give unix:/PATH")
        return Target(host="localhost", port=80, base="", socket=path)
    try:
        parts = urllib.parse.urlsplit(url)
        port = parts.port
    except ValueError as error:
        raise ConfigurationError(f"reading the URL {url!r}: {error}", remedy="give http://HOST:PORT or https://HOST") from None
    unsafe = any(not "!" <= character <= "~" for character in url)
    if parts.scheme not in ("http", "https") or not parts.hostname or "@" in parts.netloc or parts.query or parts.fragment or unsafe:
        raise ConfigurationError(f"reading the URL {url!r}: only scheme, host, port and path are understood",
                                 remedy="give http://HOST:PORT or https://HOST")
    tls = parts.scheme == "https"
    return Target(host=parts.hostname, port=port or (443 if tls else 80), base=parts.path.rstrip("/"), tls=tls)


def state_directory() -> pathlib.Path:
    """The state directory of this account's server."""
    if hasattr(os, "geteuid") and os.geteuid() == 0:
        return pathlib.Path("/var/lib/cloister")
    state = os.environ.get("XDG_STATE_HOME", "")
    return pathlib.Path(state if state.startswith("/") else os.path.expanduser("~/.local/state")) / "cloister"


def _first_line(path: pathlib.Path) -> str:
    try:
        with open(path, "rb") as file:
            return file.read(_MOST_BYTES).decode("utf-8", "replace").split("\n", 1)[0].strip()
    except OSError:
        return ""


def _is_held(directory: pathlib.Path) -> bool:
    """Whether a server runs on the directory. A server holds the lock as long as it lives."""
    try:
        import fcntl

        with open(directory / "lock", "rb") as file:
            fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
            return False
    except BlockingIOError:
        return True
    except (ImportError, OSError):
        return False


def _local(directory: pathlib.Path) -> Optional[Target]:
    """The server of the state directory, with its key; None if no server runs."""
    address = _first_line(directory / "address") if _is_held(directory) else ""
    if not address:
        return None
    target = parse(address if "//" in address or address.startswith("unix:") else f"http://{address}")
    pinned = str(directory / "certificate.pem") if target.tls else None
    return _with(target, api_key=_first_line(directory / "admin.key") or None, pinned=pinned)


def _with(target: Target, **changes: Optional[str]) -> Target:
    return Target(**{**target.__dict__, **changes})


def resolve(url: Optional[str] = None, api_key: Optional[str] = None, ca: Optional[str] = None,
            state: Optional[str] = None) -> Target:
    """The server to ask. Raises ConfigurationError if nothing names one."""
    url = url or os.environ.get("CLOISTER_URL") or None
    api_key = api_key or os.environ.get("CLOISTER_API_KEY") or None
    if api_key and any(not "!" <= character <= "~" for character in api_key):
        raise ConfigurationError("reading the key: it has characters that no key has", remedy="give the key alone")
    local = _local(pathlib.Path(state) if state else state_directory()) if not (url and api_key) or url.startswith("https:") else None
    if url is None:
        if local is None:
            raise ConfigurationError("finding a server: none runs on this account")
        return _with(local, api_key=api_key or local.api_key, ca=ca)
    target = parse(url)
    same = local is not None and (local.authority, local.tls, local.socket) == (target.authority, target.tls, target.socket)
    if local is not None and same:
        api_key = api_key or local.api_key
        target = _with(target, pinned=None if ca else local.pinned)
    return _with(target, api_key=api_key, ca=ca or os.environ.get("CLOISTER_CA") or None,
                 certificate=os.environ.get("CLOISTER_CERT") or None,
                 certificate_key=os.environ.get("CLOISTER_CERT_KEY") or None)
