# SPDX-License-Identifier: Apache-2.0
"""A TCP proxy between a client and a server that breaks off."""

import contextlib
import socket
import threading


class BreakingProxy:
    """Breaks off each connection once so many bytes came from the server. `with` gives its port."""

    def __init__(self, server, limit):
        self._server, self._limit = (server.host, server.port), limit
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.broken = 0

    def __enter__(self):
        threading.Thread(target=self._accept, daemon=True).start()
        return self

    def __exit__(self, *exception):
        self._listener.close()

    @property
    def port(self):
        return self._listener.getsockname()[1]

    def _accept(self):
        with contextlib.suppress(OSError):
            while True:
                client = self._listener.accept()[0]
                threading.Thread(target=self._serve, args=(client,), daemon=True).start()

    def _serve(self, client):
        with client, contextlib.suppress(OSError), socket.create_connection(self._server) as server:
            there = threading.Thread(target=self._pass, args=(client, server, None), daemon=True)
            there.start()
            self._pass(server, client, self._limit)
            there.join()

    def _pass(self, source, sink, limit):
        with contextlib.suppress(OSError):
            while piece := source.recv(65536 if limit is None else min(limit, 65536)):
                sink.sendall(piece)
                limit = limit and limit - len(piece)
                if limit == 0:
                    self.broken += 1
                    break
        for end in (source, sink):
            with contextlib.suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)
