# SPDX-License-Identifier: Apache-2.0
"""An authoritative DNS server (RFC 1035) that answers for every name, and logs each query."""

import asyncio
import socket
import struct

TYPES = {"A": 1, "NS": 2, "CNAME": 5, "SOA": 6, "PTR": 12, "MX": 15, "TXT": 16, "AAAA": 28, "SRV": 33, "HTTPS": 65, "ANY": 255}
NAMES = {number: name for name, number in TYPES.items()}
NXDOMAIN, NOTIMP, FORMERR = 3, 4, 1
TTL = 0  # seconds, unless told otherwise: each dial of a resolver without a cache of its own asks again
MOST_DEPTH = 4  # of CNAMEs


def packed_name(name):
    return b"".join(bytes([len(label)]) + label.encode("latin-1") for label in name.split(".") if label) + b"\0"


def packed_data(kind, data):
    if kind == "A":
        return socket.inet_aton(data)
    if kind == "AAAA":
        return socket.inet_pton(socket.AF_INET6, data)
    if kind == "CNAME":
        return packed_name(data)
    if kind == "MX":
        return struct.pack("!H", 10) + packed_name(data)
    if kind == "TXT":
        return bytes([len(data)]) + data.encode()
    if kind == "HTTPS":  # priority 1, a target, and ipv4hint (SvcParamKey 4) of evil
        return struct.pack("!H", 1) + packed_name(data) + struct.pack("!HH", 4, 4) + socket.inet_aton("203.0.113.66")
    raise ValueError(kind)


def question(message):
    """→ (name as sent, type, end of the question)."""
    at, labels = 12, []
    while True:
        length = message[at]
        if length == 0:
            break
        if length > 63:
            raise ValueError("a compressed question")
        labels.append(message[at + 1:at + 1 + length].decode("latin-1"))
        at += 1 + length
    kind, _ = struct.unpack_from("!HH", message, at + 1)
    return ".".join(labels), kind, at + 5


class Server:
    """`log`: called with the fields of an event."""

    def __init__(self, zone, log, ttl=TTL):
        self._zone, self._log, self._ttl = zone, log, ttl

    def _collect(self, name, kind, depth=0):
        found = self._zone.records(name)
        if found is None or depth > MOST_DEPTH:
            return None
        answers = [(name, each, data) for each, data in found if each == kind or kind == "ANY"]
        alias = [data for each, data in found if each == "CNAME"]
        if alias and kind != "CNAME":
            answers = [(name, "CNAME", alias[0]), *(self._collect(alias[0], kind, depth + 1) or [])]
        return answers

    def answer(self, message, transport, peer):
        """→ the answer's bytes; b"" for noise."""
        if len(message) < 17 or message[2] & 0x80:
            return b""
        try:
            name, number, end = question(message)
        except (IndexError, struct.error, ValueError):
            return b""
        kind = NAMES.get(number, str(number))
        self._log(kind="dns", name=name, type=kind, transport=transport, source=peer)
        answers = self._collect(name.lower(), kind)
        self._zone.answered(name.lower(), kind)
        body = b"".join(packed_name(owner) + struct.pack("!HHIH", TYPES[each], 1, self._ttl, len(data)) + data
                        for owner, each, data in ((o, e, packed_data(e, d)) for o, e, d in answers or []))
        code = NXDOMAIN if answers is None else 0
        flags = 0x8480 | (message[2] & 0x01) << 8 | code
        return message[:2] + struct.pack("!HHHHH", flags, 1, len(answers or []), 0, 0) + message[12:end] + body

    async def serve_tcp(self, reader, writer, transport="tcp"):
        peer = writer.get_extra_info("peername")[0]
        try:
            while True:
                length = struct.unpack("!H", await reader.readexactly(2))[0]
                reply = self.answer(await reader.readexactly(length), transport, peer)
                writer.write(struct.pack("!H", len(reply)) + reply)
                await writer.drain()
        except (asyncio.IncompleteReadError, ConnectionError):
            pass
        finally:
            writer.close()
