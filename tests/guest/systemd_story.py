# SPDX-License-Identifier: Apache-2.0
"""Inside the guest of systemd.py: the life of the package, step by step, each with a run and a session under way. Writes a
line of JSON for each step to the second serial port."""

import contextlib
import json
import os
import pathlib
import socket
import subprocess
import time
import traceback
import urllib.error
import urllib.request

REPORT = "/dev/ttyS1"
STORY = pathlib.Path("/story")
STATE = pathlib.Path("/var/lib/cloister")
URL = "http://127.0.0.1:8750"
UNIT = "cloister.service"
SOCKET = "cloister.socket"
PATIENCE = 240  # an emulated machine is slow


def sh(*command, check=True, timeout=PATIENCE):
    done = subprocess.run(command, capture_output=True, text=True, timeout=timeout)
    if check and done.returncode != 0:
        raise AssertionError(f"{command} ended with {done.returncode}:\n{done.stdout[-1500:]}{done.stderr[-1500:]}")
    return done.stdout.strip()


def wait_for(what, condition, seconds=PATIENCE):
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        found = condition()
        if found:
            return found
        time.sleep(0.5)
    raise AssertionError(f"waited {seconds} s for {what}\n" + sh("journalctl", "-u", UNIT, "-n", "40", "--no-pager", check=False))


def call(method, path, body=None):
    key = (STATE / "admin.key").read_text().strip()
    data = None if body is None else json.dumps(body).encode()
    request = urllib.request.Request(URL + path, data, {"Authorization": f"Bearer {key}", "Content-Type": "application/json"},
                                     method=method)
    with urllib.request.urlopen(request, timeout=PATIENCE) as answer:
        return json.loads(answer.read())


def is_ready():
    with contextlib.suppress(OSError, urllib.error.URLError), urllib.request.urlopen(URL + "/readyz", timeout=PATIENCE) as answer:
        return answer.status == 200
    return False


def state(unit, what="is-active"):
    return sh("systemctl", what, unit, check=False)


def equal(found, wanted):
    if found != wanted:
        raise AssertionError(f"{found!r} is not {wanted!r}")


def main_pid():
    return sh("systemctl", "show", "-P", "MainPID", UNIT)


class UnderWay:
    """A run and a session while something happens to the service."""

    def __enter__(self):
        body = {"language": "python", "code": "import time; time.sleep(3000)", "timeout_seconds": 3600}
        self.run = call("POST", "/v1/executions", body)["id"]
        wait_for("the run", lambda: call("GET", f"/v1/executions/{self.run}")["status"] == "running")
        self.session = call("POST", "/v1/sessions", {})["id"]
        wait_for("the session", lambda: call("GET", f"/v1/sessions/{self.session}")["status"] == "running")
        return self

    def __exit__(self, *_):
        return False

    def check(self):
        """Afterwards: the run has its record, and the end of the session is announced."""
        run = call("GET", f"/v1/executions/{self.run}")
        if run["status"] != "completed":
            equal((run["status"], run["error"]["type"]), ("failed", "SERVER_RESTART"))
        session = call("GET", f"/v1/sessions/{self.session}")
        equal(session["status"], "ended")
        entries = call("GET", "/v1/audit?limit=200&action=session.*")["entries"]
        ended = [entry for entry in entries if entry["subject"] == self.session and entry["action"] == "session.ended"]
        equal(len(ended), 1)
        equal(sh("cloister", "audit", "verify").split(":")[0], "ok")


def run_one():
    equal(sh("cloister", "run", "-c", "print(6 * 7)"), "42")


def installed_but_not_started():
    sh("dpkg", "-i", "--force-depends", str(STORY / "first.deb"))
    equal(state(UNIT, "is-enabled"), "disabled")
    equal(state(UNIT), "inactive")
    equal(sh("getent", "passwd", "cloister", check=False), "")


def checked_and_enabled():
    sh("systemd-sysusers")
    pathlib.Path("/etc/cloister.yaml").write_text("limits:\n  memory_mb: 1024\n")
    sh("cloister", "serve", "--check", "--config", "/etc/cloister.yaml")
    pathlib.Path("/etc/default/cloister").write_text('CLOISTER_FLAGS="--config /etc/cloister.yaml"\n')
    sh("systemctl", "enable", "--now", SOCKET, UNIT)
    equal((state(UNIT), state(SOCKET)), ("active", "active"))
    equal(is_ready(), True)  # Type=notify: ready when systemctl returns
    run_one()
    user = pathlib.Path(f"/proc/{sh('pgrep', '-x', 'cloisterd')}/status").read_text()
    equal("Uid:\t64750" in user, True)


def the_socket_starts_the_service():
    sh("systemctl", "stop", UNIT)
    equal((state(UNIT), state(SOCKET)), ("inactive", "active"))
    with socket.create_connection(("127.0.0.1", 8750), timeout=PATIENCE) as client:
        client.sendall(b"GET /healthz HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
        equal(client.recv(12), b"HTTP/1.1 200")
    wait_for("the service", is_ready)
    equal(state(UNIT), "active")


def restarted():
    with UnderWay() as work:
        before = main_pid()
        sh("systemctl", "restart", UNIT)
        equal(before != main_pid(), True)
        work.check()
    run_one()


def restarted_after_a_crash():
    with UnderWay() as work:
        before = main_pid()
        sh("systemctl", "kill", "--signal=KILL", UNIT)
        wait_for("another process", lambda: main_pid() not in ("0", before) and is_ready())
        work.check()
    run_one()


def upgraded():
    with UnderWay() as work:
        before = main_pid()
        sh("dpkg", "-i", "--force-depends", str(STORY / "next.deb"))
        equal(sh("dpkg-query", "-W", "-f", "${Version}", "cloister").endswith(".next"), True)
        equal(pathlib.Path("/etc/default/cloister").read_text(), 'CLOISTER_FLAGS="--config /etc/cloister.yaml"\n')
        equal(before != main_pid(), True)
        wait_for("the service", is_ready)
        work.check()
    run_one()


def stopped_and_started():
    with UnderWay() as work:
        sh("systemctl", "stop", UNIT)
        equal(state(UNIT), "inactive")
        equal(sh("pgrep", "-x", "cloister-node", check=False), "")
        equal(sh("systemctl", "show", "-P", "Result", UNIT), "success")
        sh("systemctl", "start", UNIT)
        work.check()


def removed_and_installed_again():
    with UnderWay() as work:
        sh("dpkg", "-r", "cloister")
        equal(state(UNIT) in ("inactive", "unknown"), True)
        equal(sh("pgrep", "cloister", check=False), "")
        equal(pathlib.Path("/usr/bin/cloister").exists(), False)
        equal((STATE / "ledger" / "ledger.db").exists(), True)
        sh("dpkg", "-i", "--force-depends", str(STORY / "next.deb"))
        sh("systemctl", "enable", "--now", SOCKET, UNIT)
        work.check()
    run_one()


def purged():
    sh("dpkg", "-P", "cloister")
    equal(pathlib.Path("/etc/default/cloister").exists(), False)
    equal(pathlib.Path("/var/cache/cloister").exists(), False)
    equal((STATE / "ledger" / "ledger.db").exists(), True)
    equal([line for line in sh("systemctl", "list-units", "--all", "--plain", "--no-legend").splitlines() if "cloister.s" in line], [])


STEPS = (installed_but_not_started, checked_and_enabled, the_socket_starts_the_service, restarted, restarted_after_a_crash, upgraded,
         stopped_and_started, removed_and_installed_again, purged)


def main():
    with open(REPORT, "w") as out:
        def report(**line):
            out.write(json.dumps(line) + "\n")
            out.flush()

        for step in STEPS:
            begin, outcome, detail = time.monotonic(), "passed", ""
            try:
                step()
            except Exception:
                outcome = "failed"
                detail = traceback.format_exc() + sh("journalctl", "-u", UNIT, "-n", "30", "--no-pager", check=False)
            report(name=f"systemd.{step.__name__}", outcome=outcome, detail=detail, seconds=round(time.monotonic() - begin, 1))
        report(outcome="end")
        os.sync()


if __name__ == "__main__":
    main()
