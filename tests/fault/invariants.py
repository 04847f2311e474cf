# SPDX-License-Identifier: Apache-2.0
"""The invariants of every acknowledged execution, whichever part was killed: a single record and a single terminal
state (I1), never started twice (I2), an audit chain that verifies, with an acceptance and an end for each (I4)."""
import collections
import json

# The allowed types of losses by a kill.
LOSSES = ("SERVER_RESTART", "NODE_LOST", "RUNNER_LOST", "SANDBOX_STARTUP_FAILED")


def check(test, server, acknowledged, seconds=120):
    """Fails `test` on a violation; returns the ended executions, in the order of `acknowledged`."""
    ended = [server.wait_end(execution, seconds) for execution in acknowledged]
    test.assertEqual(len({e["id"] for e in ended}), len(acknowledged))
    for execution in ended:
        if execution["status"] == "failed":
            test.assertIn(execution["error"]["type"], LOSSES)
    answer = server.request("GET", "/v1/audit/export")
    test.assertEqual(answer.status, 200)
    rows = collections.Counter()
    for entry in map(json.loads, answer.text.splitlines()):
        rows[entry["subject"], entry["action"]] += 1
    for execution in acknowledged:
        test.assertEqual(rows[execution, "execution.accepted"], 1, execution)
        test.assertLessEqual(rows[execution, "execution.started"], 1, execution)
        test.assertEqual(rows[execution, "execution.finished"], 1, execution)
    report = server.request("GET", "/v1/audit/verify").json()
    test.assertTrue(report["ok"], report)
    return ended
