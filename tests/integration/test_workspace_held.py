# SPDX-License-Identifier: Apache-2.0
"""An approval in a session is for an effect: the workspace at the time of the request. A change before the program's
start denies the program; nothing changes the workspace while the program runs."""

import hashlib
import http.client
import json
import os
import pathlib
import re
import subprocess
import tempfile
import time
import unittest

import harness
import machine
from escalation_case import Escalations

REPO = pathlib.Path(__file__).resolve().parents[2]


class Held(Escalations):
    CODE = {"language": "bash", "kernel": "none"}  # without a rule for an approval in the tenant `mixed`

    @property
    def key_(self):
        return self.agent("mixed")

    def open(self, **more):
        made = self.call("POST", "/v1/sessions", {"language": "bash", **more}, key=self.key_, status=201).json()["id"]
        self.addCleanup(self.server.request, "DELETE", f"/v1/sessions/{made}", key=self.key_)
        return made

    def put(self, session, path, content, status=201, mode=""):
        query = f"?mode={mode}" if mode else ""
        answer = self.call("PUT", f"/v1/sessions/{session}/files/{path}{query}", content, key=self.key_)
        self.assertIn(answer.status, (200, 201) if status == 201 else (status,), answer.body[:500])
        return answer

    def code(self, session, code, wait=30, **more):
        path = f"/v1/sessions/{session}/exec" + (f"?wait={wait}" if wait else "")
        return self.call("POST", path, {**self.CODE, "code": code, **more}, key=self.key_).json()

    def blocked(self, session, command="bash deploy.sh", **more):
        held = self.call("POST", f"/v1/sessions/{session}/exec", {"command": command, **more}, key=self.key_,
                         status=201).json()
        self.assertEqual(held["status"], "blocked", held)
        return held

    def approve(self, held):
        return self.vote(self.id_of(held), self.boss("mixed"))

    def approved(self, held, seconds=30):
        self.approve(held)
        return self.server.wait_end(held["id"], seconds)

    def assertDenied(self, done, held, why):
        self.assertEqual((done["status"], done["error"]["type"]), ("denied", "APPROVAL_REQUIRED"), done)
        self.assertEqual(done["error"]["details"]["reason"], "approval_mismatch", done["error"])
        self.assertIn(why, done["error"]["message"])
        self.assertIsNone(done["started_at"])
        shown = self.show(self.id_of(held), self.boss("mixed"))
        self.assertEqual((shown["status"], shown["decisions"][-1]["automatic"]), ("denied", True), shown)
        self.assertIn(why, shown["decisions"][-1]["reason"])
        self.assertEqual(self.audit(self.id_of(held))[-1]["action"], "escalation.denied")


class Workspace(Held):
    def test_it_runs_where_nothing_changed(self):
        session = self.open()
        self.put(session, "deploy.sh", b"echo good; ls")
        for sandbox in ("session", "fresh"):
            held = self.blocked(session, sandbox=sandbox)
            display = self.show(self.id_of(held), self.boss("mixed"))["display"]
            self.assertRegex(display, r"\nworkspace of the session: 1 files and directories, 13 bytes, sha256 [0-9a-f]{64};")
            done = self.approved(held)
            self.assertEqual((done["status"], done["stdout"]), ("completed", "good\ndeploy.sh\n"), done)
            self.assertEqual(self.show(self.id_of(held), self.boss("mixed"))["status"], "used")
            self.put(session, "more", b"x")  # at once
            self.call("DELETE", f"/v1/sessions/{session}/files/more", key=self.key_)

    def test_each_change_denies_it(self):
        session = self.open()
        prepare = ("mkdir -p lib; echo 'print(1)' > lib/m.py; echo 'import lib.m' > main.py; ln -sf main.py link; echo x > plain;"
                   " chmod 644 plain; rm -rf pipe lib/json.py")
        for change, why in (("echo 'print(2)' > lib/m.py", "lib/m.py has changed"), ("chmod 755 plain", "plain has another type or mode"),
                            ("ln -sf plain link", "link has changed"), ("rm plain", "plain was removed"),
                            ("touch lib/json.py", "lib/json.py is new"), ("mkfifo pipe", "pipe is new"),
                            ("touch -d 2001-01-01 lib/m.py", "lib/m.py has another modification time"),
                            ("rm plain; mkfifo plain", "plain has another type or mode"),
                            ("chmod 700 lib", "lib has another type or mode"), ("cp -p plain p; touch -r plain p; mv p plain; "
                             "printf y | dd of=plain conv=notrunc status=none; touch -d 2001-01-01 plain", "plain has changed")):
            with self.subTest(change):
                self.assertEqual(self.code(session, "rm -f plain; " + prepare)["status"], "completed")
                held = self.blocked(session, "python3 main.py")
                self.assertEqual(self.code(session, change)["status"], "completed")
                self.assertDenied(self.approved(held), held, why)

    def test_the_script_of_another_program_is_named_as_that(self):
        """A script is a file of the workspace, and comes and goes with its program."""
        session = self.open()
        for begins_first, why in ((True, "a program that ran when you asked has ended (its script .cloister-"),
                                  (False, "a program has started since you asked (its script .cloister-")):
            with self.subTest(why):
                held = None if begins_first else self.blocked(session, "ls -a")
                beside = self.code(session, "sleep 600", wait=0, timeout_seconds=600)
                self.server.wait_status(beside["id"], "running")
                held = held or self.blocked(session, "ls -a")
                if begins_first:
                    self.call("DELETE", f"/v1/executions/{beside['id']}", key=self.key_, status=202)
                    self.server.wait_end(beside["id"])
                done = self.approved(held)
                self.assertDenied(done, held, why)
                self.assertIn("ask anew while none runs", done["error"]["message"])
                self.server.request("DELETE", f"/v1/executions/{beside['id']}", key=self.key_)
                self.server.wait_end(beside["id"])

    def test_a_vote_that_is_revoked_before_it_is_let_in(self):
        session = self.open()
        self.put(session, "deploy.sh", b"echo good")
        held = self.blocked(session)
        beside = self.code(session, "sleep 600", wait=0, sandbox="fresh", timeout_seconds=600)  # its script goes too
        self.server.wait_status(beside["id"], "running")
        voter = self.call("POST", "/v1/keys", {"tenant": "mixed", "name": "test", "role": "approver", "user": "ann"},
                          status=201).json()
        self.assertEqual(self.vote(self.id_of(held), voter["secret"])["status"], "approved")
        self.call("DELETE", f"/v1/keys/{voter['id']}", status=204)
        self.call("DELETE", f"/v1/executions/{beside['id']}", key=self.key_, status=202)
        self.server.wait_end(beside["id"])
        harness.wait_for("it to be judged again", lambda: self.audit(self.id_of(held))[-1]["action"] == "escalation.votes_revoked", 20)
        shown = self.show(self.id_of(held), self.boss("mixed"))
        self.assertEqual((shown["status"], [each["revoked"] for each in shown["decisions"]]), ("pending", [True]), shown)
        self.assertEqual(self.server.get(held["id"])["status"], "blocked")
        done = self.approved(held)
        self.assertEqual((done["status"], done["stdout"]), ("completed", "good\n"), done)

    def test_who_decides_sees_what_is_bound(self):
        """And not the content read there meanwhile; also after a restart, when the session is gone."""
        session = self.open()
        self.code(session, "mkdir -m 750 lib; ln -s ../deploy.sh lib/run; ln -s /usr/bin/env env; printf x > $'\\xd0\\xb0'")
        self.put(session, "deploy.sh", b"echo evil")
        self.code(session, "touch -d @-1.5 $'\\xd0\\xb0'; touch -d @1000000000.000000001 deploy.sh; ln deploy.sh hard")
        held = self.blocked(session)
        self.put(session, "deploy.sh", b"echo good")  # a reader's view of the workspace now
        self.assertEqual(self.call("GET", f"/v1/sessions/{session}/files/deploy.sh", key=self.key_).body, b"echo good")
        escalation = self.id_of(held)
        display = self.show(escalation, self.boss("mixed"))["display"]
        for word in ("may differ from that", "escalation show --full", "/tmp, /dev/shm, open descriptors"):
            self.assertIn(word, display)
        path = f"/v1/escalations/{escalation}/request"
        bound = self.call("GET", path, key=self.boss("mixed"), status=200).json()["workspace"]
        self.assertIn(f"sha256 {bound['sha256']};", display)
        evil = hashlib.sha256(b"echo evil").hexdigest()
        own = bound["names"][0]["mode"]
        late, early = "2001-09-09T01:46:40.000000001Z", "1969-12-31T23:59:58.500000000Z"
        self.assertEqual([(each["path"], each["modified"], each["hard_link_of"]) for each in bound["names"] if each["type"] == "file"],
                         [("deploy.sh", late, None), ("hard", late, "deploy.sh"), ("\\u{430}", early, None)])
        self.assertEqual({(each["modified"], each["hard_link_of"]) for each in bound["names"] if each["type"] != "file"}, {(None, None)})
        self.assertEqual([(each["path"], each["type"], each["mode"], each["bytes"], each["sha256"], each["target"]) for each in bound["names"]],
                         [(".", "directory", own, None, None, None), ("deploy.sh", "file", "0644", 9, evil, None),
                          ("env", "link", "0777", None, None, "/usr/bin/env"), ("hard", "file", "0644", 9, evil, None), ("lib", "directory", "0750", None, None, None),
                          ("lib/run", "link", "0777", None, None, "../deploy.sh"),
                          ("\\u{430}", "file", "0644", 1, hashlib.sha256(b"x").hexdigest(), None)])
        self.assertEqual((bound["files"], bound["bytes"], bound["left_out"]), (6, 19, 0))
        self.assertEqual(self.digest_by_hand(int(own, 8)), bound["sha256"])
        self.server.kill()
        self.server.start()
        self.assertEqual(self.call("GET", path, key=self.boss("mixed"), status=200).json()["workspace"], bound)
        printed = self.server.cli("escalation", "show", escalation, "--full", env={"CLOISTER_API_KEY": self.boss("mixed")})
        for line in (f"0644 file deploy.sh (9 bytes, sha256 {evil}, modified {late})", f"modified {late}, hard link of deploy.sh)", "0777 link env -> /usr/bin/env", "0644 file \\u{430} ("):
            self.assertIn(line, printed.stdout)
        printed = self.server.cli("escalation", "show", escalation, "--full", "--json", env={"CLOISTER_API_KEY": self.boss("mixed")})
        self.assertEqual(json.loads(printed.stdout)["whole"]["workspace"], bound)
        self.assertIn(self.call("GET", path, key=self.key("mixed", agent="other", user="other")).status, (403, 404))

    def digest_by_hand(self, own):
        """The digest of the same files on this machine, by the script of docs/ESCALATIONS.md."""
        script = re.search(r"```sh\n(cd /workspace.*?)```", (REPO / "docs" / "ESCALATIONS.md").read_text(), re.DOTALL)[1]
        with tempfile.TemporaryDirectory() as folder:
            there = pathlib.Path(folder)
            (there / "deploy.sh").write_bytes(b"echo evil")
            (there / "\u0430").write_bytes(b"x")
            (there / "lib").mkdir()
            (there / "lib" / "run").symlink_to("../deploy.sh")
            (there / "env").symlink_to("/usr/bin/env")
            for name, mode in (("deploy.sh", 0o644), ("\u0430", 0o644), ("lib", 0o750), (".", own)):
                (there / name).chmod(mode)
            os.link(there / "deploy.sh", there / "hard")
            for name, time_ns in (("deploy.sh", 10**18 + 1), ("\u0430", -1_500_000_000)):
                os.utime(there / name, ns=(time_ns, time_ns))
            done = subprocess.run(["bash", "-c", script.replace("/workspace", folder)], capture_output=True, text=True, check=True)
            return done.stdout.split()[0]

    def test_a_link_to_what_is_not_covered(self):
        session = self.open()
        self.code(session, "echo echo good > /tmp/real.sh; ln -s /tmp/real.sh deploy.sh")
        refused = self.call("POST", f"/v1/sessions/{session}/exec", {"command": "bash deploy.sh"}, key=self.key_, status=422)
        self.assertIn("the link deploy.sh in the workspace leads to /tmp/real.sh", refused.json()["detail"])
        self.assertIn("command", str(refused.json()))
        held = self.blocked(session, "ls -A", sandbox="fresh")  # without the session's /tmp
        self.assertEqual(self.approved(held)["stdout"], "deploy.sh\n")
        self.code(session, "ln -sf /usr/bin/true deploy.sh")
        self.assertEqual(self.approved(self.blocked(session, "readlink deploy.sh"))["stdout"], "/usr/bin/true\n")

    def test_the_home_directory_is_covered(self):
        session = self.open()
        self.code(session, "echo good > ~/.setting; mkdir ~/bin; ln -s ~/.setting link")
        held = self.blocked(session, "cat ~/.setting link")
        self.assertEqual(self.approved(held)["stdout"], "good\ngood\n")
        held = self.blocked(session, "cat ~/.setting")
        self.put(session, ".setting?root=home", b"evil")
        self.assertDenied(self.approved(held), held, "/home/user/.setting has changed")
        held = self.blocked(session, "ls ~")
        self.code(session, "touch ~/bin/new")
        self.assertDenied(self.approved(held), held, "/home/user/bin/new is new")

    def test_a_swap_over_the_api_denies_it(self):
        session = self.open()
        self.put(session, "deploy.sh", b"echo good")
        held = self.blocked(session)
        self.put(session, "deploy.sh", b"echo evil")
        self.assertDenied(self.approved(held), held, "deploy.sh has changed")
        held = self.blocked(session)
        self.put(session, "deploy.sh", b"echo good")
        self.put(session, "deploy.sh", b"echo evil")  # unchanged but for its time
        self.assertDenied(self.approved(held), held, "deploy.sh has another modification time")
        self.code(session, "touch -d @1 deploy.sh")
        held = self.blocked(session)
        self.put(session, "deploy.sh", b"echo good")
        self.put(session, "deploy.sh", b"echo evil")
        self.code(session, "touch -d @1 deploy.sh")  # unchanged
        self.assertEqual(self.approved(held)["stdout"], "evil\n")

    def test_hard_links_are_a_part_of_it(self):
        session = self.open()
        self.code(session, "touch -d @1 a b c; ln a d")
        for change, why in (("ln -f b c", "b has other hard links"), ("cp -p d e; mv e d", "a has other hard links"), ("cat a d", "")):
            with self.subTest(change):
                held = self.blocked(session, "ls")
                self.assertEqual(self.code(session, change)["status"], "completed")
                done = self.approved(held)
                if why:
                    self.assertDenied(done, held, why)
                else:
                    self.assertEqual(done["stdout"], "a\nb\nc\nd\n", done)

    def test_what_it_cannot_cover_is_refused(self):
        """A pipe has no content; a variable and the directory may lead to where the session writes."""
        session = self.open()
        self.put(session, "deploy.sh", b"echo good")

        def refused(field, *words, **more):
            answer = self.call("POST", f"/v1/sessions/{session}/exec", {"command": "bash deploy.sh", **more}, key=self.key_, status=422)
            for word in words:
                self.assertIn(word, answer.json()["detail"])
            self.assertIn(f"'{field}'", str(answer.json()))

        self.code(session, "mkfifo pipe")
        refused("command", "the FIFO pipe in the workspace", "remove it")
        refused("command", "the FIFO pipe in the workspace", sandbox="fresh")
        self.code(session, "rm pipe")
        refused("env", "the variable BASH_ENV names /tmp/e", "sandbox: fresh", env={"BASH_ENV": "/tmp/e"})
        refused("env", "the variable PATH names /dev/shm", env={"PATH": "/usr/bin:/bin:/dev/shm"})
        refused("env", "the variable CPATH names /tmp/x", env={"CPATH": "/tmp/x"})
        refused("env", "the variable MYTOOL_PLUGIN names /tmp/x", "sandbox: fresh", env={"MYTOOL_PLUGIN": "/tmp/x"})
        refused("cwd", "it begins in /tmp", "sandbox: fresh", cwd="/tmp")
        held = self.blocked(session, "bash /workspace/deploy.sh", cwd="/tmp", env={"BASH_ENV": "/tmp/e"}, sandbox="fresh")
        self.assertEqual(self.approved(held)["stdout"], "good\n")
        held = self.blocked(session, env={"PATH": "/workspace/bin:/usr/bin:/bin", "BASH_ENV": "setup", "TMPDIR": "/tmp"})
        self.assertEqual(self.approved(held)["stdout"], "good\n")

    def test_nothing_is_let_in_while_it_runs(self):
        session = self.open()
        self.put(session, "deploy.sh", b"trap : USR1; sleep 6011 & wait; cat data; kill %1")
        self.put(session, "data", b"good")
        held = self.blocked(session)
        self.approve(held)
        harness.wait_for("its start", lambda: self.server.get(held["id"])["status"] == "running", 20, every=0.02)
        for method, path, body in (("PUT", "files/data", b"evil"), ("POST", "exec", {**self.CODE, "code": "echo evil > data"}),
                                   ("POST", "files:move", {"from": "deploy.sh", "to": "data", "overwrite": True}),
                                   ("POST", "snapshots", {}), ("GET", "files/data", None)):
            refused = self.call(method, f"/v1/sessions/{session}/{path}", body, key=self.key_)
            self.assertEqual((refused.status, refused.headers.get("retry-after")), (503, "1"), (path, refused.body[:500]))
            said = refused.json()["error"]["message"]
            self.assertIn(held["id"], said)
            doing = {"exec": "running in a session: ", "snapshots": "taking a snapshot: "}.get(path, "using a session's files: ")
            self.assertTrue(said.startswith(doing), said)
        moved = self.call("POST", f"/v1/sessions/{session}:move", {"runtime": "process"}, key=self.key_)
        self.assertTrue(moved.json()["error"]["message"].startswith("moving a session: its workspace is held for " + held["id"]),
                        moved.body[:500])
        harness.wait_for("what comes behind the trap", lambda: machine.processes("6011"), 10)
        self.call("POST", f"/v1/executions/{held['id']}:signal", {"signal": "SIGUSR1"}, key=self.key_)
        done = self.server.wait_end(held["id"], 20)
        self.assertEqual((done["status"], done["stdout"]), ("completed", "good"), done)
        self.put(session, "data", b"now")

    def test_programs_of_before_go_on_afterwards(self):
        machine.need_freezer(self)
        session = self.open()
        beat = self.code(session, "while :; do date +%s%N > /tmp/.b; mv /tmp/.b /tmp/beat; sleep 0.02; done", wait=0)
        self.put(session, "deploy.sh", b"cat /tmp/beat; sleep 1; cat /tmp/beat")
        harness.wait_for("the beat", lambda: "1" in self.code(session, "cat /tmp/beat")["stdout"], 10)
        first, second = self.approved(self.blocked(session))["stdout"].split()
        self.assertEqual(first, second, "it was stopped")
        harness.wait_for("it to go on", lambda: int(self.code(session, "cat /tmp/beat")["stdout"] or 0) > int(second), 10)
        self.call("DELETE", f"/v1/executions/{beat['id']}", key=self.key_, status=202)
        self.server.wait_end(beat["id"])

    def test_what_is_stopped_can_be_ended(self):
        """Its session as well; and executions waiting for it end at their time."""
        machine.need_freezer(self)
        session = self.open()
        beat = self.code(session, "sleep 60", wait=0)
        held = self.blocked(session, "sleep 30", timeout_seconds=60)
        self.approve(held)
        harness.wait_for("its start", lambda: self.server.get(held["id"])["status"] == "running", 20, every=0.02)
        self.call("DELETE", f"/v1/executions/{beat['id']}", key=self.key_, status=202)
        self.assertEqual(self.server.wait_end(beat["id"], 20)["status"], "cancelled")
        second = self.code(session, "true", wait=0)
        self.assertNotIn("id", second)
        self.call("DELETE", f"/v1/sessions/{session}", key=self.key_, status=200)
        self.assertEqual(self.server.wait_end(held["id"], 20)["status"], "cancelled")

    def test_what_waits_for_it_can_be_ended(self):
        """Requests that race with the release: each is refused, has ended, or waits and can be ended at once."""
        session = self.open()
        held = self.blocked(session, "sleep 30", timeout_seconds=60)
        self.approve(held)
        let_in = []
        while self.server.get(held["id"])["status"] != "running":
            begun = self.code(session, "true", wait=0)
            let_in += [begun["id"]] if "id" in begun else []
        for each in let_in:
            self.server.request("DELETE", f"/v1/executions/{each}", key=self.key_)
            self.assertIn(self.server.wait_end(each, 10)["status"], ("cancelled", "completed"))
        self.assertEqual(self.server.get(held["id"])["status"], "running")
        self.call("DELETE", f"/v1/executions/{held['id']}", key=self.key_, status=202)
        self.assertEqual(self.server.wait_end(held["id"], 20)["status"], "cancelled")
        self.assertEqual(self.code(session, "echo on")["stdout"], "on\n")

    def test_its_artifacts_are_collected(self):
        """By requests of its own, which pass; another's wait."""
        session = self.open()
        self.put(session, "deploy.sh", b"echo made > out.txt")
        done = self.approved(self.blocked(session, artifacts=["out.txt"]))
        self.assertEqual((done["status"], [each["path"] for each in done["artifacts"]]), ("completed", ["out.txt"]), done)

    def test_later_input_is_not_approved(self):
        session = self.open()
        for more, field in (({"keep_input": True}, "keep_input"), ({"tty": {}}, "tty")):
            refused = self.call("POST", f"/v1/sessions/{session}/exec", {"command": "python3", **more}, key=self.key_, status=422)
            self.assertIn("takes input later", refused.json()["detail"])
            self.assertIn(field, str(refused.json()))

    def test_an_upload_on_its_way(self):
        """The upload is stopped with the rest, or the program denied: later bytes do not arrive while the program
        runs."""
        session = self.open()
        self.put(session, "deploy.sh", b"echo good")
        held = self.blocked(session, "for i in 1 2 3 4 5; do bash deploy.sh; sleep 0.2; done")
        sending = http.client.HTTPConnection(self.server.host, self.server.port, timeout=60)
        self.addCleanup(sending.close)
        sending.putrequest("PUT", f"/v1/sessions/{session}/files/deploy.sh")
        sending.putheader("Authorization", f"Bearer {self.key_}")
        sending.putheader("Content-Length", "9")
        sending.endheaders(b"echo ")
        harness.wait_for("the upload", lambda: self.call("GET", f"/v1/sessions/{session}", key=self.key_).json()["executions_running"] > 0, 10)
        self.approve(held)
        harness.wait_for("its start or end", lambda: self.server.get(held["id"])["status"] != "blocked", 30, every=0.02)
        sending.send(b"evil")
        done = self.server.wait_end(held["id"], 30)
        self.assertIn((done["status"], done["stdout"]), (("completed", "good\n" * 5), ("denied", "")), done)

    def test_a_cell_has_a_fresh_interpreter(self):
        """A kernel's state is no part of the workspace: an earlier cell may have replaced `print`."""
        session = self.open(language="python")

        def cell(code, wait=30, status=200, **more):
            return self.call("POST", f"/v1/sessions/{session}/exec?wait={wait}", {"language": "python", "code": code, **more},
                             key=self.key_, status=status).json()

        self.assertEqual(cell("import builtins\nbuiltins.len = lambda x: 'evil'\nprint(len(''))")["stdout"], "evil\n")
        held = cell("print(len('ab'))", status=202, tier="HumanApprove")
        done = self.approved(held)
        self.assertEqual((done["status"], done["stdout"]), ("completed", "2\n"), done)

    def test_a_run_has_its_files_in_the_request(self):
        run = {"command": "sh a.sh", "files": [{"path": "a.sh", "content": "echo good"}]}
        asked = self.call("POST", "/v1/escalations", {"operation": "run", "reason": "x", "request": run}, key=self.agent(),
                          status=201).json()["id"]
        self.vote(asked, self.boss())
        for change in ({"content": "echo evil"}, {"path": "b.sh"}, {"executable": True}):
            refused = self.ask(**{**run, "files": [{**run["files"][0], **change}]}, approval=asked)
            self.assertEqual((refused["status"], refused["error"]["details"]["reason"]), ("denied", "approval_mismatch"))
        self.assertEqual(self.server.wait_end(self.ask(**run, approval=asked)["id"])["stdout"], "good\n")


@unittest.skipUnless(os.path.exists("/usr/bin/runsc"), "no /usr/bin/runsc: install Debian's from backports")
class InGvisor(Held):
    """No program in gVisor can be stopped: the approved program runs without others, or not at all."""

    def test_it_runs_alone_or_not_at_all(self):
        session = self.open(runtime="gvisor")
        self.put(session, "deploy.sh", b"echo good")
        done = self.approved(self.blocked(session))
        self.assertEqual(done["provenance"]["runtime"], "gvisor")
        self.assertEqual(done["stdout"], "good\n")
        held = self.blocked(session)
        self.put(session, "deploy.sh", b"echo evil")
        self.assertDenied(self.approved(held), held, "deploy.sh has changed")
        beside = self.code(session, "sleep 600", wait=0, timeout_seconds=600)
        self.server.wait_status(beside["id"], "running")
        held = self.blocked(session)
        self.assertDenied(self.approved(held), held, "cannot be stopped")
        self.call("DELETE", f"/v1/executions/{beside['id']}", key=self.key_, status=202)
        self.server.wait_end(beside["id"])
        self.assertEqual(self.approved(self.blocked(session))["stdout"], "evil\n")


class Killed(Held):
    def test_nothing_stays_stopped(self):
        """The service is killed while programs are stopped: they are gone with the session."""
        machine.need_freezer(self)
        session = self.open()
        mark = f"{time.time_ns() % 10**9 + 10**6}"
        self.code(session, f"exec -a stopped-{mark} sleep 600", wait=0)
        held = self.blocked(session, f"exec -a approved-{mark} sleep 500", timeout_seconds=600)
        harness.wait_for("both", lambda: machine.processes(f"stopped-{mark}"), 10)
        self.approve(held)
        harness.wait_for("both", lambda: machine.processes(f"approved-{mark}"), 20)
        self.server.kill()
        self.server.start()
        self.assertEqual(self.server.wait_end(held["id"], 20)["error"]["type"], "SERVER_RESTART")
        harness.wait_for("their end", lambda: not machine.processes(mark), 30)


class Bounds(Held):
    config = "escalation:\n  workspace_mb: 1\n  workspace_files: 3\n"

    def refused(self, session):
        answer = self.call("POST", f"/v1/sessions/{session}/exec", {"command": "bash deploy.sh"}, key=self.key_, status=413)
        self.assertIn("more than 1 MiB or 3 files (escalation.workspace_mb, escalation.workspace_files)", answer.json()["detail"])
        self.assertNotIn("field", answer.json()["error"]["details"], "no member of the request is wrong")

    def test_how_large(self):
        session = self.open()
        self.put(session, "deploy.sh", b"echo good")
        self.put(session, "data", b"x" * (1 << 20))
        self.refused(session)
        self.put(session, "data", b"x" * ((1 << 20) - 9))
        self.assertEqual(self.approved(self.blocked(session))["stdout"], "good\n")

    def test_names_are_bounded_too(self):
        """Targets of links count as names do."""
        session = self.open()
        self.code(session, "ln -s $(printf %04000d 0) link")
        self.assertEqual(self.approved(self.blocked(session, "ls"))["stdout"], "link\n")

    def test_how_many(self):
        session = self.open()
        for name in ("deploy.sh", "a", "b"):
            self.put(session, name, b"echo good")
        self.assertEqual(self.approved(self.blocked(session))["stdout"], "good\n")
        self.put(session, "c", b"")
        self.refused(session)


if __name__ == "__main__":
    unittest.main()
