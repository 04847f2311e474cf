# SPDX-License-Identifier: Apache-2.0
"""Programs that ignore proxy variables, QUIC, encrypted hellos, and much data."""

from doorcheck.driver import BYTES, Entry, Policy
from doorcheck.internet import zone
from doorcheck.trial import case

ALLOWED = Policy((Entry("allowed.test", 443), Entry("allowed.test", 80)))

IGNORES = r'''
import subprocess, urllib.request
direct = urllib.request.build_opener(urllib.request.ProxyHandler({}), urllib.request.HTTPSHandler(context=ssl.create_default_context(cadata=CA)))
for host in ("evil.test", EVIL): attempt(f"urllib {host}", lambda: direct.open(f"http://{host}/", timeout=4).read())
attempt("socket", lambda: answer(dial(EVIL, 80), request("evil.test")))
os.environ["NO_PROXY"] = os.environ["no_proxy"] = "*"
attempt("NO_PROXY", lambda: urllib.request.urlopen("http://evil.test/", timeout=4).read())
os.environ["http_proxy"] = f"http://{EVIL}:3128"
del os.environ["NO_PROXY"], os.environ["no_proxy"]
attempt("another proxy", lambda: urllib.request.urlopen("http://evil.test/", timeout=4).read())
CHILD = f"import socket; s = socket.create_connection(({EVIL!r}, 80), 3); s.send({request('evil.test')!r}); assert s.recv(10)"
attempt("child", subprocess.run, [sys.executable, "-c", CHILD], check=True, env={}, stderr=subprocess.DEVNULL, timeout=10)
attempt("allowed by urllib", lambda: direct.open("https://allowed.test/", timeout=4).read())
attempt("allowed by socket", fetch, "allowed.test")
'''


@case(3, "programs without proxy variables, with NO_PROXY=*, with another proxy")
def variables_ignored(trial):
    result, events = trial.run(IGNORES, ALLOWED, EVIL=zone.EVIL)
    # The second half of the case: what is allowed works for programs that know of no proxy.
    trial.worked(result, "allowed by urllib", "allowed by socket")
    trial.refused(result, but=("allowed by urllib", "allowed by socket"))
    trial.nothing_arrived(events, zone.EVIL)


QUIC = r'''
initial = b"\xc0\x00\x00\x00\x01\x08" + bytes(8) + b"\x00\x00\x44\x00" + bytes(1200)
attempt("QUIC", datagram, "allowed.test", 443, initial)
attempt("QUIC to evil", datagram, EVIL, 443, initial)
attempt("QUIC by IPv6", datagram, "2001:db8::10", 443, initial)
attempt("NTP", datagram, EVIL, 123, bytes(48))
start = time.monotonic()
with contextlib.suppress(OSError): datagram("allowed.test", 443, initial)
attempt("fallback", fetch, "allowed.test")
attempt("in time", lambda: time.monotonic() - start < 1 or 1 / 0)
'''


@case(15, "QUIC and other datagrams; the fallback to TCP in less than a second")
def datagrams(trial):
    result, events = trial.run(QUIC, ALLOWED, EVIL=zone.EVIL)
    trial.refused(result, but=("fallback", "in time"))
    trial.worked(result, "in time")
    if trial.driver.transparent:
        trial.worked(result, "fallback")
    arrived = [event for event in trial.world.reached(events) if event["kind"] == "udp" or event.get("protocol") == "udp"]
    if arrived:
        trial.problem(f"a datagram arrived: {arrived[0]}")


HELLO = r'''
def hello(outer, encrypted=True):
    def extension(kind, data): return struct.pack("!HH", kind, len(data)) + data
    name = outer.encode()
    extensions = extension(0, struct.pack("!HBH", len(name) + 3, 0, len(name)) + name) + extension(43, b"\x02\x03\x04")
    extensions += extension(10, b"\0\2\0\x1d") + extension(13, b"\0\2\x04\x03") + extension(51, struct.pack("!HHH", 36, 0x1d, 32) + os.urandom(32))
    sealed = struct.pack("!BHHBH", 0, 1, 1, 7, 32) + bytes(32) + struct.pack("!H", 160) + os.urandom(160)
    if encrypted: extensions += extension(0xfe0d, sealed)
    body = struct.pack("!H", 0x0303) + os.urandom(32) + b"\x20" + bytes(32) + struct.pack("!HH", 2, 0x1301) + b"\x01\0"
    body += struct.pack("!H", len(extensions)) + extensions
    message = b"\x01" + struct.pack("!I", len(body))[1:] + body
    return b"\x16\x03\x01" + struct.pack("!H", len(message)) + message
attempt("encrypted hello", lambda: answer(dial("allowed.test", 443), hello("allowed.test")))
attempt("encrypted hello at evil", lambda: answer(dial(EVIL, 443), hello("allowed.test")))
'''


@case(21, "an encrypted ClientHello (ECH) behind an allowed outer name")
def encrypted_hello(trial):
    result, events = trial.run(HELLO, ALLOWED, EVIL=zone.EVIL)
    trial.refused(result)
    trial.nothing_arrived(events, zone.EVIL)
    arrived = trial.world.of(events, "tls") + trial.world.of(events, "tls-failed")
    if arrived:
        trial.problem("the hidden name arrived")


UPLOAD = r'''
def upload():
    connection = secure(dial("allowed.test", 443), "allowed.test"); connection.settimeout(120)
    connection.sendall(f"POST /upload HTTP/1.1\r\nHost: allowed.test\r\nContent-Length: {SIZE}\r\n\r\n".encode())
    block = bytes(1 << 20)
    for _ in range(SIZE >> 20): connection.sendall(block)
    got = connection.recv(4096)
    if str(SIZE).encode() not in got: raise OSError(got)
attempt("upload", upload)
'''


@case(24, "a large upload, whole where it is allowed, and cut where the rule bounds it")
def large_upload(trial):
    size = int(100 * trial.count) << 20
    if trial.driver.transparent:
        result, events = trial.run(UPLOAD, ALLOWED, 180, SIZE=size)
        trial.worked(result, "upload")
        if not trial.world.of(events, "upload", bytes=size, whole=True):
            trial.problem(f"{size} bytes did not arrive whole")


@case(27, "a rule's bound of bytes cuts an upload", needs=(BYTES,))
def bounded_upload(trial):
    most = 1 << 20
    result, events = trial.run(UPLOAD, Policy((Entry("allowed.test", 443, max_bytes=most),)), 60, SIZE=8 << 20)
    if result.tries()["upload"]["ok"]:
        trial.problem("8 MiB passed a bound of 1 MiB")
    seen = sum(event["bytes"] for event in trial.world.of(events, "upload"))
    if seen > 2 * most:
        trial.problem(f"{seen} bytes arrived over a bound of {most}")
