"""What every request passes first: the Host, the Origin, the size; and the headers every reply leaves with.

A page on another site can make a browser send requests here. They are stopped four times over: the Host must be ours
(a name that was re-bound to 127.0.0.1 is not), the Origin of a change must be ours, the cookie is SameSite=Strict, and
a change needs a token that only our page can read.
"""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable, MutableMapping
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import urlsplit

from ncalr.errors import BadInput

Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
App = Callable[[Message, Receive, Send], Awaitable[None]]

BODY = 2**20
SAFE = {"GET", "HEAD", "OPTIONS"}
PAGE_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' blob:; connect-src 'self'; "
    "manifest-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
MEDIA_POLICY = "default-src 'none'; sandbox; frame-ancestors 'none'"
HEADERS = {
    "content-security-policy": PAGE_POLICY,
    "x-content-type-options": "nosniff",
    "referrer-policy": "no-referrer",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "permissions-policy": "camera=(), microphone=(), geolocation=()",
    "cache-control": "no-store",
}


@dataclass(frozen=True)
class Address:
    """Where the server is reached: by itself on loopback, or under one public URL."""

    host: str = "127.0.0.1"
    port: int = 8765
    public_url: str = ""
    hosts: frozenset[str] = field(init=False)
    origins: frozenset[str] = field(init=False)

    def __post_init__(self) -> None:
        if self.public_url:
            parts = urlsplit(self.public_url)
            if parts.scheme not in ("http", "https") or not parts.netloc or parts.path not in ("", "/"):
                raise BadInput(
                    "--public-url is the address people type, such as https://labels.example.org; "
                    f"got {self.public_url!r}"
                )
            hosts, origins = {parts.netloc.lower()}, {f"{parts.scheme}://{parts.netloc}".lower()}
        else:
            names = ["127.0.0.1", "localhost", "[::1]"]
            hosts = {f"{name}:{self.port}" for name in names}
            origins = {f"http://{name}:{self.port}" for name in names}
        object.__setattr__(self, "hosts", frozenset(hosts))
        object.__setattr__(self, "origins", frozenset(origins))

    @property
    def secure(self) -> bool:
        """Whether people come by TLS."""
        return self.public_url.startswith("https://")

    @property
    def url(self) -> str:
        """What to type."""
        return self.public_url.rstrip("/") or f"http://{self.host}:{self.port}"


class Guard:
    """The checks, around an app."""

    def __init__(self, app: App, address: Address) -> None:
        self.app, self.address = app, address

    async def __call__(self, scope: Message, receive: Receive, send: Send) -> None:
        """Let a request through, or answer it here."""
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        headers = {name.decode("latin-1").lower(): value.decode("latin-1") for name, value in scope["headers"]}
        refused = self._refusal(scope["method"], headers)
        if refused is not None:
            await _answer(send, *refused)
            return
        await self.app(scope, _limited(receive), _with_headers(send, self.address.secure))

    def _refusal(self, method: str, headers: dict[str, str]) -> tuple[int, str] | None:
        host = headers.get("host", "").lower()
        if host not in self.address.hosts:  # by 421 the page knows that an answer may wait
            return 421, (
                f"this server does not answer to the name {host[:100]!r}; it is {self.address.url}. Behind a proxy, or "
                "under another name, start it with --public-url https://the.name"
            )
        origin = headers.get("origin", "").lower()
        if method not in SAFE and origin and origin not in self.address.origins:
            return 403, (
                f"a change was asked for by a page from {origin[:100]!r}, and this server is {self.address.url}. If "
                "that is its name, start it with --public-url and that name"
            )
        if headers.get("content-length", "0").isdigit() and int(headers.get("content-length", "0")) > BODY:
            return 413, f"a request has at most {BODY:,} bytes"
        return None


class TooLarge(Exception):
    """A body without an honest length went on and on."""


def _limited(receive: Receive) -> Receive:
    seen = 0

    async def wrapped() -> Message:
        nonlocal seen
        message = await receive()
        seen += len(message.get("body", b""))
        if seen > BODY:
            raise TooLarge
        return message

    return wrapped


def _with_headers(send: Send, secure: bool) -> Send:
    extra = {"strict-transport-security": "max-age=31536000"} if secure else {}

    async def wrapped(message: Message) -> None:
        if message["type"] == "http.response.start":
            there = {name.lower() for name, _ in message["headers"]}
            message["headers"] = [
                *message["headers"],
                *((n.encode(), v.encode()) for n, v in {**HEADERS, **extra}.items() if n.encode() not in there),
            ]
        await send(message)

    return wrapped


async def _answer(send: Send, status: int, text: str) -> None:
    body = json.dumps({"error": text}).encode()
    headers = [(name.encode(), value.encode()) for name, value in HEADERS.items()]
    headers += [(b"content-type", b"application/json"), (b"content-length", str(len(body)).encode())]
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": body})
