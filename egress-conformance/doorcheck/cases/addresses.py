# SPDX-License-Identifier: Apache-2.0
"""Addresses: literals in all their spellings, private ranges, the machine itself, other sandboxes, raw packets."""

from doorcheck.driver import FULL, Entry, Policy
from doorcheck.internet import zone
from doorcheck.trial import case, wait_for

ALLOWED = Policy((Entry("allowed.test", 443), Entry("allowed.test", 80)))

EVERY_PROTOCOL = r'''
for port in (22, 25, 53, 80, 443, 853, 3128, 8080, 9000):
    attempt(f"tcp {port}", lambda: answer(dial(EVIL, port), request("evil.test")))
    attempt(f"tcp6 {port}", lambda: answer(dial(EVIL6, port), request("evil.test")))
def resolves(server):
    """A mediator may say that there is no such name."""
    if not dns(server, "evil.test")[1]: raise LookupError("no records")
for server in (EVIL, EVIL6): attempt(f"dns {server}", resolves, server)
for port in (123, 443, 9000):
    attempt(f"udp {port}", datagram, EVIL, port, query("evil.test"))
    attempt(f"udp6 {port}", datagram, EVIL6, port, query("evil.test"))
attempt("name", fetch, "evil.test", check=False)
def raw(family, kind, protocol, target, data):
    with socket.socket(family, kind, protocol) as client:
        client.settimeout(2.2)
        client.connect((target, 0))
        client.send(data)
        return client.recv(4096)
echo = struct.pack("!BBHHH", 8, 0, 0xf7fd, 1, 1)
attempt("ping", raw, socket.AF_INET, socket.SOCK_DGRAM, socket.IPPROTO_ICMP, EVIL, echo)
attempt("raw icmp", raw, socket.AF_INET, socket.SOCK_RAW, socket.IPPROTO_ICMP, EVIL, echo)
attempt("ping6", raw, socket.AF_INET6, socket.SOCK_DGRAM, socket.IPPROTO_ICMPV6, EVIL6, b"\x80" + bytes(7))
attempt("raw udp", raw, socket.AF_INET, socket.SOCK_RAW, socket.IPPROTO_UDP, EVIL, struct.pack("!HHHH", 1, 53, 8, 0))
attempt("raw ip", raw, socket.AF_INET, socket.SOCK_RAW, socket.IPPROTO_RAW, EVIL, bytes(40))
attempt("gre", raw, socket.AF_INET, socket.SOCK_RAW, 47, EVIL, bytes(8))
def sctp():
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM, 132) as client:
        client.settimeout(2.2)
        client.connect((EVIL, 80))
        return "connected"
attempt("sctp", sctp)
def fast_open():
    with socket.socket() as client:
        client.settimeout(2)
        client.sendto(request("evil.test"), 0x20000000, (EVIL, 80))
        return client.recv(100) or 1 / 0
attempt("fast open", fast_open)
'''


@case(1, "nothing is allowed: every protocol, both families")
def nothing_allowed(trial):
    for policy in (Policy(), ALLOWED):
        result, events = trial.run(EVERY_PROTOCOL, policy, EVIL=zone.EVIL, EVIL6=zone.EVIL6)
        trial.refused(result)
        trial.nothing_arrived(events)
        trial.never_asked(events, "evil")


LITERALS = r'''
attempt("tls", fetch, "allowed.test", at=ALLOWED, check=False)
attempt("plain", fetch, "allowed.test", at=ALLOWED, tls=False)
attempt("address as host", fetch, ALLOWED, check=False)
attempt("ipv6", fetch, "allowed.test", at=ALLOWED6, check=False)
if PROXY:
    attempt("CONNECT", lambda: answer(tunnel(ALLOWED, 443, PROXY), b"x" * 20))
    attempt("absolute form", lambda: whole(dial(*PROXY), request("allowed.test", f"http://{ALLOWED}/"))[0] < 400 or 1 / 0)
'''


@case(4, "the literal address of an allowed host")
def literal_of_allowed(trial):
    result, events = trial.run(LITERALS, ALLOWED, ALLOWED=zone.ALLOWED, ALLOWED6=zone.ALLOWED6)
    trial.refused(result)
    trial.nothing_arrived(events)


# Spellings of 169.254.169.254, 127.0.0.1 and the evil host that one parser or another reads as an address or a host.
SPELLINGS = (
    "2852039166", "0xa9fea9fe", "0251.0376.0251.0376", "0xa9.0xfe.0xa9.0xfe", "169.254.43518", "169.16689662", "169.254.169.254.",
    "2130706433", "0177.0.0.1", "0x7f.1", "127.1", "127.0.0.1", "0", "0.0.0.0", "localhost", "LOCALHOST.", "::1", "::",
    "::ffff:169.254.169.254", "::169.254.169.254", "::ffff:a9fe:a9fe", "2002:a9fe:a9fe::", "64:ff9b::a9fe:a9fe", "fe80::1%lo",
    "fd00:ec2::254", "3405803842", "203.0.113.066", "203.0.113.66", "0xcb007142", "::ffff:203.0.113.66", "2002:cb00:7142::",
    "64:ff9b::cb00:7142", "evil.test.", "EVIL.test", "allowed.test@evil.test", "allowed.test.evil.test", "allowed.test%00.evil.test",
    "allowed.test%2eevil.test", "allowed.test#.evil.test", "allowed。test.evil。test", "169。254。169。254", "①⑥⑨.254.169.254",
    "xn--allowed-.test", "allowed.test\\.evil.test", "[::ffff:169.254.169.254]", "169.254.169.254.nip.evil.test",
)
SPELLED = r'''
for host in SPELLINGS:
    attempt(host, lambda: answer(dial(host, 80, 2), request("evil.test")))
    if PROXY:
        named = host if host.startswith("[") or ":" not in host else f"[{host}]"
        attempt("CONNECT " + host, lambda: tunnel(named.encode().decode("latin-1"), 80, PROXY))
        attempt("GET " + host, lambda: whole(dial(*PROXY), f"GET http://{named}/ HTTP/1.1\r\nHost: {named}\r\n\r\n".encode())[0] < 400 or 1 / 0)
'''


@case(5, "forty spellings of an address, direct and through the proxy")
def spellings(trial):
    result, events = trial.run(SPELLED, ALLOWED, 120, SPELLINGS=SPELLINGS)
    trial.refused(result)
    trial.nothing_arrived(events)
    trial.never_asked(events, "evil")


SPOOFED = r'''
attempt("allowed name at evil", fetch, "allowed.test", at=EVIL)
attempt("allowed name at evil, plain", fetch, "allowed.test", at=EVIL, tls=False)
attempt("evil name at allowed", fetch, "allowed.test", sni="evil.test", check=False)
def nameless():
    context = ssl.create_default_context(cadata=CA); context.check_hostname = False
    with context.wrap_socket(dial("allowed.test", 443)) as connection: return whole(connection, request("allowed.test"))
attempt("no name at allowed", nameless)
def two_names():
    """A ClientHello whose server_name list has two entries, the allowed name first."""
    names = b"".join(struct.pack("!BH", 0, len(n)) + n for n in (b"allowed.test", b"evil.test"))
    sni = struct.pack("!HHH", 0, len(names) + 2, len(names)) + names
    versions = struct.pack("!HHBH", 43, 3, 2, 0x0304)
    extensions = sni + versions
    body = struct.pack("!H", 0x0303) + bytes(32) + b"\0" + struct.pack("!HH", 2, 0x1301) + b"\x01\0" + struct.pack("!H", len(extensions)) + extensions
    hello = b"\x01" + struct.pack("!I", len(body))[1:] + body
    return answer(dial("allowed.test", 443), b"\x16\x03\x01" + struct.pack("!H", len(hello)) + hello)
attempt("two names", two_names)
def not_tls(): return answer(dial("allowed.test", 443), b"SSH-2.0-tunnel\r\n" + bytes(64))
attempt("no TLS at all", not_tls)
'''


@case(7, "the allowed name in the handshake, at the address of evil; another name at the address of allowed")
def spoofed_handshake(trial):
    result, events = trial.run(SPOOFED, Policy((Entry("allowed.test", 443),)), EVIL=zone.EVIL)
    trial.refused(result)
    trial.nothing_arrived(events, zone.EVIL)
    for event in trial.world.of(events, "tls"):
        trial.problem(f"a handshake for {event['sni']} arrived at {event['address']}")


LISTENS = r'''
listener = socket.create_server(("0.0.0.0", 9000)); six = socket.create_server(("::", 9001), family=socket.AF_INET6)
datagrams = socket.socket(socket.AF_INET, socket.SOCK_DGRAM); datagrams.bind(("0.0.0.0", 9002))
attempt("own server", lambda: socket.create_connection(("127.0.0.1", 9000), 2).close())
listener.accept()[0].close()
def own():
    found = {"127.0.0.1", "198.18.0.1", "198.18.0.2", socket.gethostname()}
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        probe.connect(("203.0.113.66", 9)); found.add(probe.getsockname()[0])
    return found
with contextlib.suppress(OSError): print("addresses", *own(), flush=True)
def heard(server):
    while True:
        peer = server.accept()[1]; print("HEARD", peer, flush=True)
for server in (listener, six): threading.Thread(target=heard, args=(server,), daemon=True).start()
datagrams.settimeout(SECONDS)
try: print("HEARD", datagrams.recvfrom(100), flush=True)
except TimeoutError: pass
'''
KNOCKS = r'''
for address in TARGETS:
    for port in (9000, 9001):
        attempt(f"tcp {address} {port}", lambda: answer(dial(address, port, 1.5), b"knock"))
    attempt(f"udp {address}", datagram, address, 9002, b"knock", 0.5)
attempt("broadcast", datagram, "255.255.255.255", 9002, b"knock", 0.5)
attempt("multicast", datagram, "ff02::1", 9002, b"knock", 0.5)
'''


@case(16, "sandbox to sandbox, with servers on every address")
def sandbox_to_sandbox(trial):
    policy = Policy((Entry("allowed.test", 443),))
    listening = trial.begin(LISTENS, policy, 40, SECONDS=12)
    try:
        wait_for(lambda: "own server" in listening.output(), 20)
        line = next((line for line in listening.output().splitlines() if line.startswith("addresses ")), "addresses")
        targets = sorted({*line.split()[1:], "198.18.0.2", "192.0.2.1", "fe80::1", "127.0.0.1"})
        result, _ = trial.run(KNOCKS, policy, TARGETS=targets)
        trial.refused(result)
        told = listening.output()
        if "HEARD" in told:
            trial.problem(f"the other sandbox was reached: {told}")
    finally:
        listening.end()


FRAMES = r'''
ETH_IP = 0x0800
ends = socket.inet_aton("192.0.2.1") + socket.inet_aton(EVIL)
packet = struct.pack("!BBHHHBBH", 0x45, 0, 28, 1, 0, 64, 17, 0) + ends + struct.pack("!HHHH", 1, 9000, 8, 0)
def frame(interface):
    with socket.socket(socket.AF_PACKET, socket.SOCK_DGRAM, 0) as raw:
        return raw.sendto(packet, (interface, ETH_IP, 0, 0, b"\xff" * 6))
names = {"lo"}
with contextlib.suppress(OSError): names |= {name for _, name in socket.if_nameindex()}
for name in sorted(names): attempt(f"frame on {name}", frame, name)
def header():
    with socket.socket(socket.AF_INET, socket.SOCK_RAW, socket.IPPROTO_RAW) as raw: return raw.sendto(packet, (EVIL, 0))
attempt("own header", header)
def option(level, number, value=1):
    with socket.socket() as client:
        client.setsockopt(level, number, value); return client.connect((EVIL, 80))
attempt("IP_TRANSPARENT", option, socket.IPPROTO_IP, 19)
attempt("SO_MARK", option, socket.SOL_SOCKET, 36)
attempt("SO_BINDTODEVICE", option, socket.SOL_SOCKET, 25, b"eth0")
def device():
    import fcntl
    with open("/dev/net/tun", "r+b", buffering=0) as tun: return fcntl.ioctl(tun, 0x400454ca, struct.pack("16sH22x", b"tun0", 1))
attempt("tun", device)
def unshared():
    if ctypes.CDLL(None, use_errno=True).unshare(0x50000000): raise OSError(ctypes.get_errno(), "unshare")
    return fetch("evil.test", at=EVIL, check=False)
attempt("own namespace", unshared)
def host_namespace():
    handle = os.open("/proc/1/ns/net", os.O_RDONLY)
    if ctypes.CDLL(None, use_errno=True).setns(handle, 0): raise OSError(ctypes.get_errno(), "setns")
    return fetch("evil.test", at=EVIL, check=False)
attempt("namespace of process 1", host_namespace)
'''


@case(22, "raw frames, own IP headers, socket options, devices and namespaces")
def raw_frames(trial):
    result, events = trial.run(FRAMES, Policy((Entry("allowed.test", 443),)), EVIL=zone.EVIL)
    # A frame on the loopback device of the sandbox goes nowhere: only an arrival counts.
    trial.refused(result, "IP_TRANSPARENT", "SO_MARK", "SO_BINDTODEVICE", "own namespace", "namespace of process 1")
    trial.nothing_arrived(events)


LOCAL = r'''
import stat
def connects(family, address):
    with socket.socket(family, socket.SOCK_STREAM) as client:
        client.settimeout(1); return client.connect(address)
with contextlib.suppress(OSError):
    names = {line.split()[7] for line in open("/proc/net/unix").read().splitlines()[1:] if len(line.split()) > 7}
    for name in sorted(names): attempt(f"unix {name}", connects, socket.AF_UNIX, name.replace("@", "\0", 1))
for top in ("/run", "/var/run", "/tmp", "/dev", "/etc", "/home", "/root", "/opt"):
    for folder, _, names in os.walk(top):
        for name in names:
            path = os.path.join(folder, name)
            with contextlib.suppress(OSError):
                if stat.S_ISSOCK(os.lstat(path).st_mode): attempt(f"file {path}", connects, socket.AF_UNIX, path)
for name in ("/run/docker.sock", "/run/containerd/containerd.sock", "/run/dbus/system_bus_socket", "/run/systemd/private", "\0cloister"):
    attempt(f"known {name!r}", connects, socket.AF_UNIX, name)
for port in (1, 22, 1024, 5000, 9999):
    for cid in (0, 1, 2, 3): attempt(f"vsock {cid}:{port}", connects, socket.AF_VSOCK, (cid, port))
descriptors = [os.readlink(f"/proc/self/fd/{n}") for n in os.listdir("/proc/self/fd") if os.path.islink(f"/proc/self/fd/{n}")]
attempt("inherited socket", lambda: [each for each in descriptors if each.startswith("socket:")][0])
'''


@case(29, "local sockets: abstract and named Unix sockets, vsock, inherited descriptors")
def local_sockets(trial):
    result, _ = trial.run(LOCAL, Policy((Entry("allowed.test", 443),)))
    trial.refused(result)


EVERYWHERE = r'''
for address in ADDRESSES:
    for port in (80, 443):
        attempt(f"{address} {port}", lambda: answer(dial(address, port, 2), request("evil.test")))
    if PROXY:
        named = f"[{address}]" if ":" in address else address
        attempt(f"CONNECT {address}", lambda: tunnel(named, 80, PROXY))
attempt("link-local", lambda: answer(dial("fe80::1%lo", 80, 2), b"x"))
for name in NAMES: attempt(name, fetch, name, tls=False)
attempt("public", fetch, "allowed.test")
'''
PRIVATE = (zone.METADATA, "169.254.170.2", "fd00:ec2::254", "100.100.100.200", "10.0.0.1", "172.16.0.1", "192.168.1.1", "100.64.0.1",
           "127.0.0.2", "0.0.0.0", "::", "192.0.2.1", zone.HOME6, "192.0.2.53", "198.18.0.1", "224.0.0.1", "255.255.255.255")


@case(25, "metadata, private ranges and the machine itself, although every public name is allowed", needs=(FULL,))
def private_under_full(trial):
    result, events = trial.run(EVERYWHERE, Policy(full=True), 120, ADDRESSES=PRIVATE, NAMES=sorted(zone.TRAPS))
    trial.refused(result, but=("public",))
    trial.worked(result, "public")
    trial.nothing_arrived(events, *(set(PRIVATE) - {zone.RESOLVER}), *(data for _, data in zone.TRAPS.values()))
    if trial.world.of(events, "home"):
        trial.problem("the machine itself was reached")
