# SPDX-License-Identifier: Apache-2.0
"""What a product has to offer so that its sandboxes can be tried. README.md explains how to write a driver.

A driver starts the product on this machine, whose only way out is the fake internet (world.py), and runs Python
programs in its sandboxes. A sandbox may reach what a Policy lists, and nothing else.
"""

import abc
import dataclasses
import json

# What a product may lack. A case that needs a missing feature is reported as "unsupported".
PROXY = "proxy"            # an explicit HTTP proxy inside: Driver.proxy
HTTP_RULES = "http_rules"  # rules with methods and paths
BYTES = "bytes"            # rules with max_bytes
FULL = "full"              # a tier that allows every public name
NARROW = "narrow"          # Driver.narrow(): a policy changes under running sandboxes
DAMAGE = "damage"          # Driver.damage(): broken policy documents
KILL = "kill"              # Driver.kill_mediator()
BROKER = "broker"          # secrets that the mediator adds: Policy.secrets


@dataclasses.dataclass(frozen=True)
class Entry:
    """A destination. `name` may begin with "*." for all names below, without the name itself."""

    name: str
    port: int
    protocol: str = ""  # "tls", "http" or "tcp"; "": by the port: 443 is tls, 80 is http, all others are tcp
    methods: tuple = ()
    paths: tuple = ()   # globs
    max_bytes: int = 0

    @property
    def spoken(self):
        return self.protocol or {80: "http", 443: "tls"}.get(self.port, "tcp")


@dataclasses.dataclass(frozen=True)
class Secret:
    """The mediator sets the header of requests to the host; the sandbox holds a placeholder in $NAME."""

    name: str
    value: str
    host: str
    header: str = "Authorization"


@dataclasses.dataclass(frozen=True)
class Policy:
    allow: tuple = ()
    full: bool = False  # every public name, on every port
    secrets: tuple = ()


@dataclasses.dataclass
class Result:
    """`denied`: what the product itself says of refused attempts: dicts with at least "host" and "port"."""

    exit: int | None
    stdout: str
    stderr: str = ""
    denied: list = dataclasses.field(default_factory=list)

    def tries(self):
        """{name: {"ok": bool, "said": text, "seconds": float}} of the prelude's attempts (inside.py)."""
        lines = [line for line in self.stdout.splitlines() if line.startswith('{"try"')]
        return {told.pop("try"): told for told in map(json.loads, lines)}


class Running(abc.ABC):
    """A program that has begun."""

    @abc.abstractmethod
    def output(self):
        """Its standard output so far."""

    @abc.abstractmethod
    def wait(self, seconds):
        """→ Result; fails if the program has not ended by then."""

    @abc.abstractmethod
    def end(self):
        """Ends the program and its sandbox, whether it runs or not."""


class Driver(abc.ABC):
    name = "?"
    features = frozenset()
    proxy = None  # (host, port) of the explicit proxy, as programs inside name it
    transparent = True  # programs without proxy variables reach what is allowed
    unanswered = ()  # beginnings of the names of attempts that fail by their own time limit, not by a refusal

    @abc.abstractmethod
    def start(self, world):
        """Starts the product. Names are resolved by `world.resolver` ("ADDRESS:PORT")."""

    @abc.abstractmethod
    def stop(self):
        """Ends the product, and removes all that it made."""

    @abc.abstractmethod
    def begin(self, program, policy, seconds=60):
        """Starts the text of a Python 3 program in a new sandbox → Running. `seconds`: its time limit."""

    def run(self, program, policy, seconds=60):
        """Runs a program to its end → Result."""
        running = self.begin(program, policy, seconds)
        try:
            return running.wait(seconds)
        finally:
            running.end()

    def narrow(self, policy):
        """NARROW: the policy of every running sandbox is this from now on."""
        raise NotImplementedError

    def damage(self):
        """DAMAGE: yields after each of several changes that leave a policy document empty, cut off or unreadable, and
        mends the document at the end."""
        raise NotImplementedError

    def kill_mediator(self):
        """KILL: SIGKILL to the process that relays."""
        raise NotImplementedError
