# SPDX-License-Identifier: Apache-2.0
"""A test of the HTTP API whose every answer is held to spec/openapi.yaml."""

import unittest
import urllib.parse

import harness
import openapi

DOCUMENT = openapi.Document()
CONFIG = "http:\n  heartbeat_seconds: 1\n"


def start_server():
    """For setUpModule: a server for all tests of the module."""
    ApiTest.server = harness.Server(config=CONFIG)
    unittest.enterModuleContext(ApiTest.server)


class ApiTest(unittest.TestCase):
    server = None

    def call(self, method, path, body=None, headers=None, key=None, status=None):
        """Sends a request; the document must allow the answer."""
        answer = self.server.request(method, path, body, headers, key)
        DOCUMENT.check(method, urllib.parse.urlsplit(path).path, answer)
        self.assertEqual(answer.headers["x-content-type-options"], "nosniff")
        self.assertEqual(answer.headers["cache-control"], "no-store")
        self.assertRegex(answer.headers["x-request-id"], r"^req_[0-9a-z]{26}$")
        if status is not None:
            self.assertEqual(answer.status, status, answer.body[:1000])
        return answer

    def run_code(self, code, language="python", status=200, key=None, **request):
        return self.call("POST", "/v1/executions?wait=60",
                         {"language": language, "code": code, **request}, key=key,
                         status=status).json()

    def start(self, code, language="bash", **request):
        return self.call("POST", "/v1/executions", {"language": language, "code": code, **request},
                         status=201).json()

    def cancel(self, execution):
        self.call("DELETE", f"/v1/executions/{execution['id']}")
        return self.server.wait_end(execution["id"])

    def new_key(self, tenant, **more):
        return self.call("POST", "/v1/keys", {"tenant": tenant, "name": "test", **more},
                         status=201).json()

    def assertProblem(self, answer, status, kind=None, field=None):
        kind = kind or ("NOT_FOUND" if status == 404 else "INVALID_REQUEST")
        self.assertEqual(answer.status, status, answer.body[:500])
        problem = answer.json()
        self.assertEqual(answer.headers["content-type"], "application/problem+json")
        self.assertEqual((problem["status"], problem["error"]["type"]), (status, kind))
        if field is not None:
            self.assertEqual(problem["error"]["details"].get("field"), field, problem)
        return problem

    def assertTellsItsWorkspace(self, **request):
        """The record has the size of a workspace in memory, and the advice in the error of a full workspace helps."""
        fill = "head -c 60M /dev/zero > full"
        met = self.run_code(fill, "bash", memory_mb=64, artifacts=[], **request)
        self.assertEqual((met["status"], met["exit_code"]), ("completed", 1), met)
        self.assertEqual(met["resource_usage"]["disk_limit_bytes"], 48 << 20, "of the 1024 MiB by default")
        details, message = met["error"]["details"], met["error"]["message"]
        self.assertEqual((details["limit"], details["value"]), ("disk_mb", 48 << 20), met["error"])
        self.assertIn("three quarters of memory_mb, not disk_mb, 1024 MiB: raise memory_mb", message)
        raised = self.run_code(fill, "bash", memory_mb=128, artifacts=[], **request)
        self.assertEqual((raised["exit_code"], raised["error"]), (0, None), raised)
        self.assertEqual(raised["resource_usage"]["disk_limit_bytes"], 96 << 20)
        return message

    def assertNamesItsOpenFiles(self, **request):
        """For a program failed by the limit of open files, and not for a program that succeeded or failed otherwise."""
        opens = "files = []\nfor _ in range({}): files.append(open('/dev/null'))\n"
        met = self.run_code(opens.format(200), open_files=64, **request)
        self.assertEqual((met["status"], met["exit_code"]), ("completed", 1), met)
        self.assertIsNotNone(met["error"], met)
        details = {"limit": "open_files", "value": 64, "used": 64, "unit": "files"}
        seen = met["resource_usage"]["open_files"]
        if seen != 64:  # a program not sampled in time: its output is a guess
            details |= {"used": seen, "probable": True}
            self.assertIn("probably", met["error"]["message"])
        self.assertEqual((met["error"]["type"], met["error"]["details"]), ("RESOURCE_LIMIT_EXCEEDED", details))
        self.assertIn("raise open_files", met["error"]["message"])
        caught = f"try:\n    {opens.format(200).replace(chr(10), chr(10) + '    ')}\nexcept OSError as e: print(e.errno)"
        well = self.run_code(caught, open_files=64, **request)
        self.assertEqual((well["stdout"], well["error"]), ("24\n", None), well)
        other = self.run_code(opens.format(20) + "exit(3)", open_files=64, **request)
        self.assertEqual((other["exit_code"], other["error"]), (3, None), other)
        raised = self.run_code(opens.format(200), open_files=256, **request)
        self.assertEqual((raised["exit_code"], raised["error"]), (0, None), raised)
        return met
