# SPDX-License-Identifier: Apache-2.0
"""Clients under whose load parts are killed, and the killing."""
import contextlib
import http.client
import os
import random
import signal
import threading

import harness

# Answers explained by a part that is down, or just back: the session has ended with the part; too much waits; the node
# is away.
REFUSALS = (409, 429, 503)


class Refused(Exception):
    """An answer of REFUSALS."""


# Errors that a client may meet while parts are killed. Any other error ends its thread, and so fails the test.
EXPLAINED = (OSError, http.client.HTTPException, Refused)


def ask(server, method, path, body=None, status=200, timeout=60):
    """A request that must have this status. Raises an exception of EXPLAINED if a kill can be the reason for
    another."""
    answer = server.request(method, path, body, timeout=timeout)
    if answer.status in REFUSALS:
        raise Refused(answer.status, answer.body)
    assert answer.status == status, (method, path, answer.status, answer.body[:2000])
    return answer


def kill(pids):
    """kill -9 of the remaining processes → whether any got the signal."""
    for pid in pids:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
    return bool(pids)


def kill_part(server, program):
    """kill -9 of a process of the server; returns after a new process has its place and the server is ready."""
    victim = server.pid_of(program)
    os.kill(victim, signal.SIGKILL)

    def back():
        running = {harness.program_of(pid): pid for pid in server.pids()}
        return running.get(program, victim) != victim and server._answers_ready()

    harness.wait_for(f"{program} to be back", back, 60)


class Load:
    """Clients that submit `work` without pause and remember the acknowledged executions."""

    def __init__(self, server, work, clients, seed):
        self.server, self.work, self.seed = server, work, seed
        self.acknowledged = []
        self.stopping = threading.Event()
        self.threads = [threading.Thread(target=self._client, args=(n,)) for n in range(clients)]

    def __enter__(self):
        for thread in self.threads:
            thread.start()
        return self

    def __exit__(self, *exception):
        self.stopping.set()
        for thread in self.threads:
            thread.join()

    def _client(self, number):
        choice = random.Random(self.seed + number)
        while not self.stopping.is_set():
            with contextlib.suppress(*EXPLAINED):
                work = {**choice.choice(self.work), "artifacts": []}
                made = ask(self.server, "POST", "/v1/executions", work, status=201, timeout=20).json()
                # Before its node is connected, a restarted server knows of no runtime but "process".
                if made["status"] != "denied":
                    self.acknowledged.append(made["id"])
                    continue
            self.stopping.wait(0.05)
