#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""A proxy before an S3 service, with faults: it passes requests on, and breaks the ones it is told to.

    front.py PORT       # before the service at this port of loopback; prints its own port, ends at the end of its input

    POST /-/faults      {"kind": …, "match": "PUT", "count": 1, …} or a list of these, in place of the earlier ones
    GET  /-/seen        what came since the last time: requests and the most at once

A fault is for the next `count` requests whose line (method, target) has `match` in it:
    status   answers `status` without asking the service; `body` is its body
    cut      reads the head and half of the body, and closes the connection
    cut_answer   asks the service, answers half of the body, and closes the connection
    lose     asks the service, and closes the connection without an answer
    tamper   changes one byte of the body on its way to the service
    hang     answers nothing until the faults are replaced
    slow     waits `seconds` before it asks the service
"""

import http.client
import http.server
import json
import os
import sys
import threading
import time


class Front:
    def __init__(self, upstream, context=None):
        self.lock = threading.Lock()
        self.faults, self.seen, self.now, self.most = [], [], {}, {}
        self.changed = threading.Event()
        self.listener = Listener(("127.0.0.1", 0), Handler)
        self.listener.front, self.listener.upstream = self, upstream
        if context:
            self.listener.socket = context.wrap_socket(self.listener.socket, server_side=True)
        self.port = self.listener.server_address[1]
        threading.Thread(target=self.listener.serve_forever, args=(0.05,), daemon=True).start()

    def close(self):
        self.break_with()
        self.listener.shutdown()
        self.listener.server_close()

    def break_with(self, *faults):
        """The faults from now on."""
        with self.lock:
            self.faults = [{"count": 1, "match": "", **each} for each in faults]
            released, self.changed = self.changed, threading.Event()
        released.set()

    def take_seen(self):
        """{"requests": [[line, authorization]…], "most": {word: most at once}} since the last call."""
        with self.lock:
            seen, self.seen = self.seen, []
            most, self.most = self.most, dict(self.now)
        return {"requests": seen, "most": most}

    # --- for the handler

    def enter(self, line, authorization):
        with self.lock:
            self.seen.append([line, authorization])
            for word in words(line):
                self.now[word] = self.now.get(word, 0) + 1
                self.most[word] = max(self.most.get(word, 0), self.now[word])
            for fault in self.faults:
                if fault["count"] > 0 and fault["match"] in line:
                    fault["count"] -= 1
                    return fault, self.changed
        return {"kind": "none"}, self.changed

    def leave(self, line):
        with self.lock:
            for word in words(line):
                self.now[word] -= 1


def words(line):
    return ["all", "part"] if "partNumber=" in line else ["all"]


class Listener(http.server.ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 128

    def handle_error(self, *_):
        pass  # a client that went


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *_):
        pass

    def answer(self, status, headers, body, cut=False):
        self.send_response_only(status)
        for name, value in headers:
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(body[:len(body) // 2] if cut else body)
        if cut:
            self.close_connection = True

    def control(self):
        front = self.server.front
        if self.path == "/-/seen":
            body = json.dumps(front.take_seen()).encode()
        else:
            faults = json.loads(self.rfile.read(int(self.headers.get("Content-Length", 0))) or b"[]")
            front.break_with(*(faults if isinstance(faults, list) else [faults]))
            body = b"{}"
        self.answer(200, [("Content-Length", str(len(body)))], body)

    def pass_on(self, body):
        upstream = http.client.HTTPConnection("127.0.0.1", self.server.upstream, timeout=60)
        try:
            upstream.putrequest(self.command, self.path, skip_host=True, skip_accept_encoding=True)
            for name, value in self.headers.items():
                if name.lower() not in ("connection", "expect"):
                    upstream.putheader(name, value)
            upstream.putheader("Connection", "close")
            upstream.endheaders(body or None)
            answer = upstream.getresponse()
            return answer.status, answer.getheaders(), answer.read()
        finally:
            upstream.close()

    def handle_one(self):
        if self.path.startswith("/-/"):
            return self.control()
        front, line = self.server.front, f"{self.command} {self.path}"
        fault, changed = front.enter(line, self.headers.get("Authorization"))
        try:
            self.with_fault(fault, changed)
        finally:
            front.leave(line)

    def with_fault(self, fault, changed):
        size = int(self.headers.get("Content-Length", 0))
        kind = fault["kind"]
        if kind == "cut":
            self.rfile.read(size // 2)
            self.close_connection = True
            return
        body = self.rfile.read(size)
        if kind == "hang":
            changed.wait(120)
            self.close_connection = True
            return
        if kind == "status":
            text = fault.get("body", "").encode()
            return self.answer(fault["status"], [("Content-Length", str(len(text)))], text)
        if kind == "slow":
            time.sleep(fault["seconds"])
        if kind == "tamper":
            body = body[:len(body) // 2] + bytes([body[len(body) // 2] ^ 1]) + body[len(body) // 2 + 1:]
        status, headers, content = self.pass_on(body)
        if kind == "lose":
            self.close_connection = True
            return
        kept = [(n, v) for n, v in headers if n.lower() not in ("connection", "transfer-encoding", "content-length")]
        bare = self.command == "HEAD" or status in (204, 304)
        length = next((v for n, v in headers if n.lower() == "content-length"), "0") if bare else str(len(content))
        if status != 204:
            kept.append(("Content-Length", length))
        self.answer(status, kept, content, cut=kind == "cut_answer")

    do_GET = do_PUT = do_POST = do_DELETE = do_HEAD = handle_one


def main():
    front = Front(int(sys.argv[1]))
    print(front.port, flush=True)
    while os.read(0, 4096):
        pass


if __name__ == "__main__":
    main()
