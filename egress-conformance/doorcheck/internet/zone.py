# SPDX-License-Identifier: Apache-2.0
"""The names of the fake internet, and their addresses.

Good hosts are in 198.51.100.0/24, evil hosts in 203.0.113.0/24, and the link to the machine under test is
192.0.2.0/24 (RFC 5737). IPv6 addresses are in 2001:db8::/32 (RFC 3849). The world answers on every other address as
well, so that a connection to a private or a metadata address is seen too.
"""

HOME, HOME6 = "192.0.2.1", "2001:db8:ffff::1"  # the machine under test
RESOLVER, RESOLVER6 = "192.0.2.53", "2001:db8:ffff::53"
ALLOWED, SUB, API, GIT, H2, SSH, PACKAGES, NEIGHBOUR = (f"198.51.100.{n}" for n in (10, 11, 12, 13, 14, 15, 16, 17))
FLIP, MIXED, HINTED = "198.51.100.20", "198.51.100.21", "198.51.100.22"
ALLOWED6 = "2001:db8::10"
EVIL, EVIL6 = "203.0.113.66", "2001:db8::66"
METADATA = "169.254.169.254"
# Addresses that a mediator must not dial for a public name, by the name that leads there.
TRAPS = {
    "metadata.trap.test": ("A", METADATA),
    "ecs.trap.test": ("A", "169.254.170.2"),
    "alibaba.trap.test": ("A", "100.100.100.200"),
    "ten.trap.test": ("A", "10.0.0.1"),
    "private172.trap.test": ("A", "172.16.0.1"),
    "private192.trap.test": ("A", "192.168.1.1"),
    "shared.trap.test": ("A", "100.64.0.1"),
    "loopback.trap.test": ("A", "127.0.0.1"),
    "zero.trap.test": ("A", "0.0.0.0"),
    "broadcast.trap.test": ("A", "255.255.255.255"),
    "multicast.trap.test": ("A", "224.0.0.251"),
    "future.trap.test": ("A", "240.0.0.1"),
    "host.trap.test": ("A", HOME),
    "synthetic.trap.test": ("A", "198.18.0.7"),
    "nat64.trap.test": ("AAAA", "64:ff9b::a9fe:a9fe"),
    "nat64local.trap.test": ("AAAA", "64:ff9b:1::a9fe:a9fe"),
    "sixtofour.trap.test": ("AAAA", "2002:a9fe:a9fe::1"),
    "mapped.trap.test": ("AAAA", "::ffff:169.254.169.254"),
    "compatible.trap.test": ("AAAA", "::169.254.169.254"),
    "metadata6.trap.test": ("AAAA", "fd00:ec2::254"),
    "unique.trap.test": ("AAAA", "fd12:3456::1"),
    "linklocal.trap.test": ("AAAA", "fe80::1"),
    "loopback6.trap.test": ("AAAA", "::1"),
    "host6.trap.test": ("AAAA", HOME6),
}
RECORDS = {
    "allowed.test": [("A", ALLOWED), ("AAAA", ALLOWED6), ("TXT", "v=allowed"), ("MX", "mail.allowed.test")],
    "sub.allowed.test": [("A", SUB)],
    "deep.sub.allowed.test": [("A", SUB)],
    "notallowed.test": [("A", EVIL)],
    "api.test": [("A", API)],
    "git.test": [("A", GIT)],
    "h2.test": [("A", H2)],
    "ssh.test": [("A", SSH)],
    "packages.test": [("A", PACKAGES)],
    "neighbour.test": [("A", NEIGHBOUR)],
    "echo.test": [("A", ALLOWED)],
    "uncertified.test": [("A", ALLOWED)],  # the certificate there is for other names
    "proxy.test": [("A", NEIGHBOUR)],
    "mixed.test": [("A", MIXED), ("A", "10.0.0.1")],
    "cname.test": [("CNAME", "www.evil.test")],
    "cname-private.test": [("CNAME", "metadata.trap.test")],
    "hinted.test": [("A", HINTED), ("HTTPS", "evil.test")],
    "xn--bcher-kva.test": [("A", ALLOWED)],  # bücher.test
    **{name: [record] for name, record in TRAPS.items()},
}
# A different answer to each query in turn, then the last again.
FLIPS = {
    "flip.test": [[("A", FLIP)], [("A", "10.0.0.1")], [("A", METADATA)], [("A", "127.0.0.1")]],
    "flip-host.test": [[("A", FLIP)], [("A", HOME)]],
}
WILD = {"evil.test": [("A", EVIL), ("AAAA", EVIL6), ("TXT", "evil")], "wild.test": [("A", SUB)]}
CERTIFIED = sorted({*RECORDS, *FLIPS, "*.allowed.test", "*.wild.test", *WILD} - {"uncertified.test"})


class Zone:
    """Answers for every name. Counts the queries of names whose answers change."""

    def __init__(self):
        self._asked = {}

    def reset(self):
        self._asked.clear()

    def records(self, name):
        """→ [(type, data)] of the name in lower case; None: there is no such name."""
        if name in FLIPS:
            number = self._asked.get(name, 0)
            return FLIPS[name][min(number, len(FLIPS[name]) - 1)]
        if name in RECORDS:
            return RECORDS[name]
        for apex, found in WILD.items():
            if name == apex or name.endswith("." + apex):
                return found
        return None

    def answered(self, name, kind):
        """A query of the name was answered. Look-ups of A alone move a changing name on."""
        if name in FLIPS and kind == "A":
            self._asked[name] = self._asked.get(name, 0) + 1
