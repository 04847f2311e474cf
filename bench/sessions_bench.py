# SPDX-License-Identifier: Apache-2.0
"""Sessions in numbers: the time to create many, the memory of an idle session, a program inside compared with a bare
spawn, a cell, and the cost of a slow reader for everybody else.

    ./dev bench sessions [SESSIONS [PROGRAMS]]      default 200 and 1000
"""

import contextlib
import http.client
import json
import os
import pathlib
import statistics
import subprocess
import sys
import threading
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "tests" / "integration"))
import harness  # noqa: E402
from session_case import Session  # noqa: E402

import page  # noqa: E402

SESSIONS, PROGRAMS, WARM_UP, CLIENTS = 200, 1000, 50, 4
MEMORY_MB = 64
CONFIG = f"""
session:
  max: {{sessions}}
  max_per_tenant: {{sessions}}
  memory_percent: 100
node:
  max_sandboxes: {{sandboxes}}
"""
MARKER = "sessions"
FLOOD = "import sys\nfor _ in range(2000): sys.stdout.buffer.write(b'x' * 65536)"


class Client:
    """A kept connection."""

    def __init__(self, server):
        self._server = server
        self._connection = http.client.HTTPConnection(server.host, server.port, timeout=120)

    def post(self, path, body):
        """The answer's text, and its duration in seconds."""
        headers = {"Content-Type": "application/json", "Authorization": f"Bearer {self._server.key}"}
        start = time.perf_counter()
        self._connection.request("POST", path, json.dumps(body).encode(), headers)
        answer = self._connection.getresponse()
        text = answer.read()
        took = time.perf_counter() - start
        assert answer.status in (200, 201), (path, answer.status, text[:1000])
        return text, took


def percentile(seconds, percent):
    return round(1000 * statistics.quantiles(seconds, n=100, method="inclusive")[percent - 1], 3)


def both(seconds):
    return {"p50_ms": percentile(seconds, 50), "p99_ms": percentile(seconds, 99)}


def pss(pid):
    """Bytes, of a process (proc(5), smaps_rollup)."""
    with contextlib.suppress(OSError):
        for line in pathlib.Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines():
            if line.startswith("Pss:"):
                return int(line.split()[1]) << 10
    return 0


def create(server, count):
    """Creates sessions in turn; gives the duration of each."""
    client, made, seconds = Client(server), [], []
    for _ in range(count):
        text, took = client.post("/v1/sessions", {"language": "bash", "memory_mb": MEMORY_MB})
        made.append(json.loads(text)["id"])
        seconds.append(took)
    return made, seconds


def create_at_once(server, count):
    """Creates sessions by several clients; gives the duration of all."""
    seconds, lock = [], threading.Lock()

    def some():
        _, took = create(server, count // CLIENTS)
        with lock:
            seconds.extend(took)

    threads = [threading.Thread(target=some) for _ in range(CLIENTS)]
    start = time.perf_counter()
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return seconds, time.perf_counter() - start


def idle_memory(server, count):
    """An idle session's memory, in MB: its own processes', and the server's share."""
    ours = [pid for pid in harness.descendants(server.process.pid)]
    before = {pid: pss(pid) for pid in ours}
    at_once, whole = create_at_once(server, count)
    inside = [pid for pid in harness.descendants(server.process.pid) if pid not in before]
    own = sum(map(pss, inside)) / count
    grown = sum(max(0, pss(pid) - was) for pid, was in before.items()) / count
    return {"sessions": count, "made_at_once": both(at_once) | {"per_second": round(count / whole, 1)},
            "own_mb": round(own / 1e6, 3), "service_mb": round(grown / 1e6, 3), "processes": round(len(inside) / count, 2)}


def spawned():
    start = time.perf_counter()
    pid = os.posix_spawn("/usr/bin/true", ["true"], {})
    os.waitpid(pid, 0)
    return time.perf_counter() - start


def programs(server, count):
    """A program in a session, a cell, and a bare spawn, in turn."""
    with Session(server, language="python", memory_mb=256) as session:
        client = Client(server)
        exec_path = session.path + "/exec?wait=30"
        found = {"exec": [], "cell": [], "spawn": []}
        for number in range(WARM_UP + count):
            _, program = client.post(exec_path, {"command": ["true"]})
            text, cell = client.post(exec_path, {"code": "1+1"})
            assert b'"2"' in text, text[:1000]
            spawn = spawned()
            if number >= WARM_UP:
                for name, took in (("exec", program), ("cell", cell), ("spawn", spawn)):
                    found[name].append(took)
    return {name: both(seconds) for name, seconds in found.items()}


def beside_a_slow_reader(server, count):
    """Programs of a session, alone and while another session's flood is read a byte at a time."""
    with Session(server, language="bash", memory_mb=64) as session, \
         Session(server, language="python", memory_mb=256) as flooding:
        client = Client(server)

        def measured():
            return both([client.post(session.path + "/exec?wait=30", {"command": ["true"]})[1] for _ in range(count)])

        measured()
        alone = measured()
        execution = flooding.start(FLOOD, timeout_seconds=600)
        done = threading.Event()

        def trickle():
            reader = http.client.HTTPConnection(server.host, server.port, timeout=120)
            reader.request("GET", f"/v1/executions/{execution}/events",
                           headers={"Authorization": f"Bearer {server.key}", "Accept": "text/event-stream"})
            answer = reader.getresponse()
            while not done.is_set() and answer.read(64):
                time.sleep(0.01)

        thread = threading.Thread(target=trickle)
        thread.start()
        beside = measured()
        done.set()
        thread.join()
        return {"alone": alone, "beside": beside}


def table(found):
    idle, run = found["idle"], found["programs"]
    above = round(run["exec"]["p50_ms"] - run["spawn"]["p50_ms"], 3)
    slow = found["slow_reader"]
    ratio = round(slow["beside"]["p99_ms"] / slow["alone"]["p99_ms"], 2)
    return "\n".join([
        "| what | p50 | p99 | bound | met |", "| --- | --- | --- | --- | --- |",
        f"| creation, one after another | {found['created']['p50_ms']} ms | {found['created']['p99_ms']} ms | — | — |",
        f"| creation of {idle['sessions']} by {CLIENTS} clients at once, {idle['made_at_once']['per_second']} a second "
        f"| {idle['made_at_once']['p50_ms']} ms | {idle['made_at_once']['p99_ms']} ms | — | — |",
        f"| memory of an idle one, of {idle['sessions']}: its own (PSS) and the service's | {idle['own_mb']} MB | "
        f"{idle['service_mb']} MB | — | — |",
        f"| `true` spawned without a sandbox | {run['spawn']['p50_ms']} ms | {run['spawn']['p99_ms']} ms | — | — |",
        f"| `true` in a session | {run['exec']['p50_ms']} ms | {run['exec']['p99_ms']} ms | "
        f"{above} ms above the spawn, of ≤ 0.5 | {'yes' if above <= 0.5 else 'no'} |",
        f"| cell `1+1` in its interpreter | {run['cell']['p50_ms']} ms | {run['cell']['p99_ms']} ms | — | — |",
        f"| `true` in a session, another's flood read slowly | {slow['beside']['p50_ms']} ms | {slow['beside']['p99_ms']} ms | "
        f"{ratio} × its p99 alone ({slow['alone']['p99_ms']} ms), of < 2 | {'yes' if ratio < 2 else 'no'} |"])


def main():
    sessions, count = (list(map(int, sys.argv[1:])) + [SESSIONS, PROGRAMS][len(sys.argv) - 1:])[:2]
    with harness.Server(config=CONFIG.format(sessions=sessions + 4, sandboxes=2 * sessions)) as server:
        found = {"programs": programs(server, count), "slow_reader": beside_a_slow_reader(server, count)}
        made, seconds = create(server, WARM_UP)
        found["created"] = both(seconds)
        for each in made:
            server.request("DELETE", f"/v1/sessions/{each}")
        found["idle"] = idle_memory(server, sessions)
    shown = table(found)
    print(shown)
    if out := os.environ.get("CLOISTER_BENCH_OUT"):
        pathlib.Path(out, "sessions.json").write_text(json.dumps(found, indent=1) + "\n")
        page.write(pathlib.Path(os.environ["CLOISTER_BENCH_DOCS"], "BENCHMARKS.md"), MARKER, shown)
    return 0


if __name__ == "__main__":
    sys.exit(main())
