# SPDX-License-Identifier: Apache-2.0
"""Many claims at once for fewer ready sandboxes, by many tenants, while the node is killed and comes back: no two
executions get the same sandbox, and no program runs twice. Three witnesses: each program names its sandbox by a
value that the kernel never reuses (the cookie of its network namespace), the ledger and the audit log count the
starts, and the host watches the processes themselves."""
import collections
import concurrent.futures
import contextlib
import json
import os
import pathlib
import random
import secrets
import signal
import sys
import threading
import time
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "integration"))
import harness  # noqa: E402
import invariants  # noqa: E402
import pool_counts  # noqa: E402

READY, CLIENTS, KILLS = (10, 40, 2) if harness.SANITIZED else (100, 500, 10) if harness.LONG else (20, 100, 3)
TENANTS = 20
SEED = int(os.environ.get("CLOISTER_SEED", random.randrange(1 << 32)))
# More claims than sandboxes, and more sandboxes than ready ones: some claims find a sandbox, some have a sandbox made,
# some wait. There is room for as many to run, to be ready and to be torn down at once. So many clients make processors
# short, and without the settings below nothing would be made ahead.
CONFIG = f"""
pool:
  ready: {READY}
  idle_ms: 30000
{harness.CALM}node:
  max_sandboxes: {3 * READY}
"""
# Its process bears the token as its name, for the host to see. The nap is for the kill to fall into.
OWNER = """
import ctypes, json, os, socket, sys, time
TOKEN = {token!r}
PR_SET_NAME, SO_NETNS_COOKIE = 15, 71
PLACES = ("/workspace", "/tmp", "/dev/shm")
ctypes.CDLL(None).prctl(PR_SET_NAME, TOKEN.encode())
found = [entry for place in PLACES for entry in os.listdir(place) if entry != "main.py"]
for place in PLACES:
    with open(place + "/owner", "x") as file: file.write(TOKEN)
cookie = int.from_bytes(socket.socket().getsockopt(socket.SOL_SOCKET, SO_NETNS_COOKIE, 8), sys.byteorder)
print(json.dumps(dict(token=TOKEN, sandbox=cookie, found=found, copied="statistics" in sys.modules)))
time.sleep(0.5)
print(*{{open(place + "/owner").read() for place in PLACES}})
"""


class Observer(threading.Thread):
    """Watches the machine's processes without pause for tokens as their names."""

    def __init__(self):
        super().__init__()
        self.seen = collections.defaultdict(set)  # token → {(pid, start time)}
        self.tokens = set()
        self.stopping = threading.Event()

    def run(self):
        while not self.stopping.wait(0.02):
            self.look()

    def look(self):
        """The tokens of the running programs."""
        alive = set()
        for name in filter(str.isdigit, os.listdir("/proc")):
            with contextlib.suppress(OSError):
                text = pathlib.Path(f"/proc/{name}/stat").read_text()
                token, fields = text[text.index("(") + 1 : text.rindex(")")], text[text.rindex(")") + 2 :].split()
                if token in self.tokens:
                    self.seen[token].add((int(name), int(fields[19])))
                    alive.add(token)
        return alive

    def __enter__(self):
        self.start()
        return self

    def __exit__(self, *exception):
        self.stopping.set()
        self.join()


class Clients:
    """Submits without pause, all clients at once, and remembers the acknowledged and the refused."""

    def __init__(self, server, keys, observer):
        self.server, self.keys, self.observer = server, keys, observer
        self.tokens = {}  # of each acknowledged execution
        self.refusals = []
        self.stopping = threading.Event()
        self.together = threading.Barrier(CLIENTS)
        self.pool = concurrent.futures.ThreadPoolExecutor(CLIENTS)

    def __enter__(self):
        self.running = [self.pool.submit(self._client, number) for number in range(CLIENTS)]
        return self

    def __exit__(self, *exception):
        self.stopping.set()
        self.pool.shutdown()

    def errors(self):
        """Errors other than an answer or a refusal."""
        return [error for error in (future.exception() for future in self.running) if error]

    def claim(self, number):
        """An execution by the client of the given number; False if refused."""
        token = secrets.token_hex(7)  # no longer than the name of a process may be
        self.observer.tokens.add(token)
        # With an argument nothing can have been started ahead, and any ready sandbox will do.
        more = {"args": [token]} if number % 2 else {}
        answer = self.server.submit(OWNER.format(token=token), memory_mb=32, artifacts=[],
                                    key=self.keys[number % TENANTS], **more)
        if answer.status in (200, 202):
            self.tokens[answer.json()["id"]] = token
            return True
        self.refusals.append(answer)
        return False

    def _client(self, number):
        self.together.wait()
        while not self.stopping.is_set():
            if not self.claim(number):
                self.stopping.wait(1)


class Claims(unittest.TestCase):
    def setUp(self):
        self.clean = harness.Snapshot()
        self.server = self.enterContext(harness.Server(config=CONFIG))
        self.keys = [self.new_key(f"tenant-{number}") for number in range(TENANTS)]
        self.choice = random.Random(SEED)

    def new_key(self, tenant):
        answer = self.server.request("POST", "/v1/keys", {"tenant": tenant, "name": "test"})
        self.assertEqual(answer.status, 201)
        return answer.json()["secret"]

    def runners(self):
        return [pid for pid in self.server.pids() if harness.program_of(pid) == "cloister-runner"]

    def fill(self, clients):
        """Asks until as many sandboxes stand ready as may."""
        with concurrent.futures.ThreadPoolExecutor(READY) as pool:
            for _ in range(20):
                self.assertTrue(all(pool.map(clients.claim, range(READY))))
                with contextlib.suppress(AssertionError):  # needs another round of demand
                    return harness.wait_for("ready sandboxes", lambda: len(self.runners()) >= READY, 2)
        self.fail(f"only {len(self.runners())} sandboxes of {READY} stand ready")

    def await_ready_claims(self, before):
        """Returns once some of the clients have had a ready sandbox."""
        def look():
            served = pool_counts.claims(self.server.metrics())
            return served["ready"] > before["ready"] and served - before
        print(f"served while many ask: {dict(harness.wait_for('claims of ready sandboxes', look, 60))}")

    def node(self):
        """The pid of the node, None while there is none."""
        return next((pid for pid in harness.children(self.server.process.pid)
                     if harness.program_of(pid) == "cloister-node"), None)

    def kill_node(self, observer):
        """Kills at a random moment while its programs run; returns once there is a new node."""
        before = observer.look()
        harness.wait_for("programs to run", lambda: observer.look() - before, 60)
        time.sleep(self.choice.uniform(0, 0.5))  # the random moment itself
        victim = self.node()
        os.kill(victim, signal.SIGKILL)
        harness.wait_for("another node", lambda: self.node() not in (None, victim), 60)

    def test_claims_while_the_node_is_killed(self):
        with Observer() as observer:
            clients = Clients(self.server, self.keys, observer)
            harness.await_copies(self.server)
            self.fill(clients)
            before = pool_counts.claims(pool_counts.settled(self.server))
            with clients:
                self.await_ready_claims(before)
                for number in range(KILLS):
                    with self.subTest(kill=number, seed=SEED):
                        self.kill_node(observer)
            self.assertEqual(clients.errors(), [])
            ended = invariants.check(self, self.server, list(clients.tokens))
        self.check_refusals(clients.refusals)
        self.check_owners(clients, ended)
        twice = {token: at for token, at in observer.seen.items() if len(at) > 1}
        self.assertEqual(twice, {}, "a program that ran twice")
        self.server.stop()
        harness.assert_clean(self.clean, seconds=30, ignore=[f"files: {self.server.state}"])

    def check_refusals(self, refusals):
        why = collections.Counter()
        for refusal in refusals:
            self.assertEqual(refusal.headers["content-type"], "application/problem+json")
            self.assertIn(refusal.status, (429, 503), refusal.body)
            self.assertTrue(refusal.json()["error"]["retryable"], refusal.body)
            why[refusal.status, refusal.json()["error"]["message"]] += 1
        print(f"refused: {dict(why)}")

    def check_owners(self, clients, ended):
        owners, outcomes, copied = {}, collections.Counter(), 0
        for execution in ended:
            error = execution["error"]
            outcomes[f"{error['type']}: {error['message']}" if error else execution["status"]] += 1
            self.assertIn((execution["status"], error and error["type"]), (("completed", None), ("failed", "NODE_LOST")))
            lines = execution["stdout"].splitlines()
            if execution["status"] == "completed":
                self.assertEqual((len(lines), execution["exit_code"]), (2, 0), execution)
            self.assertLessEqual(len(lines), 2, execution)
            if not lines:
                continue
            token, said = clients.tokens[execution["id"]], json.loads(lines[0])
            self.assertEqual((said["token"], said["found"], lines[1:] in ([], [token])), (token, [], True), execution)
            other = owners.setdefault(said["sandbox"], execution["id"])
            self.assertEqual(other, execution["id"], f"two executions in one sandbox, {said}")
            copied += said["copied"]
        print(f"ended: {dict(outcomes)}\n{len(owners)} sandboxes seen, {copied} of them copies of a zygote, "
              f"seed {SEED}")
        self.assertGreater(outcomes["completed"], 0)
        self.assertTrue(any(outcome.startswith("NODE_LOST") for outcome in outcomes), "no kill met a run")
        self.assertGreater(copied, 0)
        self.assertLess(copied, len(owners))


if __name__ == "__main__":
    unittest.main()
