# SPDX-License-Identifier: Apache-2.0
"""The time of a run by step, from the kernel's tracepoints; the processor time of a load by process and function,
from samples of the whole machine; the memory of a ready sandbox by kind.

    ./dev bench where [PART …]      default: all parts

Tracing costs time itself: shares are right, sums are somewhat above the figures of `./dev bench warm`. Needs perf
(Debian: linux-perf) and root.
"""

import bisect
import collections
import contextlib
import ctypes
import http.client
import json
import os
import pathlib
import re
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
import threading
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "tests" / "integration"))
import harness  # noqa: E402
import page  # noqa: E402

RUNS, COLD_RUNS, GVISOR_RUNS, WARM_UP, PAUSE = 200, 30, 20, 60, 0.03
LOAD_SECONDS, CLIENTS = 15, 8
DEFAULTS = "pool:\n  idle_ms: 30000\n"  # a server's default; the harness's own is smaller
CLIENT = "bench-client"  # the name of this process, to distinguish it from the interpreters

# --- steps of a run, by tracepoints ---------------------------------------------------------------

CALLS = ("sendto", "sendmsg", "read", "write", "writev", "pwrite64", "rt_sigqueueinfo", "exit_group", "execve")
SENDS = {"sendto", "sendmsg", "writev"}

# A step ends with the first matching call after the end of the previous step: by a thread with a matching name, any of
# `calls`. `row` names the work done until then.
Step = collections.namedtuple("Step", "who calls row")
RUNNER = r"cloister-runner|\d+$|memfd:"
DECIDED = Step("cloisterd", SENDS, "request read and parsed, decided by policy, permit signed")
COMMITTED = Step("cloisterd", SENDS, "acceptance and start committed to the ledger, which began with the permit")
HANDED_ON = Step("cloister-node", SENDS, "node hands the program to the runner")
ASKED = [DECIDED, Step("cloister-node", SENDS, "permit verified, sandbox claimed and limited"), COMMITTED, HANDED_ON]
ASKED_IN_SESSION = [DECIDED, COMMITTED, HANDED_ON]
ANSWERED = [
    Step("cloister-node", SENDS, "end and usage told by the runner, result by the node"),
    Step("cloisterd", {"pwrite64"}, "result taken, its record and audit row put together"),
    Step("cloisterd", SENDS, "record committed, answer written"),
]
LAST = "answer read by the client"
RUN_BY_WAITING = "program put in place, read and run by the waiting interpreter, to its first output"
IN_PYTHON = [
    Step("python3", {"write"}, RUN_BY_WAITING),
    Step("python3", {"rt_sigqueueinfo"}, "what the interpreter does at its end"),
]
IN_NODE = [
    Step("node", {"write", "writev"}, RUN_BY_WAITING),
    Step("node", {"exit_group"}, "what Node.js does at its end"),
    Step(RUNNER, SENDS | {"write"}, "its memory is given back, its runner hears of it"),
]
EXECUTED = [
    Step(RUNNER, {"execve"}, "runner reads, forks"),
    Step("true", {"exit_group"}, "program executed and loaded, until it ends"),
    Step(RUNNER, SENDS | {"write"}, "its memory is given back, its runner hears of it"),
]
TELLS = {"sendmsg"}  # the control plane; to its runner the node speaks by sendto(2)
IN_GVISOR = [
    *ASKED[:3],
    Step("cloister-node", TELLS, HANDED_ON.row),
    Step("cloister-node", TELLS, RUN_BY_WAITING),
    Step("cloisterd", {"pwrite64"}, "what the interpreter and the runner do at its end; the result told and taken"),
    ANSWERED[-1],
]
COLD = [
    Step("cloister$", {"execve"}, "`cloister run` starts, and looks for a server"),
    Step("cloister$", {"execve"}, "`cloister serve` starts and takes the state directory"),
    Step("cloister$", {"sendto"}, "node and control plane start: keys, ledger, the sandboxes' root"),
    Step(RUNNER, {"execve"}, "they meet; request, decision, a sandbox is made"),
    Step("python3", {"exit_group"}, "`python3` starts, and runs the program"),
    Step("cloisterd", {"exit_group"}, "result recorded and printed; the control plane ends"),
    Step("cloister-node", {"exit_group"}, "the node ends, and its sandboxes' host"),
]


class Client:
    """A connection that repeats the same request."""

    def __init__(self, server, path, body):
        self._path, self._body = path, json.dumps(body)
        self._headers = {"Content-Type": "application/json", "Authorization": f"Bearer {server.key}"}
        self._connection = http.client.HTTPConnection(server.host, server.port, timeout=60)

    def run(self):
        self._connection.request("POST", self._path, self._body, self._headers)
        answer = self._connection.getresponse()
        body = answer.read()
        assert answer.status == 200 and b'"exit_code":0' in body, body[:1000]


class Perf:
    """`perf record` of the whole machine, for as long as the block runs."""

    def __init__(self, *arguments):
        self._arguments = arguments
        self._file = tempfile.NamedTemporaryFile(suffix=".perf")

    def __enter__(self):
        self._perf = subprocess.Popen(
            ["perf", "record", "-a", "-k", "CLOCK_MONOTONIC", "-o", self._file.name, *self._arguments],
            stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
        time.sleep(1)  # until perf has attached; nothing reports it
        assert self._perf.poll() is None, self._perf.stderr.read().decode()
        return self

    def __exit__(self, *_):
        self._perf.send_signal(signal.SIGINT)
        self._perf.communicate()

    def script(self, fields):
        command = ["perf", "script", "-i", self._file.name, "-F", fields, "--ns"]
        done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, check=True)
        return done.stdout.decode(errors="replace")


Event = collections.namedtuple("Event", "time comm call")
LINE = re.compile(r"\s*(.+?)\s+(\d+\.\d+): +syscalls:sys_enter_(\w+):")


def events_of(text):
    found = (LINE.match(line) for line in text.splitlines())
    return sorted(Event(float(match[2]), match[1], match[3]) for match in found if match)


def traced(act, runs, pause):
    """The start and end of each run, and all events."""
    windows = []
    with Perf(*[word for call in CALLS for word in ("-e", f"syscalls:sys_enter_{call}")]) as perf:
        for _ in range(runs):
            begin = time.clock_gettime(time.CLOCK_MONOTONIC)
            act()
            windows.append((begin, time.clock_gettime(time.CLOCK_MONOTONIC)))
            time.sleep(pause)
    return windows, events_of(perf.script("comm,time,event"))


def lengths(window, events, steps):
    """Milliseconds of each step of a run, and of the rest; None if a step was not seen."""
    at, end = window
    spans, rest = [], iter(events)
    for step in steps:
        ended = next((each.time for each in rest if each.call in step.calls and re.match(step.who, each.comm)), None)
        if ended is None:
            return None
        spans.append(1000 * (ended - at))
        at = ended
    return [*spans, 1000 * (end - at)]


def timeline(title, act, steps, runs=RUNS, last=LAST, pause=PAUSE):
    windows, events = traced(act, runs, pause)
    times = [event.time for event in events]
    seen = []
    for begin, end in windows:
        part = events[bisect.bisect(times, begin):bisect.bisect(times, end)]
        if spans := lengths((begin, end), part, steps):
            seen.append(spans)
    if len(seen) < runs / 2:
        raise SystemExit(f"{title}: only {len(seen)} of {runs} runs took the steps that were expected")
    rows = [(step.row, statistics.median(each)) for step, each in zip([*steps, Step("", (), last)], zip(*seen))]
    total = statistics.median(1000 * (end - begin) for begin, end in windows)
    return table(title, "ms", rows, total)


def table(title, unit, rows, total):
    """`total` need not be the rows' sum: all are medians."""
    lines = [f"| {title} | {unit} | share |", "| --- | --- | --- |"]
    lines += [f"| {name} | {value:.2f} | {100 * value / total:.0f} % |" for name, value in rows]
    return "\n".join([*lines, f"| **all** | {total:.2f} | |"])


# --- processor time of a load, by samples -----------------------------------------------------------

# The first match takes the sample: the thread's name, and a function on its stack.
PARTS = [
    ("the load's clients", CLIENT, ""),
    ("network namespace: made", "", "copy_net_ns"),
    ("network namespace: given back", "", "cleanup_net|ops_undo_|net_drop_ns|net_free"),
    ("mounts", "", r"sys_(mount|fsopen|fsmount|fsconfig|move_mount|umount|mount_setattr|pivot_root)|copy_mnt_ns"
                   "|put_mnt_ns|cleanup_mnt|free_mnt_ns|umount_tree"),
    ("control groups", "", "cgroup_(mkdir|rmdir|attach|procs|file_write|migrate|destroy)|css_|cpuset|kernfs_iop"),
    ("system call filter", "", "seccomp_set_mode|do_seccomp|bpf_prog_(create|free|alloc)"),
    ("control plane: HTTP, policy, permit, ledger, audit", "cloisterd", ""),
    ("node: permit, sandboxes' life, frames", "cloister-node", ""),
    ("runner", RUNNER, ""),
    ("a copy's end: memory given back", "", "do_exit|mmput|exit_mm|delayed_put_task"),
    ("copy: task and page tables", "python3|cloister-spaw", "copy_process"),
    ("copy: page faults", "python3", "exc_page_fault"),
    ("copy: other system calls", "python3", "do_syscall_64"),
    ("interpreter: the program, and what it does at its end", "python3", ""),
    ("spawner", "cloister-spaw", ""),
    ("kernel threads", "kworker|ksoftirqd|rcu|migration|kthreadd|kswapd|khugepaged", ""),
    ("all else", "", ""),
]


def samples_of(text):
    """(thread's name, functions on the stack) of each sample outside of idling."""
    for block in text.split("\n\n"):
        name, _, stack = block.strip("\n").partition("\n")
        if name.strip() and not name.strip().startswith("swapper"):
            yield name.strip(), stack


def load(server, seconds):
    """Python programs by some clients at once; how many."""
    counts, until = [], time.monotonic() + seconds

    def ask():
        client, count = Client(server, **PYTHON), 0
        while time.monotonic() < until:
            client.run()
            count += 1
        counts.append(count)

    threads = [threading.Thread(target=ask) for _ in range(CLIENTS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return sum(counts)


def processor_time(server):
    load(server, 3)
    frequency = 999
    with Perf("-e", "cpu-clock", "-F", str(frequency), "-g") as perf:
        runs = load(server, LOAD_SECONDS)
    found = collections.Counter()
    for name, stack in samples_of(perf.script("comm,ip,sym")):
        found[next(row for row, who, what in PARTS if re.match(who, name) and re.search(what, stack))] += 1
    each = 1000 / frequency / runs
    rows = [(row, found[row] * each) for row, _, _ in PARTS if found[row]]
    return table(f"one of {runs} Python runs by {CLIENTS} clients", "ms of a processor", rows, found.total() * each)


# --- memory of a ready sandbox --------------------------------------------------------------------


def mappings(pid):
    """(name, {field: kB}) of each mapping."""
    name, fields = "", {}
    for line in pathlib.Path(f"/proc/{pid}/smaps").read_text().splitlines():
        if re.match(r"[0-9a-f]+-[0-9a-f]+ ", line):
            if fields:
                yield name, fields
            name, fields = (line.split(maxsplit=5) + [""])[5], {}
        elif line.endswith(" kB"):
            key, value, _ = line.split()
            fields[key.rstrip(":")] = int(value)
    yield name, fields


def kind_of(name):
    if name.startswith("["):
        return {"[heap]": "heap", "[stack]": "stack"}.get(name, "others")
    return "data of libraries" if name.startswith("/") else "arenas of objects"


def memory(server):
    """The memory of the waiting interpreters, with their runners."""
    load(server, 3)
    time.sleep(2)  # until the requested sandboxes are ready
    pairs = []
    for pid in harness.descendants(server.pid_of("cloister-node")):
        with contextlib.suppress(OSError):
            status = pathlib.Path(f"/proc/{pid}/status").read_text()
            inner = re.search(r"NSpid:.*\t(\d+)$", status, re.MULTILINE)[1]
            if status.startswith("Name:\tpython3\n") and inner == "2":
                pairs.append((pid, int(re.search(r"PPid:\t(\d+)", status)[1])))
    sums = collections.Counter()
    for interpreter, runner in pairs:
        for who, pid in (("interpreter", interpreter), ("runner", runner)):
            for name, fields in mappings(pid):
                own = fields["Private_Clean"] + fields["Private_Dirty"]
                sums[f"{who}: {kind_of(name)}, its own" if who == "interpreter" else f"{who}: its own"] += own
                sums[f"{who}: its share of what others have as well"] += fields["Pss"] - own
    rows = [(row, kilobytes / len(pairs) / 1024) for row, kilobytes in sums.most_common()]
    return table(f"one of {len(pairs)} ready Python sandboxes", "MB", rows, sum(value for _, value in rows))


# --- all of it ----------------------------------------------------------------------------------

PYTHON = {"path": "/v1/executions?wait=30", "body": {"language": "python", "code": "print(1)"}}
GVISOR = {"path": PYTHON["path"], "body": {**PYTHON["body"], "runtime": "gvisor"}}
NODE = {"path": "/v1/executions?wait=30", "body": {"language": "javascript", "code": "console.log(1)"}}


def runs(title, request, steps, count=RUNS, pause=PAUSE):
    def measure(server):
        client = Client(server, **request)
        for _ in range(min(WARM_UP, count)):
            client.run()
            time.sleep(pause)
        return timeline(title, client.run, steps, count, pause=pause)

    return measure


def in_session(server):
    session = server.request("POST", "/v1/sessions", {"language": "bash"}).json()["id"]
    client = Client(server, f"/v1/sessions/{session}/exec?wait=30", {"command": ["true"]})
    for _ in range(WARM_UP):
        client.run()
    return timeline("`true` in a session", client.run, [*ASKED_IN_SESSION, *EXECUTED, *ANSWERED])


def cold(_server):
    command = [harness.BIN / "cloister", "run", "-c", "print(1)"]
    environment = {"PATH": "/usr/local/bin:/usr/bin:/bin", "HOME": "/nonexistent"}

    def act():
        subprocess.run(command, env=environment, stdout=subprocess.DEVNULL, check=True)

    act()
    return timeline("`cloister run` with no server", act, COLD, COLD_RUNS, "directory removed, both commands end")


ALL = {
    "python": runs("a Python run from the pool", PYTHON, [*ASKED, *IN_PYTHON, *ANSWERED]),
    "node": runs("a Node.js run from the pool", NODE, [*ASKED, *IN_NODE, *ANSWERED]),
    "gvisor": runs("a Python run from the pool in gVisor", GVISOR, IN_GVISOR, GVISOR_RUNS, 1),
    "session": in_session,
    "load": processor_time,
    "memory": memory,
    "cold": cold,
}


def main(names):
    unknown = [name for name in names if name not in ALL]
    if unknown or not shutil.which("perf"):
        print(f"no part {unknown[0]!r}; there are: {', '.join(ALL)}" if unknown else
              "needs perf: apt-get install linux-perf", file=sys.stderr)
        return 2
    ctypes.CDLL(None).prctl(15, CLIENT.encode())  # PR_SET_NAME
    tables = []
    for name in names or ALL:
        with harness.Server(config=DEFAULTS) if name != "cold" else contextlib.nullcontext() as server:
            tables.append(ALL[name](server))
        print(tables[-1] + "\n", flush=True)
    docs = os.environ.get("CLOISTER_BENCH_DOCS")
    if docs and not names:
        page.write(pathlib.Path(docs, "BENCHMARKS.md"), "where", "\n\n".join(tables))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
