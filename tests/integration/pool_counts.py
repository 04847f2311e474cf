# SPDX-License-Identifier: Apache-2.0
"""The counts of a server's pool since its node's start, from /metrics."""
import collections
import re

import harness

CLAIMS = re.compile(r'cloister_pool_claims_total\{served="(\w+)"\}')


def claims(metrics):
    """How many claims were served in each way; all 0 while no node has told."""
    found = ((CLAIMS.fullmatch(name), value) for name, value in metrics.items())
    return collections.Counter({name[1]: int(value) for name, value in found if name})


def settled(server):
    """The metrics once they include the claims of all ended executions: the node reports once a second."""
    def look():
        metrics = server.metrics()
        ended = sum(value for name, value in metrics.items() if name.startswith("cloister_executions_total{"))
        return sum(claims(metrics).values()) >= ended and metrics
    return harness.wait_for("the claims to be told", look, 30)


def made(metrics):
    """The number of sandboxes made, ahead or on demand; and the number made by zygotes."""
    served = claims(metrics)
    ahead = int(metrics["cloister_pool_refill_seconds_count"])
    return ahead + served["made"] + served["copied"], int(metrics["cloister_pool_copies_total"])
