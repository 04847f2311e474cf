# SPDX-License-Identifier: Apache-2.0
"""The SDK for TypeScript against a server, in the machine's Node.js: each method, each error, connections that are cut, many
sandboxes at once, and the examples of the pages. tests/sdk/story.ts has the program of each test."""

import contextlib
import json
import pathlib
import shutil
import socket
import subprocess
import tempfile
import threading
import unittest

import harness
import npm_packages
import sdk_case
from sdk_case import Answers, CuttingProxy, problem

PAGE = harness.REPO / "docs/howto/sdk-typescript.md"
SDK = harness.REPO / "sdk/typescript"
STORY = harness.REPO / "tests/sdk/story.ts"
NODE = "/usr/bin/node"
MARK = "--- example\n"
MANY = 50
# As the SDK's own, and as strict as a user's may be; without skipLibCheck, so that the SDK's types are checked too.
OPTIONS = {"target": "ES2022", "module": "NodeNext", "moduleResolution": "NodeNext", "lib": ["ES2022", "DOM", "DOM.Iterable", "DOM.AsyncIterable"], "types": [],
           "strict": True, "exactOptionalPropertyTypes": True, "noUncheckedIndexedAccess": True, "noUnusedLocals": True}


def build(folder, compiler):
    """Builds the package as `npm run build` does, then the programs of the tests against it. Returns the reports of the compiler."""
    package = folder / "node_modules/cloister"
    shutil.copytree(SDK / "src", package / "src")
    for name in ("package.json", "tsconfig.json"):
        shutil.copy(SDK / name, package)
    shutil.copy(STORY, folder)
    for number, page in enumerate((harness.REPO / "README.md", SDK / "README.md")):
        (folder / f"readme{number}.ts").write_text(sdk_case.examples(page, "ts")[0][0])
    examples = sdk_case.examples(PAGE, "ts")
    (folder / "page.ts").write_text("".join(f"console.log({MARK.strip()!r});\n{code}\n" for code, _ in examples))
    (folder / "package.json").write_text('{"type": "module"}')
    (folder / "tsconfig.json").write_text(json.dumps({"compilerOptions": OPTIONS, "include": ["*.ts"]}))
    said = ""
    for project in (package, folder):
        said += subprocess.run([NODE, compiler, "-p", project], capture_output=True, text=True, timeout=120).stdout
    return said


class TypeScript(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        compiler = npm_packages.Packages("sdk").need().root / "node_modules/typescript/bin/tsc"
        cls.folder = pathlib.Path(cls.enterClassContext(tempfile.TemporaryDirectory(prefix="cloister-ts.")))
        said = build(cls.folder, compiler)
        if said:
            raise AssertionError(said)
        cls.server = sdk_case.server(cls)

    def node(self, script, *arguments, **environment):
        done = subprocess.run([NODE, self.folder / f"{script}.js", *arguments], capture_output=True, text=True, timeout=150, cwd=self.folder,
                              env={**sdk_case.environment(self.server), **environment})
        self.assertEqual(done.returncode, 0, f"{done.stdout[-2000:]}\n{done.stderr[-4000:]}")
        return done.stdout

    def step(self, name, **environment):
        return json.loads(self.node("story", name, **environment))

    def test_the_first_example_of_each_readme(self):
        for number in range(2):
            self.assertEqual(self.node(f"readme{number}"), "42\n")

    def test_the_page(self):
        pairs = sdk_case.examples(PAGE, "ts")
        self.assertGreater(len(pairs), 6)
        sdk_case.assert_output(self, self.node("page"), pairs, MARK)

    def test_code(self):
        self.step("code")

    def test_one_shot(self):
        self.step("oneShot")

    def test_limits_have_units(self):
        self.step("limits")

    def test_commands(self):
        self.step("commands")

    def test_life(self):
        self.step("life", CLOISTER_API_KEY=sdk_case.new_key(self.server, "life"))

    def test_files(self):
        self.step("files")

    def test_errors_of_the_server(self):
        key = {"viewer": sdk_case.new_key(self.server, "t", roles=["viewer"]), "closed": sdk_case.new_key(self.server, "closed"),
               "small": sdk_case.new_key(self.server, "small"), "waiting": sdk_case.new_key(self.server, "looked-at", agent="coder", user="dev")}
        boss = sdk_case.new_key(self.server, "looked-at", roles=["approver"], user="boss")
        self.assertEqual(self.server.request("PUT", "/v1/quotas/tenants/small", {"sessions": 1}).status, 200)
        over = threading.Event()

        def approve():
            """All that waits, once three have asked: the runs that are seen blocked come first."""
            asked = set()
            while not over.wait(0.2):
                waiting = self.server.request("GET", "/v1/escalations?status=pending", key=boss).json()["escalations"]
                asked.update(each["id"] for each in waiting)
                if len(asked) >= 3:
                    for each in waiting:
                        self.server.request("POST", f"/v1/escalations/{each['id']}:approve", {}, key=boss)

        thread = threading.Thread(target=approve)
        thread.start()
        try:
            self.step("refusals", CLOISTER_OTHERS=json.dumps(key))
        finally:
            over.set()
            thread.join()

    def test_errors_of_answers(self):
        kinds = ((507, "INTERNAL", "OutOfSpace"), (500, "INTERNAL", "ServerError"), (404, "NOT_FOUND", "NotFound"), (403, "APPROVAL_REQUIRED", "Blocked"),
                 (409, "INVALID_REQUEST", "Conflict"), (413, "INVALID_REQUEST", "TooLarge"), (415, "INVALID_REQUEST", "InvalidRequest"),
                 (401, "X", "AuthenticationError"), (502, "INTERNAL", "Unavailable"), (429, "QUOTA_EXCEEDED", "RateLimited"))
        with contextlib.ExitStack() as stack:
            made = {}
            for status, code, kind in kinds:
                body = problem(code, field="a.b", remedy="the remedy", escalation_id="ESC-2026-001")
                made[stack.enter_context(Answers((status, {}, body))).url] = kind
            silent = stack.enter_context(socket.create_server(("127.0.0.1", 0)))
            self.step("answers", CLOISTER_ANSWERS=json.dumps(made), CLOISTER_SILENT=f"http://127.0.0.1:{silent.getsockname()[1]}")

    def test_refusals_are_tried_again(self):
        later = (503, {"Retry-After": 1}, problem("INTERNAL", retryable=True))
        cases = (((later, (429, {}, problem("QUOTA_EXCEEDED", retryable=True)), (200, {}, {})), {}, None, "done", 3),
                 ((later,), {"retries": 2}, None, "Unavailable", 3),
                 ((later,), {"retrySeconds": 0.5}, None, "Unavailable", 1),
                 (((400, {}, problem("INVALID_REQUEST")),), {}, None, "InvalidRequest", 1),
                 (((502, {}, {}),), {}, "POST", "Unavailable", 1),
                 (((502, {}, {}),), {"retries": 1}, "run", "Unavailable", 2))
        with contextlib.ExitStack() as stack:
            servers = [stack.enter_context(Answers(*answers)) for answers, *_ in cases]
            calls = [{"options": {"url": server.url, **options}, "method": method or "GET"}
                     for server, (_, options, method, *_) in zip(servers, cases)]
            self.assertEqual(self.step("attempts", CLOISTER_CALLS=json.dumps(calls)), [each[3] for each in cases])
            self.assertEqual([len(server.seen) for server in servers], [each[4] for each in cases])
            self.assertEqual(len({headers["idempotency-key"] for _, _, headers in servers[-1].seen}), 1, "the same key")

    def test_the_server_of_the_account(self):
        with Answers((200, {}, {})) as elsewhere:
            found = self.step("local", CLOISTER_URL="", CLOISTER_API_KEY="", CLOISTER_STATE=str(self.server.state), CLOISTER_ELSEWHERE=elsewhere.url)
            self.assertEqual(found, {"url": self.server.url, "roles": ["admin"], "named": ["admin"]})
            self.assertNotIn("authorization", elsewhere.seen[0][2], "the key of the state directory is for its own server alone")

    def test_cuts(self):
        key = sdk_case.new_key(self.server, "cut")
        with contextlib.ExitStack() as stack:
            made = {name: stack.enter_context(CuttingProxy(self.server, limit, cuts)) for name, limit, cuts in (
                ("LOST", 20, 2), ("SHORT", 1_000, 2), ("OUTPUT", 30_000, 10), ("TRANSFER", 200_000, 6), ("WATCH", 2_500, 5))}
            urls = {f"CLOISTER_{name}": proxy.url for name, proxy in made.items()}
            self.assertEqual(self.step("cuts", CLOISTER_API_KEY=key, **urls), "done")
            for name, least in (("LOST", 2), ("SHORT", 2), ("OUTPUT", 8), ("TRANSFER", 6), ("WATCH", 3)):
                self.assertGreaterEqual(made[name].cut, least, name)
        listed = self.server.request("GET", "/v1/executions?limit=100", key=key).json()["executions"]
        self.assertEqual(sum(each["metadata"] == {"once": "1"} for each in listed), 1, "a lost answer starts nothing twice")

    def test_many_sandboxes_at_once(self):
        key = sdk_case.new_key(self.server, "many")
        said = self.step("many", CLOISTER_API_KEY=key, CLOISTER_MANY=str(MANY))
        self.assertEqual(said, [f"{n}{n * 2}\n" for n in range(MANY)])
        self.assertEqual(self.server.request("GET", "/v1/sessions?status=running", key=key).json()["sessions"], [])


if __name__ == "__main__":
    unittest.main()
