# SPDX-License-Identifier: Apache-2.0
"""The cost of MCP for a run: `tools/call run` against the same run over REST, with a single client and a connection
each, in random order.

    ./dev bench mcp [PAIRS]      default 1000
"""

import http.client
import json
import os
import pathlib
import random
import statistics
import sys
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "tests" / "integration"))
import harness  # noqa: E402
import mcp_client  # noqa: E402

PAIRS, WARM_UP, SEED = 1000, 50, 1
CODE = "print(1)"
TARGET_MS = 0.3  # of the medians' difference


class Way:
    """A way to request the run: over MCP or over REST."""

    def __init__(self, server, name, path, body, headers):
        self.name, self.seconds = name, []
        self._path, self._body = path, json.dumps(body).encode()
        self._headers = {"Content-Type": "application/json", "Authorization": f"Bearer {server.key}", **headers}
        self._connection = http.client.HTTPConnection(server.host, server.port, timeout=60)
        self._connection.connect()

    def run(self):
        start = time.perf_counter()
        self._connection.request("POST", self._path, self._body, self._headers)
        answer = self._connection.getresponse()
        body = answer.read()
        self.seconds.append(time.perf_counter() - start)
        assert answer.status == 200 and b'"exit_code":0' in body, body[:1000]

    def milliseconds(self, percent):
        return 1000 * statistics.quantiles(self.seconds, n=100, method="inclusive")[percent - 1]


def ways(server):
    client = mcp_client.Http(server, "modern")
    call = client._body("tools/call", {"name": "run", "arguments": {"language": "python", "code": CODE}}, None, None, 1)
    return (Way(server, "rest", "/v1/executions?wait=30", {"language": "python", "code": CODE}, {}),
            Way(server, "mcp", "/mcp", call, client._headers(call)))


def measure(server, pairs):
    both = list(ways(server))
    for _ in range(WARM_UP):
        for way in both:
            way.run()
    for way in both:
        way.seconds.clear()
    order = random.Random(SEED)
    for _ in range(pairs):
        order.shuffle(both)
        for way in both:
            way.run()
    return {way.name: way for way in both}


def main():
    pairs = int(sys.argv[1]) if len(sys.argv) > 1 else PAIRS
    with harness.Server(config="pool:\n  ready: 4\n") as server:
        found = measure(server, pairs)
    rows = {name: {"p50_ms": round(way.milliseconds(50), 3), "p99_ms": round(way.milliseconds(99), 3)}
            for name, way in sorted(found.items())}
    added = round(rows["mcp"]["p50_ms"] - rows["rest"]["p50_ms"], 3)
    print(f"{pairs} runs of {CODE!r} each way, in random order\n\n{'':6}{'p50 ms':>10}{'p99 ms':>10}")
    for name, row in rows.items():
        print(f"{name:6}{row['p50_ms']:10.3f}{row['p99_ms']:10.3f}")
    print(f"\nMCP adds {added:.3f} ms to the median (target: at most {TARGET_MS})")
    out = os.environ.get("CLOISTER_BENCH_OUT")
    if out:
        result = {"pairs": pairs, "ways": rows, "added_p50_ms": added, "target_ms": TARGET_MS}
        pathlib.Path(out, "mcp.json").write_text(json.dumps(result, indent=1) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
