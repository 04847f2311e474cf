# SPDX-License-Identifier: Apache-2.0
"""The process of the fake internet: doorcheck/world.py starts it, and speaks with it by lines of JSON.

    python3 -m doorcheck.internet DIRECTORY

It takes a network namespace of its own, prints "made", and waits for a line. Then it sets its end of the link up, starts the
servers and prints "ready". Each further line is a request: {"mark": N} logs a mark once all packets before it are
logged, and {"reset": true} begins changing names anew. It ends with its standard input.
"""

import asyncio
import contextlib
import ctypes
import json
import os
import pathlib
import resource
import socket
import ssl
import struct
import subprocess
import sys
import time

from doorcheck.internet import zone
from doorcheck.internet.dns import Server
from doorcheck.internet.packets import Sniffer
from doorcheck.internet.web import MOST_HEAD, Web, splice

CLONE_NEWNET = 0x40000000
LINK = "world1"
WEB, TLS = (80, 3128, 8080), (443, 3129, 8443)
LINES = (22, 25, 5432, 6379)  # these greet nobody and log what comes
ECHO = (7, 9000)
UDP = (53, 123, 443, 853, 5353, 9000)
H2_PORT, SSH_PORT = 18443, 10022
IP_PKTINFO, IPV6_PKTINFO, IPV6_RECVPKTINFO, IPV6_FREEBIND = 8, 50, 49, 78
FIRST_BYTES = 256


def run(*command):
    subprocess.run(command, check=True, stdin=subprocess.DEVNULL)


def set_up_link():
    """Every address of IPv4 and IPv6 is this machine's: a route of type local, as ip-route(8) says."""
    for interface in ("lo", LINK):
        run("ip", "link", "set", interface, "up")
    run("ip", "address", "add", f"{zone.RESOLVER}/24", "dev", LINK)
    run("ip", "address", "add", f"{zone.RESOLVER6}/64", "dev", LINK, "nodad")
    run("ip", "route", "add", "local", "0.0.0.0/0", "dev", "lo", "table", "main")  # table local would hide the link
    run("ip", "-6", "route", "add", "local", "::/0", "dev", "lo", "table", "main")


class Internet:
    def __init__(self, directory):
        self.directory = directory
        self._log_file = os.open(directory / "world.jsonl", os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
        self.zone = zone.Zone()
        ttl = directory / "ttl"
        self.dns = Server(self.zone, self.log, **({"ttl": int(ttl.read_text())} if ttl.exists() else {}))
        self.web = Web(str(directory / "files"), self.zone, self.log)
        self.sniffer = Sniffer(LINK, self.log)
        self.tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        self.tls.load_cert_chain(directory / "server.pem", directory / "server.key")
        self.tls.set_alpn_protocols(["http/1.1"])
        self.tls.sni_callback = self._sni
        self.children = []

    def log(self, **event):
        event["at"] = time.time()
        os.write(self._log_file, json.dumps(event).encode() + b"\n")

    @staticmethod
    def _sni(tls, name, _):
        tls.doorcheck_sni = name

    # - TCP -

    async def start(self):
        loop = asyncio.get_running_loop()
        loop.add_reader(self.sniffer.socket, self.sniffer.drain)
        for ports, serve in ((WEB, self._plain), (TLS, self._secure), (LINES, self._lines), (ECHO, self._echo),
                             ((53,), self._dns_tcp), ((853,), self._dns_tls)):
            for port in ports:
                await asyncio.start_server(serve, sock=self._listener(port), limit=MOST_HEAD)
        for port in UDP:
            for family in (socket.AF_INET, socket.AF_INET6):
                self._listen_udp(loop, family, port)
        if (self.directory / "h2").exists():
            await self._start_h2()
        if (self.directory / "ssh.sh").exists():
            self.children.append(subprocess.Popen(["unshare", "--mount", "sh", str(self.directory / "ssh.sh")], stdin=subprocess.DEVNULL,
                                                  stdout=subprocess.DEVNULL))

    @staticmethod
    def _listener(port):
        listener = socket.socket(socket.AF_INET6)
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 0)
        listener.bind(("::", port))
        listener.listen(4096)
        return listener

    @staticmethod
    def _where(writer):
        """The fields of a connection: the address and port that were asked for."""
        address, port = writer.get_extra_info("sockname")[:2]
        peer = writer.get_extra_info("peername")[0]
        return {"address": address.removeprefix("::ffff:"), "port": port, "source": peer.removeprefix("::ffff:")}

    async def _plain(self, reader, writer):
        await self.web.serve(reader, writer, tls=False, **self._where(writer))

    async def _secure(self, reader, writer):
        where = self._where(writer)
        if where["address"] == zone.H2 and where["port"] == 443:
            return await self._pass_on(reader, writer, H2_PORT)
        try:
            await writer.start_tls(self.tls, ssl_handshake_timeout=30)
        except (OSError, ssl.SSLError) as error:
            self.log(kind="tls-failed", why=str(error), **where)
            return writer.close()
        sni = getattr(writer.get_extra_info("ssl_object"), "doorcheck_sni", None)
        self.log(kind="tls", sni=sni, **where)
        return await self.web.serve(reader, writer, tls=True, sni=sni, **where)

    async def _lines(self, reader, writer):
        where = self._where(writer)
        if where["address"] == zone.SSH and where["port"] == 22:
            return await self._pass_on(reader, writer, SSH_PORT)
        with contextlib.suppress(ConnectionError):
            first = await reader.read(FIRST_BYTES)
            self.log(kind="tcp", first=first.decode("latin-1"), **where)
        return writer.close()

    async def _echo(self, reader, writer):
        self.log(kind="tcp", **self._where(writer))
        with contextlib.suppress(ConnectionError):
            while data := await reader.read(64 << 10):
                writer.write(data)
                await writer.drain()
        writer.close()

    async def _dns_tcp(self, reader, writer):
        await self.dns.serve_tcp(reader, writer)

    async def _dns_tls(self, reader, writer):
        try:
            await writer.start_tls(self.tls, ssl_handshake_timeout=30)
        except (OSError, ssl.SSLError):
            return writer.close()
        return await self.dns.serve_tcp(reader, writer, "tls")

    async def _pass_on(self, reader, writer, port):
        try:
            inner_reader, inner_writer = await asyncio.open_connection("127.0.0.1", port)
        except OSError:
            return writer.close()
        return await splice(reader, writer, inner_reader, inner_writer)

    async def _start_h2(self):
        command = ["node", str(pathlib.Path(__file__).with_name("h2_server.js")), str(H2_PORT),
                   str(self.directory / "server.key"), str(self.directory / "server.pem")]
        process = await asyncio.create_subprocess_exec(*command, stdout=asyncio.subprocess.PIPE)
        self.children.append(process)
        ready = asyncio.Event()
        async def read():
            while line := await process.stdout.readline():
                self.log(**json.loads(line))
                ready.set()
        self._h2 = asyncio.create_task(read())
        await asyncio.wait_for(ready.wait(), 20)

    # - UDP: answers come from the address that was asked -

    def _listen_udp(self, loop, family, port):
        server = socket.socket(family, socket.SOCK_DGRAM)
        server.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if family == socket.AF_INET6:
            server.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
            server.setsockopt(socket.IPPROTO_IPV6, IPV6_RECVPKTINFO, 1)
            server.setsockopt(socket.IPPROTO_IPV6, IPV6_FREEBIND, 1)  # answers from addresses of no interface
        else:
            server.setsockopt(socket.IPPROTO_IP, IP_PKTINFO, 1)
        server.bind(("", port))
        server.setblocking(False)
        loop.add_reader(server, self._datagram, server, port)

    def _datagram(self, server, port):
        with contextlib.suppress(BlockingIOError, OSError):
            data, control, _, peer = server.recvmsg(65535, 256)
            address, reply = self._destination(control)
            if port == 53:
                answer = self.dns.answer(data, "udp", peer[0])
                if answer:
                    server.sendmsg([answer], reply, 0, peer)
                return
            self.log(kind="udp", address=address, port=port, source=peer[0], bytes=len(data))
            if port == 9000:
                server.sendmsg([data], reply, 0, peer)

    @staticmethod
    def _destination(control):
        """→ (destination address of the datagram, ancillary data that answers from there)."""
        level, kind, data = control[0]
        if level == socket.IPPROTO_IP:
            return socket.inet_ntoa(data[8:12]), [(level, IP_PKTINFO, struct.pack("I4s4s", 0, data[8:12], bytes(4)))]
        return socket.inet_ntop(socket.AF_INET6, data[:16]), [(level, IPV6_PKTINFO, data[:16] + struct.pack("I", 0))]

    # - requests of the parent -

    async def obey(self):
        reader = asyncio.StreamReader()
        await asyncio.get_running_loop().connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), sys.stdin)
        print("ready", flush=True)
        while line := await reader.readline():
            request = json.loads(line)
            if "reset" in request:
                self.zone.reset()
            if "mark" in request:
                self.sniffer.drain()
                self.log(kind="mark", number=request["mark"])


async def serve(directory):
    internet = Internet(directory)
    try:
        await internet.start()
        await internet.obey()
    finally:
        for child in internet.children:
            with contextlib.suppress(ProcessLookupError):
                child.terminate()


def main():
    if ctypes.CDLL(None, use_errno=True).unshare(CLONE_NEWNET) != 0:
        sys.exit(f"making a network namespace: {os.strerror(ctypes.get_errno())}")
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(hard, 65536), hard))
    print("made", flush=True)
    if not sys.stdin.buffer.raw.readline():
        return
    set_up_link()
    asyncio.run(serve(pathlib.Path(sys.argv[1])))


if __name__ == "__main__":
    main()
