# SPDX-License-Identifier: Apache-2.0
"""The cost of the door: a run with a network against a run without, and the same client by the door, over loopback, over
the link to the servers, by slirp4netns where installed, and by an HTTP proxy of the environment. The servers are in the
fake internet of egress-conformance.

    ./dev bench egress [--pairs N] [--rounds N] [--mib N] [--before DIRECTORY]

A connection goes to an address: by the door the name is looked up once before, and the time of a look-up is measured by
itself. Rounds of loopback, link and door alternate, and the ratios are medians over the rounds.

--before: the programs of an earlier build, such as build/release/bin; runs without a network are compared with theirs, in nine
alternating pairs. As root, in namespaces of its own.
"""

import argparse
import contextlib
import json
import os
import pathlib
import random
import shutil
import statistics
import subprocess
import sys
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent
for folder in ("egress-conformance", "tests/integration"):
    sys.path.insert(0, str(ROOT / folder))
import harness  # noqa: E402
from doorcheck.driver import Entry, Policy  # noqa: E402
from doorcheck.drivers.cloister import document_of  # noqa: E402
from doorcheck.drivers.control import Control  # noqa: E402
from doorcheck.internet import zone  # noqa: E402
from doorcheck.world import World  # noqa: E402

INSIDE = "CLOISTER_BENCH_INSIDE"  # set in the namespaces
ECHO_PORT, SOURCE_PORT, SINK_PORT = 9100, 9101, 9102
PAIRS, ROUNDS, MIB, CONNECTS, LOOK_UPS, WARM_UP, SEED = 400, 9, 256, 400, 50, 20, 1
BEFORE_PAIRS, BEFORE_RUNS = 9, 60
# Two queries each; a sandbox may ask 200 queries a second.
TTL = 60  # seconds, as many names of the internet have; a TTL of 0 would measure the resolver at each dial
REQUESTS = 400  # of each kind, over one connection each
TARGETS = {"door_adds_ms": 0.5, "inspection_adds_ms": 2.0, "connect_ratio": 4.0, "throughput_ratio": 0.4, "before_ratio": 1.05}

# Blocking servers: little besides the path is measured.
SERVERS = r'''
import socket, sys, threading
def echo(client):
    while data := client.recv(65536): client.sendall(data)
def source(client):
    size, block = int(client.recv(64)), bytes(1 << 20)
    for _ in range(size): client.sendall(block)
def sink(client):
    left, buffer = int(client.recv(16, socket.MSG_WAITALL)) << 20, bytearray(1 << 20)
    while left > 0 and (got := client.recv_into(buffer)): left -= got
    client.sendall(b"all" if left == 0 else b"cut")
def serve(port, story):
    listener = socket.create_server(("0.0.0.0", port), backlog=512)
    while True:
        client = listener.accept()[0]
        client.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        def run(client=client):
            try: story(client)
            except OSError: pass
            client.close()
        run() if story is echo else threading.Thread(target=run, daemon=True).start()
for port, story in zip(map(int, sys.argv[1:]), (echo, source, sink)): threading.Thread(target=serve, args=(port, story)).start()
print("ready", flush=True)
'''
# The same client everywhere. PROXY: (host, port) of an HTTP proxy, or None.
CLIENT = r'''
import json, socket, time
def timed(count, step):
    times = []
    for _ in range(count):
        start = time.perf_counter()
        step()
        times.append(1e6 * (time.perf_counter() - start))
    return sorted(times)
def look_up(): return socket.getaddrinfo(HOST, ECHO_PORT, type=socket.SOCK_STREAM)[0][4][0]
PLACE = look_up()
look_ups = timed(LOOK_UPS, look_up)
def dial(port):
    if PROXY is None: return socket.create_connection((PLACE, port), 10)
    connection = socket.create_connection(PROXY, 10)
    connection.sendall(f"CONNECT {HOST}:{port} HTTP/1.1\r\nHost: {HOST}:{port}\r\n\r\n".encode())
    while not connection.recv(4096).endswith(b"\r\n\r\n"): pass
    return connection
def echo():
    with dial(ECHO_PORT) as connection:
        connection.sendall(b"x"); assert connection.recv(1) == b"x"
times = timed(CONNECTS, echo)
buffer = bytearray(1 << 20)
start = time.perf_counter()
with dial(SOURCE_PORT) as connection:
    connection.sendall(str(MIB).encode()); seen = 0
    while (got := connection.recv_into(buffer)): seen += got
down = MIB / (time.perf_counter() - start)
assert seen == MIB << 20
start = time.perf_counter()
with dial(SINK_PORT) as connection:
    connection.sendall(b"%16d" % MIB)
    for _ in range(MIB): connection.sendall(buffer)
    assert connection.recv(64) == b"all"
up = MIB / (time.perf_counter() - start)
print(json.dumps({"connect_best_us": times[0], "connect_p50_us": times[len(times) // 2], "down_mib_s": down, "up_mib_s": up,
                  "look_up_p50_us": look_ups[len(look_ups) // 2]}))
'''


def client(host, mib, proxy=None):
    values = {"HOST": host, "PROXY": proxy, "MIB": mib, "CONNECTS": CONNECTS, "LOOK_UPS": LOOK_UPS, "ECHO_PORT": ECHO_PORT, "SOURCE_PORT": SOURCE_PORT,
              "SINK_PORT": SINK_PORT}
    return "".join(f"{name} = {value!r}\n" for name, value in values.items()) + CLIENT


def figures(text):
    return {name: round(value, 1) for name, value in json.loads(text.splitlines()[-1]).items()}


def output(command, **how):
    return subprocess.run([str(word) for word in command], check=True, capture_output=True, text=True, timeout=300, **how).stdout


# --- the ways ---------------------------------------------------------------------------------------


def directly(mib):
    return figures(output([sys.executable, "-c", client(zone.NEIGHBOUR, mib)]))


def over_loopback(world, mib):
    return figures(output(["nsenter", f"--net=/proc/{world.process.pid}/ns/net", sys.executable, "-c", client("127.0.0.1", mib)]))


def by_door(server, mib):
    done = server.run(client("neighbour.test", mib), wait=300, timeout_seconds=280, artifacts=[], network_policy={"tier": "restricted"})
    if done["status"] != "completed" or done["exit_code"] != 0:
        raise SystemExit(f"the client failed: {done['error']} {done['stderr'][-1000:]}")
    return figures(done["stdout"])


def by_proxy(world, mib):
    control = Control()
    control.start(world)
    try:
        result = control.run(client(zone.NEIGHBOUR, mib, control.proxy), Policy((Entry(zone.NEIGHBOUR, ECHO_PORT),)), 280)
        return figures(result.stdout)
    finally:
        control.stop()


def by_slirp(mib):
    held = subprocess.Popen(["unshare", "--net", "sleep", "600"])
    slirp = None
    try:
        harness.wait_for("the namespace", lambda: os.readlink(f"/proc/{held.pid}/ns/net") != os.readlink("/proc/self/ns/net"))
        ready, done = os.pipe()
        slirp = subprocess.Popen(["slirp4netns", "--configure", "--mtu=65520", f"--ready-fd={done}", str(held.pid), "tap0"],
                                 pass_fds=[done], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        os.close(done)
        os.read(ready, 1)
        return figures(output(["nsenter", f"--net=/proc/{held.pid}/ns/net", sys.executable, "-c", client(zone.NEIGHBOUR, mib)]))
    finally:
        for process in filter(None, (slirp, held)):
            process.kill()
            process.wait()


# Requests over TLS to two names of the same server: one is read, one is relayed as it is. In turns, over kept connections.
REQUESTS_OVER_TLS = r'''
import http.client, json, ssl, statistics, time
def connection(host):
    context = ssl.create_default_context()
    if host == PLAIN: context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    return http.client.HTTPSConnection(host, timeout=20, context=context)
connections = {host: connection(host) for host in (PLAIN, READ)}
taken = {host: [] for host in connections}
for number in range(REQUESTS + 20):
    for host, each in connections.items():
        start = time.perf_counter()
        each.request("GET", "/")
        answer = each.getresponse()
        assert answer.read() and answer.status == 200
        if number >= 20: taken[host].append(1000 * (time.perf_counter() - start))
print(json.dumps({kind: statistics.median(taken[host]) for kind, host in (("relayed", PLAIN), ("inspected", READ))}))
'''


def inspection(server):
    """Milliseconds of a request over TLS, relayed and inspected, p50."""
    entries = (Entry("allowed.test", 443, "tls"), Entry("api.test", 443, "tls"))
    document = json.loads(document_of(Policy(entries)))
    for rule in document["rules"]:
        for entry in rule.get("network", []):
            if isinstance(entry, dict) and entry["name"] == "api.test":
                entry["inspect"] = True
    answer = server.request("POST", "/v1/policies", {"document": json.dumps(document)})
    assert answer.status == 201, answer.body
    values = f"PLAIN, READ, REQUESTS = 'allowed.test', 'api.test', {REQUESTS}\n"
    done = server.run(values + REQUESTS_OVER_TLS, wait=120, timeout_seconds=100, artifacts=[], network_policy={"tier": "restricted"})
    if done["status"] != "completed" or done["exit_code"] != 0:
        raise SystemExit(f"the client of TLS failed: {done['error']} {done['stderr'][-1000:]}")
    return {kind: round(value, 3) for kind, value in json.loads(done["stdout"]).items()}


# --- runs ---------------------------------------------------------------------------------------


def run_ms(server, tier):
    start = time.perf_counter()
    answer = server.submit(":", "bash", artifacts=[], network_policy={"tier": tier})
    took = 1000 * (time.perf_counter() - start)
    if answer.status != 200 or answer.json()["exit_code"] != 0:
        raise SystemExit(f"a run failed: {answer.body[:500]!r}")
    return took


def claims(server, pairs):
    """Milliseconds of runs without and with a door, in random order."""
    taken, order = {"none": [], "restricted": []}, random.Random(SEED)
    for number in range(WARM_UP + pairs):
        for tier in order.sample(sorted(taken), 2):
            took = run_ms(server, tier)
            if number >= WARM_UP:
                taken[tier].append(took)
    return {tier: {"p50_ms": round(statistics.median(each), 3), "p99_ms": round(sorted(each)[len(each) * 99 // 100], 3)}
            for tier, each in taken.items()}


def against_before(before):
    """The median ratio of runs without a network, this build over an earlier one, in alternating pairs."""
    def median_of(programs):
        with harness.Server("pool:\n  ready: 4\n", bin=programs) as server:
            for _ in range(WARM_UP):
                run_none(server)
            return statistics.median(run_none(server) for _ in range(BEFORE_RUNS))

    def run_none(server):
        start = time.perf_counter()
        assert server.submit(":", "bash", artifacts=[]).json()["exit_code"] == 0
        return 1000 * (time.perf_counter() - start)

    ratios = []
    for number in range(BEFORE_PAIRS):
        pair = {programs: median_of(programs) for programs in ((harness.BIN, before) if number % 2 else (before, harness.BIN))}
        ratios.append(pair[harness.BIN] / pair[before])
    return round(statistics.median(ratios), 3)


# --- the report -----------------------------------------------------------------------------------


@contextlib.contextmanager
def servers(world):
    command = ["nsenter", f"--net=/proc/{world.process.pid}/ns/net", sys.executable, "-c", SERVERS, ECHO_PORT, SOURCE_PORT, SINK_PORT]
    process = subprocess.Popen([str(word) for word in command], stdout=subprocess.PIPE, text=True)
    try:
        assert process.stdout.readline() == "ready\n"
        yield
    finally:
        process.kill()
        process.wait()
        process.stdout.close()


def median_round(rounds):
    """The median of each figure over the rounds."""
    return {name: round(statistics.median(each[name] for each in rounds), 1) for name in rounds[0]}


def ratios(rounds):
    """Of the door to loopback, in the same round."""
    pairs = list(zip(rounds["door"], rounds["loopback"]))
    throughput = (min(door[each] / plain[each] for each in ("down_mib_s", "up_mib_s")) for door, plain in pairs)
    return {"connect_ratio": round(statistics.median(door["connect_p50_us"] / plain["connect_p50_us"] for door, plain in pairs), 2),
            "throughput_ratio": round(statistics.median(throughput), 2)}


def measure(chosen):
    found = {"ways": {}}
    rounds = {"loopback": [], "link": [], "door": []}
    with World(ttl=TTL) as world, servers(world):
        config = f"pool:\n  ready: 4\negress:\n  resolver: {world.resolver}\n  connections_per_second: 100000\n  ca_file: {world.directory}/ca.pem\n"
        with harness.Server(config) as server:
            entries = tuple(Entry("neighbour.test", port, "tcp") for port in (ECHO_PORT, SOURCE_PORT, SINK_PORT))
            answer = server.request("POST", "/v1/policies", {"document": document_of(Policy(entries))})
            assert answer.status == 201, answer.body
            for _ in range(chosen.rounds):
                rounds["loopback"].append(over_loopback(world, chosen.mib))
                rounds["link"].append(directly(chosen.mib))
                rounds["door"].append(by_door(server, chosen.mib))
            found["runs"] = claims(server, chosen.pairs)
            found["requests"] = inspection(server)
        if shutil.which("slirp4netns"):
            found["ways"]["slirp4netns"] = by_slirp(chosen.mib)
        found["ways"]["http proxy"] = by_proxy(world, chosen.mib)
    if chosen.before:
        found["before_ratio"] = against_before(chosen.before.resolve())
    found["ways"] = {**{way: median_round(each) for way, each in rounds.items()}, **found["ways"]}
    found.update(ratios(rounds))
    found["door_adds_ms"] = round(found["runs"]["restricted"]["p50_ms"] - found["runs"]["none"]["p50_ms"], 3)
    found["inspection_adds_ms"] = round(found["requests"]["inspected"] - found["requests"]["relayed"], 3)
    return {**found, "targets": TARGETS, "pairs": chosen.pairs, "rounds": chosen.rounds, "mib": chosen.mib}


def table(found):
    lines = [f"{'':14}{'connect+echo us':>22}{'MiB/s down':>12}{'up':>9}{'look-up us':>12}"]
    for name, row in found["ways"].items():
        lines.append(f"{name:14}{row['connect_best_us']:>12.0f} / {row['connect_p50_us']:<7.0f}{row['down_mib_s']:>12.0f}{row['up_mib_s']:>9.0f}"
                     f"{row['look_up_p50_us'] if name == 'door' else '':>12}")
    lines += ["", f"{'':14}{'p50 ms':>10}{'p99 ms':>10}"]
    lines += [f"{tier:14}{row['p50_ms']:10.3f}{row['p99_ms']:10.3f}" for tier, row in found["runs"].items()]
    lines += ["", *(f"{'request, ' + kind:20}{value:8.3f} ms p50" for kind, value in found["requests"].items())]
    lines += ["", *(f"{name} {found[name]} (target {'at least' if name == 'throughput_ratio' else 'at most'} {target})"
                    for name, target in TARGETS.items() if name in found)]
    return "\n".join(lines)


def enter():
    """Runs this script again in namespaces of its own, with a /tmp of its own."""
    if os.geteuid() != 0:
        raise SystemExit("only root can make the namespaces of this benchmark")
    again = ["unshare", "--net", "--mount", "--pid", "--ipc", "--fork", "--mount-proc", "--kill-child", "sh", "-c",
             "mount -t tmpfs -o mode=1777 none /tmp && ip link set lo up && exec \"$@\"", "sh", sys.executable, *sys.argv]
    return subprocess.run(again, env={**os.environ, INSIDE: "1"}).returncode


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--pairs", type=int, default=PAIRS)
    parser.add_argument("--rounds", type=int, default=ROUNDS)
    parser.add_argument("--mib", type=int, default=MIB)
    parser.add_argument("--before", type=pathlib.Path)
    chosen = parser.parse_args()
    if INSIDE not in os.environ:
        return enter()
    found = measure(chosen)
    print(table(found))
    out = os.environ.get("CLOISTER_BENCH_OUT")
    if out:
        pathlib.Path(out, "egress.json").write_text(json.dumps(found, indent=1) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
