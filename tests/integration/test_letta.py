#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""The interface /letta with Letta's official client, unmodified: tools as source, their schemas, runs, pages, search,
configurations of sandboxes, two tenants, and tools that mean harm."""

import json
import pathlib
import shutil
import tempfile
import unittest

import harness
import letta_client
import npm_packages
from letta_client import LettaError
from test_deps import wheel

CONFIG = """compat:
  letta:
    tools_per_tenant: 70
    variables_per_tenant: 3
    return_bytes: 20000
    output_bytes: 1024
packages:
  pypi:
    index: {wheels}
  rules:
    undated: allow
"""
ROLL = '''
def roll(sides: int, count: int = 1, label: Optional[str] = None) -> dict:
    """
    Roll dice.

    Args:
        sides (int): The number of sides
            of each die.
        count (int): How many dice.
        label (str): A label.
    """
    print("rolling", count)
    return {"sides": sides, "count": count, "label": label}
'''
SCHEMA = {"name": "roll", "description": "Roll dice.", "parameters": {
    "type": "object", "required": ["sides"], "properties": {
        "sides": {"type": "integer", "description": "The number of sides of each die."},
        "count": {"type": "integer", "description": "How many dice."},
        "label": {"type": "string", "description": "A label."}}}}


def source(body, name="act", arguments=""):
    return f"def {name}({arguments}):\n    \"\"\"Act.\"\"\"\n" + "".join(f"    {line}\n" for line in body.splitlines())


def setUpModule():
    Case.packages = npm_packages.Packages("letta").need()
    Case.folder = pathlib.Path(tempfile.mkdtemp(prefix="cloister-test-letta."))
    unittest.addModuleCleanup(shutil.rmtree, Case.folder)
    Case.folder.chmod(0o755)
    (Case.folder / "wheels").mkdir()
    wheel(Case.folder / "wheels", "alpha", "1.0")
    wheel(Case.folder / "wheels", "alpha", "2.0")
    Case.server = unittest.enterModuleContext(harness.Server(CONFIG.format(wheels=Case.folder / "wheels")))


class Case(unittest.TestCase):
    packages = server = folder = None

    def key(self, tenant, **more):
        answer = self.server.request("POST", "/v1/keys", {"tenant": tenant, "name": "test", **more})
        self.assertEqual(answer.status, 201, answer.body)
        return answer.json()["secret"]

    def client(self, key=None, **more):
        return self.enterContext(letta_client.Letta(self.packages, f"{self.server.url}/letta", key or self.server.key, **more))

    def fresh(self):
        """A client of a tenant of its own."""
        return self.client(self.key("t" + self.id().rpartition(".")[2].replace("_", "-")[:40]))

    def refused(self, status, text, call, *args):
        with self.assertRaises(LettaError) as caught:
            call(*args)
        self.assertEqual(caught.exception.status, status, caught.exception)
        self.assertIn(text, json.dumps(caught.exception.body), caught.exception)

    def run_source(self, client, code, args=None, **more):
        """Runs `code`; one from source() with its schema, so that no sandbox is started to derive it."""
        if code.startswith("def act("):
            more.setdefault("json_schema", {"name": "act"})
        return client.post("/v1/tools/run", {"source_code": code, "args": args or {}, **more})


class Story(Case):
    def test_a_tool_from_its_source_to_its_end(self):
        client = self.fresh()
        tool = client.call("tools.create", {"source_code": ROLL, "tags": ["games", "dice"]})
        self.assertEqual((tool["name"], tool["tool_type"], tool["source_type"]), ("roll", "custom", "python"))
        self.assertRegex(tool["id"], r"^tool-[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$")
        self.assertEqual(tool["json_schema"], SCHEMA)
        self.assertEqual((tool["description"], tool["tags"], tool["version"]), ("Roll dice.", ["games", "dice"], 1))
        self.assertEqual(client.call("tools.retrieve", tool["id"]), tool)
        self.refused(409, "has the name roll already", client.call, "tools.create", {"source_code": ROLL})
        self.assertEqual([each["id"] for each in client.all("tools.list")], [tool["id"]])
        ran = client.call("agents.tools.run", "roll", {"agent_id": "agent-1", "args": {"sides": "6", "label": "x"}})
        self.assertEqual((ran["status"], ran["func_return"], ran["stdout"], ran["stderr"]),
                         ("success", {"sides": 6, "count": 1, "label": "x"}, ["rolling 1\n"], []))
        failed = client.call("agents.tools.run", "roll", {"agent_id": "agent-1", "args": {}})
        self.assertEqual(failed["status"], "error")
        self.assertIn("Error executing function roll: TypeError", failed["func_return"])
        self.assertIn("TypeError: roll() missing", failed["stderr"][0])
        changed = client.call("tools.update", tool["id"], {"description": "Dice.", "return_char_limit": 20})
        self.assertEqual((changed["id"], changed["description"], changed["json_schema"], changed["version"]),
                         (tool["id"], "Dice.", SCHEMA, 2))
        again = client.call("tools.upsert", {"source_code": ROLL.replace("count: int = 1", "count: int = 2")})
        self.assertEqual((again["id"], again["version"], again["tags"]), (tool["id"], 3, []))
        ran = client.call("agents.tools.run", "roll", {"agent_id": "agent-1", "args": {"sides": 6}})
        self.assertEqual(ran["func_return"]["count"], 2, "the present version runs")
        self.assertIsNone(client.call("tools.delete", tool["id"]))
        self.refused(404, "there is no", client.call, "tools.retrieve", tool["id"])
        self.refused(404, "there is no", client.call, "agents.tools.run", "roll", {"agent_id": "a", "args": {}})
        self.assertEqual(client.all("tools.list"), [])
        self.assertGreaterEqual(client.calls, 13)

    def test_pages_filters_and_search(self):
        client = self.fresh()
        made = [client.call("tools.create", {"source_code": "x = 1", "tags": ["even" if i % 2 == 0 else "odd"],
                                             "json_schema": {"name": f"tool_{i}", "description": f"Number {i} of many."}})
                for i in range(7)]
        ids = [each["id"] for each in made]
        self.assertEqual([each["id"] for each in client.all("tools.list", {"limit": 3})], ids, "three pages and an empty one")
        self.assertEqual([each["id"] for each in client.all("tools.list", {"limit": 3, "order": "desc"})], ids[::-1])
        self.assertEqual([each["name"] for each in client.all("tools.list", {"name": "tool_4"})], ["tool_4"])
        self.assertEqual([each["name"] for each in client.all("tools.list", {"search": "L_6"})], ["tool_6"])
        self.assertEqual(client.all("tools.list", {"tool_types": ["letta_core"]}), [])
        found = client.call("tools.search", {"query": "number 5", "limit": 3})
        self.assertEqual((found[0]["tool"]["name"], len(found)), ("tool_5", 3))
        self.assertGreater(found[0]["combined_score"], found[1]["combined_score"])
        odd = client.call("tools.search", {"tags": ["odd"]})
        self.assertEqual([each["tool"]["name"] for each in odd], ["tool_1", "tool_3", "tool_5"])
        self.assertEqual(client.call("tools.search", {"query": "nothing"}), [])

    def test_runs_from_source(self):
        client = self.fresh()
        told = self.run_source(client, ROLL, {"sides": 4})
        self.assertEqual((told["status"], json.loads(told["tool_return"]), told["message_type"], told["name"]),
                         ("success", {"sides": 4, "count": 1, "label": None}, "tool_return_message", "roll"))
        self.assertEqual(told["stdout"], ["rolling 1\n"])
        coroutine = "import asyncio\nasync def act(n: int) -> int:\n    await asyncio.sleep(0)\n    return n + 1\n"
        self.assertEqual(self.run_source(client, coroutine, {"n": 1})["tool_return"], "2")
        env = self.run_source(client, source("import os; return os.environ['TOKEN_OF_TEST']"), env_vars={"TOKEN_OF_TEST": "abc"})
        self.assertEqual(env["tool_return"], "abc")
        two = "def helper(x: int) -> int:\n    return x * 2\n\ndef act(x: int) -> int:\n    return helper(x)\n"
        self.assertEqual(self.run_source(client, two, {"x": 4})["tool_return"], "8", "the last function is the tool")
        self.assertEqual(self.run_source(client, two, {"x": 4}, name="helper", json_schema={"name": "helper"})["tool_return"], "8")
        self.assertEqual(self.run_source(client, source("return None"))["tool_return"], "None")
        self.assertEqual(client.all("tools.list"), [], "a run keeps nothing")

    def test_typescript(self):
        client = self.fresh()
        code = "export async function add(a: number, b: number): Promise<number> {\n  console.log('adding');\n  return a + b;\n}\n"
        schema = {"name": "add", "parameters": {"type": "object", "properties": {"b": {"type": "number"}, "a": {"type": "number"}}}}
        self.refused(422, "json_schema: is required", client.call, "tools.create", {"source_code": code, "source_type": "typescript"})
        schema["parameters"]["properties"] = {"a": {"type": "number"}, "b": {"type": "number"}}
        tool = client.call("tools.create", {"source_code": code, "source_type": "typescript", "json_schema": schema})
        ran = client.call("agents.tools.run", "add", {"agent_id": "a", "args": {"b": 1, "a": 40}})
        self.assertEqual((ran["status"], ran["func_return"], ran["stdout"]), ("success", 41, ["adding\n"]), ran)
        client.call("tools.update", tool["id"], {"source_code": "function add(a: number) { throw new RangeError('too much'); }"})
        ran = client.call("agents.tools.run", "add", {"agent_id": "a", "args": {"a": 1}})
        self.assertEqual((ran["status"], ran["func_return"]), ("error", "Error executing function add: RangeError: too much"), ran)
        broken = self.run_source(client, "function add( {", source_type="typescript", json_schema=schema, name="add")
        self.assertEqual((broken["status"], "does not compile" in broken["tool_return"]), ("error", True), broken)

    def test_requirements(self):
        client = self.fresh()
        code = source("import alpha; return alpha.VERSION")
        told = self.run_source(client, code, pip_requirements=[{"name": "alpha", "version": "1.0"}])
        self.assertEqual((told["status"], told["tool_return"]), ("success", "1.0"), told)
        tool = client.call("tools.create", {"source_code": code, "pip_requirements": [{"name": "alpha"}]})
        ran = client.call("agents.tools.run", "act", {"agent_id": "a", "args": {}})
        self.assertEqual(ran["func_return"], "2.0", ran)
        self.assertEqual(tool["pip_requirements"], [{"name": "alpha"}])
        self.refused(422, "pip_requirements", client.call, "tools.create",
                     {"source_code": "x", "source_type": "typescript", "json_schema": {"name": "x"},
                      "pip_requirements": [{"name": "alpha"}]})
        self.refused(403, "packages.npm.registry", client.post, "/v1/tools/run",
                     {"source_code": "function x() {}", "source_type": "typescript", "json_schema": {"name": "x"}, "args": {},
                      "npm_requirements": [{"name": "left-pad", "version": "1.3.0"}]})

    def test_bad_input_is_named(self):
        client = self.fresh()
        for body, text in (({}, "source_code"), ({"source_code": ROLL, "tags": "x"}, "tags"),
                           ({"source_code": "def f(x): pass"}, "the parameter x of f has no type annotation"),
                           ({"source_code": "x = 1"}, "has no function"), ({"source_code": "def f(:"}, "line 1"),
                           ({"source_code": ROLL, "source_type": "ruby"}, "source_type"),
                           ({"source_code": ROLL, "return_char_limit": 0}, "return_char_limit"),
                           ({"source_code": ROLL, "json_schema": {"name": "a b"}}, "json_schema.name"),
                           ({"source_code": ROLL, "pip_requirements": [{}]}, "pip_requirements")):
            with self.subTest(body=body):
                self.refused(422, text, client.call, "tools.create", body)
        with self.assertRaises(LettaError) as caught:
            self.client("clo_" + "0" * 64).call("tools.list")
        self.assertEqual((caught.exception.status, list(caught.exception.body)), (401, ["detail"]))


class Client(Case):
    """`client` of a tool: it reaches this service and nothing else, with a key that ends with the run."""

    def test_a_tool_reads_and_runs_tools_and_changes_none(self):
        client = self.fresh()
        client.call("tools.create", {"source_code": ROLL})
        told = self.run_source(client, """
def act() -> list:
    import os
    from letta import LettaClient
    from letta_client import APIError, Letta
    refused = []
    for change in (lambda: client.tools.create(source_code="def f(): pass"), lambda: client.tools.delete("tool-1"),
                   lambda: client.post("/v1/sandbox-config/local/default"), lambda: client.get("/v1/sandbox-config/")):
        try:
            change()
        except APIError as error:
            refused.append(error.status_code)
    ran = client.agents.tools.run("roll", agent_id="a", args={"sides": 3})
    return [[each.name for each in client.tools.list()], ran.func_return["sides"], refused, LettaClient is Letta,
            os.environ["LETTA_BASE_URL"], os.environ["LETTA_API_KEY"]]
""", name="act", json_schema={"name": "act"})
        self.assertEqual(told["status"], "success", told)
        names, sides, refused, same, url, key = json.loads(told["tool_return"].replace("'", '"').replace("True", "true"))
        self.assertEqual((names, sides, refused, same), (["roll"], 3, [403] * 4, True))
        self.assertEqual(url, "http://api.cloister.internal/letta")
        self.refused(401, "", self.client(key).call, "tools.list")
        self.assertEqual(self.server.request("GET", "/v1/executions", key=key).status, 401)

    def test_its_key_is_of_no_use_elsewhere(self):
        look = source("import os, urllib.error, urllib.request\nfound = []\n"
                      "for path in ('/v1/executions', '/v1/keys', '/mcp', '/e2b/sandboxes'):\n"
                      "    request = urllib.request.Request('http://api.cloister.internal' + path, headers={'Authorization': 'Bearer ' + os.environ['LETTA_API_KEY']})\n"
                      "    try: found.append(urllib.request.urlopen(request, timeout=10).status)\n"
                      "    except urllib.error.HTTPError as error: found.append(error.code)\n"
                      "return found")
        told = self.run_source(self.fresh(), look)
        self.assertEqual(told["status"], "success", told)
        self.assertTrue(set(json.loads(told["tool_return"])) <= {401, 404}, told)

    def test_runs_in_runs_have_an_end(self):
        client = self.fresh()
        client.call("tools.create", {"source_code": source(
            "return client.agents.tools.run('again', agent_id='a', args={'n': n + 1}).func_return", "again", "n: int")})
        told = client.call("agents.tools.run", "again", {"agent_id": "a", "args": {"n": 1}})
        self.assertIn("403", json.dumps(told), told)
        self.assertIn("at most 4", told["func_return"])

    def test_nobody_else_has_the_way_to_the_service(self):
        asked = {"language": "python", "code": "1", "network_policy": {"tier": "api"}}
        denied = self.server.request("POST", "/v1/executions?wait=30", asked)
        self.assertEqual(denied.json()["status"], "denied", denied.body)
        claimed = self.server.request("POST", "/v1/executions", {**asked, "metadata": {"tool_type": "cloister.tool-run"}})
        self.assertEqual((claimed.status, claimed.json()["error"]["details"]["field"]), (422, "metadata.tool_type"), claimed.body)


class Settings(Case):
    def test_bounds_of_the_configuration(self):
        client = self.fresh()
        for i in range(70):
            client.call("tools.create", {"source_code": "x", "json_schema": {"name": f"t{i}"}})
        self.refused(429, "may have 70", client.call, "tools.create", {"source_code": "x", "json_schema": {"name": "more"}})
        large = self.run_source(client, source("print('x' * 5000); return 'y' * 30000"))
        self.assertEqual(large["status"], "success", large["tool_return"][:200])
        self.assertEqual(large["stdout"], ["x" * 1024 + "... [NOTE: output was cut at 1024 bytes]"])
        self.assertTrue(large["tool_return"].startswith("y" * 20000 + "... [NOTE: output was cut at 20000 bytes]"))
        short = self.run_source(client, source("return 'y' * 30"), return_char_limit=10)
        self.assertTrue(short["tool_return"].startswith("y" * 10 + "... [NOTE: function output was truncated"), short)

    def test_sandbox_configurations(self):
        client = self.fresh()
        show = source("import os; return {n: os.environ.get(n) for n in ('ONE', 'TWO', 'LETTA_AGENT_ID', 'LETTA_TOOL_ID')}")
        tool = client.call("tools.create", {"source_code": show})
        before = client.call("agents.tools.run", "act", {"agent_id": "agent-7", "args": {}})
        self.assertEqual(before["func_return"], {"ONE": None, "TWO": None, "LETTA_AGENT_ID": "agent-7", "LETTA_TOOL_ID": tool["id"]})
        config = client.post("/v1/sandbox-config/local/default", {})
        self.assertEqual((config["type"], client.post("/v1/sandbox-config/local/default", {})["id"]), ("local", config["id"]))
        at = f"/v1/sandbox-config/{config['id']}/environment-variable"
        one = client.post(at, {"key": "ONE", "value": "first-value"})
        self.assertEqual((one["key"], one["value"]), ("ONE", ""), "a value is not read back")
        client.post(at, {"key": "TWO", "value": "second-value"})
        self.refused(409, "already", client.post, at, {"key": "ONE", "value": "x"})
        self.refused(422, "key", client.post, at, {"key": "A=B", "value": "x"})
        after = client.call("agents.tools.run", "act", {"agent_id": "agent-7", "args": {}})
        self.assertEqual((after["func_return"]["ONE"], after["func_return"]["TWO"]), ("first-value", "second-value"))
        self.assertNotEqual(after["sandbox_config_fingerprint"], before["sandbox_config_fingerprint"])
        given = self.run_source(client, show, env_vars={"ONE": "own"})
        self.assertEqual(json.loads(given["tool_return"])["ONE"], "own")
        client.post(at, {"key": "THREE", "value": "3"})
        self.refused(429, "may have 3", client.post, at, {"key": "FOUR", "value": "4"})
        client.call("delete", f"/v1/sandbox-config/environment-variable/{one['id']}")
        gone = client.call("agents.tools.run", "act", {"agent_id": "agent-7", "args": {}})
        self.assertIsNone(gone["func_return"]["ONE"])
        client.post("/v1/sandbox-config/local", {"pip_requirements": [{"name": "alpha", "version": "1.0"}]})
        self.assertEqual(self.run_source(client, source("import alpha; return alpha.VERSION"))["tool_return"], "1.0")


class Hostile(Case):
    def test_tenants_and_agents_do_not_see_each_other(self):
        mine, other = self.client(self.key("acme")), self.client(self.key("globex"))
        tool = mine.call("tools.create", {"source_code": source("return 1", "mine")})
        for call in (("tools.retrieve", tool["id"]), ("tools.update", tool["id"], {"description": "x"}),
                     ("tools.delete", tool["id"]), ("agents.tools.run", "mine", {"agent_id": "a", "args": {}})):
            self.refused(404, "there is no", other.call, *call)
        self.assertEqual(other.all("tools.list"), [])
        self.assertEqual(other.call("tools.search", {"query": "mine"}), [])
        first, second = (self.client(self.key("acme", agent=each)) for each in ("one", "two"))
        own = first.call("tools.create", {"source_code": source("return 'own'", "own")})
        self.refused(404, "there is no", second.call, "tools.retrieve", own["id"])
        self.refused(404, "there is no", second.call, "tools.delete", own["id"])
        self.assertEqual(second.call("agents.tools.run", "mine", {"agent_id": "a", "args": {}})["func_return"], 1,
                         "a tool without an agent is the tenant's")
        self.refused(404, "there is no", second.call, "tools.delete", tool["id"])
        shadow = second.call("tools.create", {"source_code": source("return 'shadow'", "mine")})
        self.assertNotEqual(shadow["id"], tool["id"])
        self.assertEqual(mine.call("agents.tools.run", "mine", {"agent_id": "a", "args": {}})["func_return"], 1)

    def test_a_tool_sees_nothing_of_others(self):
        client = self.fresh()
        client.post(f"/v1/sandbox-config/{client.post('/v1/sandbox-config/local/default', {})['id']}/environment-variable",
                    {"key": "OWN_VALUE", "value": "value-of-this-tenant"})
        other = self.client(self.key("globex"))
        look = source("import os, glob\nfound = dict(os.environ)\n"
                      "for path in glob.glob('/proc/[0-9]*/environ') + glob.glob('/workspace/**', recursive=True) + glob.glob('/tmp/**', recursive=True):\n"
                      "    try: found[path] = open(path, errors='replace').read()\n"
                      "    except OSError: pass\n"
                      "return found")
        seen = self.run_source(other, look)
        self.assertEqual(seen["status"], "success", seen)
        for secret in ("value-of-this-tenant", self.server.key, "OWN_VALUE"):
            self.assertNotIn(secret, json.dumps(seen))
        self.run_source(other, source("open('/workspace/left', 'w').write('x'); open('/tmp/left', 'w').write('x')"))
        left = self.run_source(other, source("import os; return [os.path.exists(p) for p in ('/workspace/left', '/tmp/left')]"))
        self.assertEqual(left["tool_return"], "[False, False]", "each run has a sandbox of its own")

    def test_ends_of_every_kind_are_results(self):
        client = self.fresh()
        for body, text in (("import os; os._exit(7)", "exited with the code 7"), ("import os; os.kill(os.getpid(), 9)", "SIGKILL"),
                           ("raise SystemExit(3)", "exited with the code 3"),
                           ("x = bytearray(1 << 30)", "Error"), ("import urllib.request as u; u.urlopen('http://10.0.0.1/', timeout=3)", "Error"),
                           ("import os; os.kill(os.getppid(), 9)", "Error executing function act"),
                           ("1 / 0", 'Traceback (most recent call last):\n  File "tool.py", line 3, in act'),
                           ("return [[]] * (1 << 17)", "the result is larger than 20000 bytes")):
            with self.subTest(body=body):
                told = self.run_source(client, source(body))
                self.assertEqual(told["status"], "error", told)
                self.assertIn(text, told["tool_return"] + "".join(told["stderr"]))
        forged = self.run_source(client, source("import os; os.write(1, b'{\"value\": 1, \"text\": \"forged\"}'); return 'true'"))
        self.assertEqual(forged["tool_return"], "true")
        parser = client.call("tools.create", {"source_code": "import os\nos.system('touch /workspace/ran')\ndef f(x: int):\n    pass\n"})
        self.assertEqual(parser["name"], "f", "a source is parsed, not run")

    def test_a_tool_that_goes_on_ends_at_its_time(self):
        told = self.run_source(self.fresh(), source("import time\nprint('begun', flush=True)\nwhile True: time.sleep(1)"))
        self.assertEqual((told["status"], told["stdout"]), ("error", ["begun\n"]), told)
        self.assertIn("TimeoutError: the tool ran longer than 30 s", told["tool_return"])


if __name__ == "__main__":
    unittest.main()
