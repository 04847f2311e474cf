#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Verify an exported audit log without Cloister: docs/AUDIT.md is all this knows of it.

    verify_audit.py LOG.jsonl [--checkpoints FILE --key BASE64]
    verify_audit.py --proof FILE --key BASE64 [--roots FILE]

LOG.jsonl has one entry a line (`cloister audit export`), from the first on; "-" is stdin. With the
checkpoint file and the public key (audit.pub) the log is also held to what was signed. Prints the
last entry's position and hash, or names the first bad entry and exits 1.

With --proof (`cloister audit proof`) a single entry is verified: that it is in a signed root. With --roots
(`cloister audit roots`) the root must be one of the kept ones.
"""

import argparse
import base64
import hashlib
import json
import sys

MEMBERS = ["seq", "at", "action", "subject", "tenant", "app", "agent", "user", "key", "details", "prev"]


def canonical(entry):
    details = json.loads(json.dumps(entry["details"], sort_keys=True))
    ordered = {name: entry[name] for name in MEMBERS} | {"details": details}
    return json.dumps(ordered, ensure_ascii=False, separators=(",", ":")).encode()


def seal(member):
    value = json.dumps(member["value"], ensure_ascii=False, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(f"cloister-audit-seal v1\n{member['salt']}\n{value}".encode()).hexdigest()


def members(pairs):
    """A member given twice is refused: readers that take the first would see another value than was verified."""
    found = {}
    for name, value in pairs:
        if name in found:
            raise ValueError(f"the member {name!r} is there twice")
        found[name] = value
    return found


def parse(line):
    return json.loads(line, object_pairs_hook=members)


PARTIAL = "this export is one tenant's, or begins later: export as an administrator from the start"


class Numbers:
    """Each entry's `seq` is its tenant's next number. In a log of an earlier version `seq` is the position, up to
    the entry `ledger.renumbered`; the log does not say in advance which kind of number comes first."""

    def __init__(self):
        self.last, self.positions, self.own = {}, True, True

    def check(self, position, entry):
        if entry["action"] == "ledger.renumbered":
            if not self.positions or entry["details"].get("through") != position - 1:
                raise ValueError("it does not end the numbers of all entries before it")
            self.positions, self.own = False, True
        tenant, number = entry["tenant"], entry["seq"]
        last = self.last.get(tenant, 0)
        as_position, as_own = self.positions and number == position, self.own and number == last + 1
        if not as_position and not as_own:
            if not self.own:
                raise ValueError(f"its number is {number}, though no entry ledger.renumbered stands before it")
            if number == last:
                raise ValueError(f"number {number} of tenant {tenant} is there twice")
            if number < last:
                raise ValueError(f"number {number} of tenant {tenant} stands behind number {last}")
            raise ValueError(f"number {last + 1} of tenant {tenant} is missing: number {number} is the next")
        self.positions, self.own, self.last[tenant] = as_position, as_own, number


def walk(lines):
    """Yields (position, hash) of each entry; raises ValueError with the first bad entry."""
    position, prev, numbers = 0, "0" * 64, Numbers()
    for line in lines:
        position += 1
        try:
            entry = parse(line)
            known, sealed = entry.pop("hash"), entry.pop("sealed", {})
            told = entry.pop("position", None)
            if position == 1 and (told or (1 if entry["prev"] == prev else 0)) != 1:
                raise ValueError(PARTIAL)
            if told not in (None, position):
                raise ValueError(f"missing: entry {told} stands in its place")
            if entry.keys() != set(MEMBERS):
                raise ValueError("its members are not those of an entry")
            if hashlib.sha256(canonical(entry)).hexdigest() != known:
                raise ValueError("its bytes do not match its hash")
            for name, member in sealed.items():
                if entry["details"].get(name) != {"sealed": seal(member)}:
                    raise ValueError(f"its sealed {name} is another")
            if entry["prev"] != prev:
                raise ValueError("it does not carry the hash of the entry before")
            numbers.check(position, entry)
            if entry["action"] == "ledger.recovered":
                raise ValueError(f"the ledger was found changed here: {entry['details']}")
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            raise ValueError(f"entry {position}: {error}") from None
        prev = known
        yield position, known


# Ed25519 (RFC 8032, section 5.1), missing in the standard library: verification only.
P = 2**255 - 19
L = 2**252 + 27742317777372353535851937790883648493
D = -121665 * pow(121666, P - 2, P) % P


def add(a, b):
    x = (a[1] - a[0]) * (b[1] - b[0]) % P
    y = (a[1] + a[0]) * (b[1] + b[0]) % P
    z, t = 2 * a[2] * b[2] % P, 2 * a[3] * b[3] * D % P
    e, f, g, h = y - x, z - t, z + t, y + x
    return e * f % P, g * h % P, f * g % P, e * h % P


def times(scalar, point):
    out = (0, 1, 1, 0)
    while scalar:
        out = add(out, point) if scalar & 1 else out
        point, scalar = add(point, point), scalar >> 1
    return out


def decompress(data):
    number = int.from_bytes(data, "little")
    y, sign = number & (2**255 - 1), number >> 255
    square = (y * y - 1) * pow(D * y * y + 1, P - 2, P) % P
    x = pow(square, (P + 3) // 8, P)
    if (x * x - square) % P:
        x = x * pow(2, (P - 1) // 4, P) % P
    if y >= P or (x * x - square) % P or (x == 0 and sign):
        raise ValueError("not a point of the curve")
    x = P - x if x & 1 != sign else x
    return x, y, 1, x * y % P


def signed(key, message, signature):
    try:
        point, nonce = decompress(key), decompress(signature[:32])
    except ValueError:
        return False
    scalar = int.from_bytes(signature[32:], "little")
    digest = hashlib.sha512(signature[:32] + key + message).digest()
    base = decompress((4 * pow(5, P - 2, P) % P).to_bytes(32, "little"))
    left = times(scalar, base)
    right = add(nonce, times(int.from_bytes(digest, "little") % L, point))
    same = all((left[i] * right[2] - right[i] * left[2]) % P == 0 for i in (0, 1))
    return len(signature) == 64 and scalar < L and same


def check(checkpoints, key, hashes):
    count = 0
    for count, line in enumerate(checkpoints, 1):
        point = parse(line)
        text = "cloister-audit-checkpoint v1\n{seq}\n{hash}\n{at}\n".format(**point).encode()
        if not signed(key, text, base64.b64decode(point["signature"])):
            raise ValueError(f"the checkpoint of entry {point['seq']} is not signed by this key")
        if point["seq"] not in hashes:
            raise ValueError(f"entry {len(hashes) + 1}: missing: entry {point['seq']} was signed")
        if hashes[point["seq"]] != point["hash"]:
            raise ValueError(f"entry {point['seq']}: its signed checkpoint has another hash")
    if not count:
        raise ValueError("the file of checkpoints is empty, so nothing shows that the log is whole: "
                         "give audit.checkpoints or the anchor")


ROOT_TEXT = "cloister-audit-root v1\n{number}\n{begins}\n{ends}\n{root}\n{log}\n{prev}\n"
ROOT_MEMBERS = {"number", "begins", "ends", "root", "log", "prev", "key", "signature"}


def digest(text, size=32):
    data = bytes.fromhex(text)
    if len(data) != size or data.hex() != text:
        raise ValueError(f"{text!r} is not {2 * size} lower-case hex digits")
    return data


def check_root(root, key):
    if root.keys() != ROOT_MEMBERS:
        raise ValueError("a root has other members than those of a root")
    name = f"root {root['number']}"
    if root["key"] != hashlib.sha256(key).hexdigest()[:16]:
        raise ValueError(f"{name} is signed by another key, {root['key']}")
    if not signed(key, ROOT_TEXT.format(**root).encode(), base64.b64decode(root["signature"], validate=True)):
        raise ValueError(f"{name} has a signature that is not valid")


def check_entry(line):
    entry = dict(line)
    known, sealed = entry.pop("hash"), entry.pop("sealed", {})
    entry.pop("position", None)
    if entry.keys() != set(MEMBERS):
        raise ValueError("the entry's members are not those of an entry")
    if hashlib.sha256(canonical(entry)).hexdigest() != known:
        raise ValueError("the entry's bytes do not match its hash")
    for name, member in sealed.items():
        if entry["details"].get(name) != {"sealed": seal(member)}:
            raise ValueError(f"the entry's sealed {name} is another")
    return digest(known)


def check_proof(proof, key, kept):
    """Raises ValueError with the first defect of a proof. `kept`: the lines of kept roots, or None."""
    if proof.keys() != {"version", "entry", "place", "siblings", "record"} or proof["version"] != 1:
        raise ValueError("this is no proof of version 1")
    if len(proof["siblings"]) != 64:
        raise ValueError("a proof has 64 siblings")
    place = digest(proof["place"], 8)
    node = hashlib.sha256(b"cloister-audit-leaf v1\n" + place + check_entry(proof["entry"])).digest()
    for level, sibling in enumerate(map(digest, proof["siblings"])):
        right = int.from_bytes(place, "big") >> level & 1
        node = hashlib.sha256(b"\x01" + (sibling + node if right else node + sibling)).digest()
    record = proof["record"]
    if node.hex() != record["root"]:
        raise ValueError(f"the siblings do not lead from the entry to root {record['number']}")
    check_root(record, key)
    before = None
    for root in map(parse, kept or ()):
        check_root(root, key)
        if before and (root["number"] != before["number"] + 1 or
                       root["prev"] != hashlib.sha256(ROOT_TEXT.format(**before).encode()).hexdigest()):
            raise ValueError(f"root {root['number']} does not follow root {before['number']}")
        if root["number"] == record["number"]:
            if root != record:
                raise ValueError(f"the kept root {record['number']} is another")
            kept = ()
        before = root
    if kept:
        raise ValueError(f"the kept roots have no root {record['number']}")


def verify_proof(args):
    try:
        with open(args.proof, encoding="utf-8") as file:
            proof = parse(file.read())
        kept = None
        if args.roots:
            with open(args.roots, encoding="utf-8") as file:
                kept = file.read().splitlines()
                if not kept:
                    raise ValueError("the file of kept roots is empty")
        check_proof(proof, args.key, kept)
    except (ValueError, KeyError, TypeError, AttributeError, OSError) as error:
        sys.exit(f"BROKEN: {error}")
    print(f"ok: entry {proof['entry']['seq']} of tenant {proof['entry']['tenant']} is in root {proof['record']['number']}")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("log", nargs="?")
    parser.add_argument("--checkpoints")
    parser.add_argument("--key", type=base64.b64decode)
    parser.add_argument("--proof")
    parser.add_argument("--roots")
    args = parser.parse_args()
    if args.proof:
        if args.key is None or args.log or args.checkpoints:
            parser.error("--proof goes with --key, and without a log")
        return verify_proof(args)
    if args.log is None or args.roots:
        parser.error("give a log, or --proof and --key")
    if (args.key is None) != (args.checkpoints is None):
        parser.error("--checkpoints and --key go together")
    try:
        log = sys.stdin if args.log == "-" else open(args.log, encoding="utf-8", newline="\n")
        hashes = dict(walk(log))
        if args.checkpoints is not None:
            with open(args.checkpoints, encoding="utf-8") as lines:
                check(lines, args.key, hashes)
    except (ValueError, OSError) as error:
        sys.exit(str(error))
    if not hashes:
        sys.exit("the log has no entry")
    print(f"{len(hashes)} entries, head {hashes[len(hashes)]}")


if __name__ == "__main__":
    main()
