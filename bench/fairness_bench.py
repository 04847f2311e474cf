# SPDX-License-Identifier: Apache-2.0
"""A new tenant's waiting time while other tenants want more than there is, and the others' losses: tenants that
flood runs, the queue, sessions and uploads, with the default settings.

    ./dev bench fairness [TENANTS [SECONDS]]      default 30 and 60, each with the newcomer and without
"""

import contextlib
import http.client
import json
import multiprocessing
import os
import pathlib
import socket
import sys
import threading
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "tests" / "integration"))
import harness  # noqa: E402

import page  # noqa: E402
from sessions_bench import percentile  # noqa: E402

TENANTS, SECONDS, PARTS = 30, 60, 4
CLIENTS = 3  # processes of the flood, so that its own work is not bound to a single interpreter
PAUSE = 0.05  # seconds after a refusal, and between the newcomer's runs
SLOW_BYTES, SLOW_PAUSE = 256, 0.25  # an upload's pieces
UPLOAD_BYTES = 8 << 20
FULL_SECONDS = 5  # until the flood has taken its fill
MARKER = "fairness"
RUN = {"language": "python", "code": "print(1)"}
SLEEPER = {"language": "bash", "code": "sleep 1"}


class Tenant:
    """A tenant that takes all it can, on threads of its own, until `ended`."""

    def __init__(self, address, key, ended):
        self._address, self._ended = address, ended
        self._headers = {"Content-Type": "application/json", "Authorization": f"Bearer {key}"}
        work = (self._runs, self._runs, self._queue, self._sessions, self._uploads, self._uploads)
        self._threads = [threading.Thread(target=self._repeat, args=(each,)) for each in work]
        for thread in self._threads:
            thread.start()

    def join(self):
        for thread in self._threads:
            thread.join()

    def _repeat(self, some):
        while not self._ended.is_set():
            with contextlib.suppress(OSError, http.client.HTTPException), \
                 contextlib.closing(http.client.HTTPConnection(*self._address, timeout=60)) as connection:
                some(connection)
            self._ended.wait(PAUSE)

    def _post(self, connection, path, body):
        """Gives the status, and waits after a refusal, like a client that wants everything."""
        connection.request("POST", path, json.dumps(body).encode(), self._headers)
        answer = connection.getresponse()
        answer.read()
        if answer.status not in (200, 201, 202):
            self._ended.wait(PAUSE)
        return answer.status

    def _runs(self, connection):
        while not self._ended.is_set():
            self._post(connection, "/v1/executions?wait=30", RUN)

    def _queue(self, connection):
        while not self._ended.is_set():
            self._post(connection, "/v1/executions", SLEEPER)

    def _sessions(self, connection):
        while not self._ended.is_set():
            self._post(connection, "/v1/sessions", {"language": "bash", "ttl_seconds": 10})

    def _uploads(self, connection):
        head = "".join(f"{name}: {value}\r\n" for name, value in self._headers.items())
        with socket.create_connection(self._address, timeout=60) as plain:
            plain.sendall(f"POST /v1/executions HTTP/1.1\r\nHost: {self._address[0]}\r\n{head}"
                          f"Content-Length: {UPLOAD_BYTES}\r\n\r\n".encode())
            while not self._ended.wait(SLOW_PAUSE):
                plain.sendall(b" " * SLOW_BYTES)


def flood(address, keys, ended):
    threads = [Tenant(address, key, ended) for key in keys]
    for each in threads:
        each.join()


def new_key(server, tenant):
    return server.request("POST", "/v1/keys", {"tenant": tenant, "name": "bench", "roles": ["agent"]}).json()["secret"]


def completed(server):
    return sum(value for name, value in server.metrics().items()
               if name.startswith("cloister_executions_total{") and 'status="completed"' in name)


def come(server, key, seconds):
    """A newcomer's runs in turn: the duration of each, and the statuses of the refused."""
    took, refused = [], []
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        start = time.perf_counter()
        answer = server.submit(RUN["code"], RUN["language"], key=key)
        if answer.status == 200 and answer.json()["status"] == "completed":
            took.append(time.perf_counter() - start)
        else:
            refused.append(answer.status)
        time.sleep(PAUSE)
    return took, refused


def measured(server, tenants, seconds):
    """The flood beside newcomers and alone, in turn. Each part has another newcomer."""
    context = multiprocessing.get_context("spawn")
    ended = context.Event()
    keys = [new_key(server, f"flood-{number}") for number in range(tenants)]
    newcomers = [new_key(server, f"newcomer-{number}") for number in range(PARTS)]
    clients = [context.Process(target=flood, args=((server.host, server.port), keys[first::CLIENTS], ended))
               for first in range(CLIENTS)]
    for client in clients:
        client.start()
    try:
        time.sleep(FULL_SECONDS)
        took, refused, beside, alone = [], [], 0, 0
        for key in newcomers:
            before = completed(server)
            time.sleep(seconds / PARTS)
            between = completed(server)
            alone += between - before
            new, failed = come(server, key, seconds / PARTS)
            beside += completed(server) - between - len(new)
            took, refused = took + new, refused + failed
        metrics = server.metrics()
    finally:
        ended.set()
        for client in clients:
            client.join()
    return {"tenants": tenants, "seconds": seconds, "runs": len(took), "refused": refused,
            "p50_ms": percentile(took, 50), "p99_ms": percentile(took, 99),
            "alone_per_second": round(alone / seconds, 1), "beside_per_second": round(beside / seconds, 1),
            "refusals": {name: value for name, value in metrics.items() if name.startswith("cloister_refused_total")},
            "queued": metrics["cloister_queue_depth"], "running": metrics["cloister_running"]}


def table(found):
    kept = round(100 * found["beside_per_second"] / max(found["alone_per_second"], 0.1))
    rows = [
        ("a newcomer's `print(1)`, p50", f"{found['p50_ms']:.0f} ms", "≤ 500 ms", found["p50_ms"] <= 500),
        ("the same, p99", f"{found['p99_ms']:.0f} ms", "≤ 2,000 ms", found["p99_ms"] <= 2000),
        ("its runs that were refused or failed", f"{len(found['refused'])} of {found['runs'] + len(found['refused'])}", "0",
         not found["refused"]),
        ("what the others complete beside it", f"{found['beside_per_second']} of {found['alone_per_second']} runs/s, {kept} %",
         "≥ 80 %", kept >= 80)]
    lines = ["| what | measured | bound | met |", "| --- | --- | --- | --- |"]
    lines += [f"| {what} | {value} | {bound} | {'yes' if met else 'no'} |" for what, value, bound, met in rows]
    return "\n".join([*lines, "", f"{found['tenants']} tenants, {found['seconds']} s with newcomers and {found['seconds']} s without; "
                      f"at the end {found['running']:.0f} runs ran and {found['queued']:.0f} waited. "
                      f"Linux {os.uname().release}, {os.cpu_count()} cores."])


def main():
    tenants, seconds = (list(map(int, sys.argv[1:])) + [TENANTS, SECONDS][len(sys.argv) - 1:])[:2]
    with harness.Server("pool: {}\n") as server:
        found = measured(server, tenants, seconds)
    shown = table(found)
    print(shown)
    if out := os.environ.get("CLOISTER_BENCH_OUT"):
        pathlib.Path(out, "fairness.json").write_text(json.dumps(found, indent=1) + "\n")
        page.write(pathlib.Path(os.environ["CLOISTER_BENCH_DOCS"], "BENCHMARKS.md"), MARKER, shown)
    return 0


if __name__ == "__main__":
    sys.exit(main())
