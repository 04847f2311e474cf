# SPDX-License-Identifier: Apache-2.0
"""The first part of every program that runs in a sandbox: attempts, and the clients that they need. Only the standard
library, no proxy variables, and each attempt bounded in time.

A connection counts as made only if an answer came through: a product may accept a connection before its verdict.
"""

PRELUDE = r'''
import contextlib, ctypes, json, os, socket, ssl, struct, sys, threading, time
for variable in [name for name in os.environ if name.lower().endswith("_proxy")]:
    if not KEEP_PROXY: del os.environ[variable]

def attempt(name, what, *arguments, **named):
    start, ok = time.monotonic(), True
    try: said = what(*arguments, **named)
    except BaseException as error: ok, said = False, f"{type(error).__name__}: {error}"
    print(json.dumps({"try": name, "ok": ok, "said": str(said)[:500], "seconds": round(time.monotonic() - start, 3)}), flush=True)
    return ok

def dial(host, port, seconds=2.5):
    return socket.create_connection((host, port), seconds)

def secure(connection, name, check=True, alpn=("http/1.1",)):
    context = ssl.create_default_context(cadata=CA)
    if not check: context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    context.set_alpn_protocols(list(alpn))
    return context.wrap_socket(connection, server_hostname=name)

def answer(connection, data):
    """Sends the data → the first bytes that come back. An alert of TLS and a status of refusal are no answer."""
    connection.sendall(data)
    got = connection.recv(65536)
    if not got: raise EOFError("closed without an answer")
    if got.startswith(b"\x15\x03"): raise OSError(f"TLS alert {got[5:7].hex()}")
    if got.startswith(b"HTTP/1.") and got[9:10] >= b"4": raise OSError(got.split(b"\r\n")[0].decode("latin-1"))
    return got

def request(host, path="/", method="GET", headers=(), body=b""):
    lines = [f"{method} {path} HTTP/1.1", *([f"Host: {host}"] if host else []), *headers]
    if body: lines.append(f"Content-Length: {len(body)}")
    return "\r\n".join(lines).encode("latin-1") + b"\r\n\r\n" + body

def whole(connection, data):
    """Sends a request → (status, body) of the answer with a Content-Length."""
    connection.sendall(data)
    got = b""
    while b"\r\n\r\n" not in got:
        part = connection.recv(65536)
        if not part: raise EOFError("closed without an answer")
        got += part
    head, _, body = got.partition(b"\r\n\r\n")
    lengths = [int(line.split(b":")[1]) for line in head.split(b"\r\n") if line.lower().startswith(b"content-length:")]
    while lengths and len(body) < lengths[0]:
        part = connection.recv(65536)
        if not part: raise EOFError("cut")
        body += part
    return int(head.split()[1]), body

def fetch(host, port=None, path="/", tls=True, at=None, sni=None, check=True, **more):
    """An answer of status 2xx or 3xx. `at`: the address to connect to instead of the host's."""
    with contextlib.closing(dial(at or host, port or (443 if tls else 80))) as connection:
        if tls: connection = secure(connection, sni or host, check)
        with contextlib.closing(connection):
            usual = port in (None, 80, 443)
            status, body = whole(connection, request(host if usual else f"{host}:{port}", path, **more))
    if status >= 400: raise OSError(f"status {status}: {body[:200]!r}")
    return status, body[:200]

def datagram(address, port, data, seconds=2.2):
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    with socket.socket(family, socket.SOCK_DGRAM) as client:
        client.settimeout(seconds)
        client.connect((address, port))
        client.send(data)
        return client.recv(4096)

def packed(name):
    return b"".join(bytes([len(label)]) + label.encode() for label in name.split(".") if label) + b"\0"

def query(name, kind=1):
    return b"\x12\x34\x01\x00\x00\x01\0\0\0\0\0\0" + packed(name) + struct.pack("!HH", kind, 1)

def dns(server, name, kind=1, tcp=False, port=53):
    """→ (rcode, answers). Fails without any answer in time."""
    if tcp:
        with contextlib.closing(dial(server, port, 2)) as connection:
            got = answer(connection, struct.pack("!H", len(query(name, kind))) + query(name, kind))[2:]
    else:
        got = datagram(server, port, query(name, kind))
    return got[3] & 15, struct.unpack("!H", got[6:8])[0], got

def tunnel(host, port, proxy, extra=""):
    """A CONNECT to the explicit proxy → the connection."""
    connection = dial(*proxy)
    connection.sendall(f"CONNECT {host}:{port} HTTP/1.1\r\nHost: {host}:{port}\r\n{extra}\r\n".encode("latin-1"))
    got = b""
    while b"\r\n\r\n" not in got:
        part = connection.recv(4096)
        if not part: raise EOFError("closed without an answer")
        got += part
    if b" 200" not in got.split(b"\r\n")[0]: raise OSError(got.split(b"\r\n")[0].decode("latin-1"))
    return connection
'''


def program(code, **values):
    """The text of a program: the values as variables, the prelude, and the code."""
    values = {"CA": "", "KEEP_PROXY": False, **values}
    return "".join(f"{name} = {value!r}\n" for name, value in values.items()) + PRELUDE + code
