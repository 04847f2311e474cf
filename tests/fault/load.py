# SPDX-License-Identifier: Apache-2.0
"""Clients under whose load parts are killed, and the killing."""
import contextlib
import http.client
import os
import random
import signal
import threading


def kill(pids):
    """kill -9 of those that are still there → whether any was asked for."""
    for pid in pids:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
    return bool(pids)


class Load:
    """Clients that submit `work` without pause and remember what was acknowledged."""

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
            # While a part is down a refusal or a broken connection is what a client expects.
            with contextlib.suppress(OSError, http.client.HTTPException, ValueError):
                answer = self.server.request("POST", "/v1/executions",
                                             {**choice.choice(self.work), "artifacts": []}, timeout=20)
                # Before its node is there, a server that has just started knows of no runtime but "process".
                if answer.status == 201 and answer.json()["status"] != "denied":
                    self.acknowledged.append(answer.json()["id"])
                    continue
            self.stopping.wait(0.05)
