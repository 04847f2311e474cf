# SPDX-License-Identifier: Apache-2.0
"""A careless HTTP proxy, as many sandboxes have one: it reads the host that the client names, and little else.

    python3 control_proxy.py PORT FILE     FILE has the allowed names, a line each; a name may begin with "*."
"""

import pathlib
import socket
import sys
import threading


def allowed(host):
    names = pathlib.Path(sys.argv[2]).read_text().split()
    return any(host == name or host.endswith(name.lstrip("*")) for name in names)


def copy(source, target):
    try:
        while data := source.recv(65536):
            target.sendall(data)
    except OSError:
        pass
    for each in (source, target):
        try:
            each.shutdown(socket.SHUT_RDWR)
        except OSError:
            pass


def serve(client):
    try:
        head = b""
        while b"\r\n\r\n" not in head:
            part = client.recv(65536)
            if not part:
                return
            head += part
        method, target, _ = head.split(b"\r\n")[0].decode("latin-1").split(" ", 2)
        authority = target if method == "CONNECT" else target.split("/")[2]
        host, _, port = authority.partition(":")
        if not allowed(host):
            client.sendall(b"HTTP/1.1 403 Forbidden\r\nContent-Length: 0\r\n\r\n")
            return
        upstream = socket.create_connection((host, int(port or 80)), 5)
        if method == "CONNECT":
            client.sendall(b"HTTP/1.1 200 OK\r\n\r\n")
        else:
            upstream.sendall(head)
        threading.Thread(target=copy, args=(client, upstream), daemon=True).start()
        copy(upstream, client)
    except (OSError, ValueError, IndexError):
        pass
    finally:
        client.close()


def main():
    listener = socket.create_server(("127.0.0.1", int(sys.argv[1])))
    print("ready", flush=True)
    while True:
        threading.Thread(target=serve, args=(listener.accept()[0],), daemon=True).start()


if __name__ == "__main__":
    main()
