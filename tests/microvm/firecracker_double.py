#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""A double of Firecracker, for machines without Firecracker or KVM: its command line, its API by its
firecracker.yaml, and its vsock; strict, so that requests refused by the real program are refused here. The double
has no machine: at the start, the double reads the boot files like the machine, and then plays the guest, that is,
connects to the node's port and runs the runner of the initial RAM file system behind the connection
(guest_double.py); or, with DOUBLE_MACHINE=qemu in the environment, has QEMU emulate the machine (vsock_machine.py).

A kept machine (/snapshot/create) leaves its parts, its initial RAM file system and random numbers in place of its
kernel's, in two files, as the real program would its state and memory, and a digest over both; a loaded machine
(/snapshot/load) opens the drives and the vsock again by their paths, and its guest goes on like a guest that slept.

A request that breaks a rule gets 400 with a fault_message, and a line on stderr. DOUBLE_MISCHIEF in the environment
orders misbehaviour instead, to test the driver."""

import fcntl
import hashlib
import json
import os
import pathlib
import re
import signal
import socket
import stat
import struct
import sys
import threading
import time

VERSION = os.environ.get("DOUBLE_VERSION", "1.8.0")
MISCHIEF = os.environ.get("DOUBLE_MISCHIEF", "")
MOST_PAYLOAD = 51_200  # --http-api-max-payload-size
MOST_PARAMETERS = 2_048  # COMMAND_LINE_SIZE
HIMEM = PIECE = 1 << 20
TUNSETIFF, TUNSETOFFLOAD, TUNSETVNETHDRSZ = 0x400454CA, 0x400454D0, 0x400454D8  # linux/if_tun.h
IFF_TAP, IFF_NO_PI, IFF_VNET_HDR = 0x0002, 0x1000, 0x4000
ALL_OFFLOADS = 0x1F  # checksums, segmentation of TCP with ECN, and of UDP

# The options of the command line, and whether they take a value.
OPTIONS = {"api-sock": True, "id": True, "seccomp-filter": True, "no-seccomp": False, "start-time-us": True,
           "start-time-cpu-us": True, "parent-cpu-time-us": True, "config-file": True, "metadata": True,
           "no-api": False, "log-path": True, "level": True, "module": True, "show-level": False,
           "show-log-origin": False, "metrics-path": True, "boot-timer": False, "version": False,
           "snapshot-version": False, "describe-snapshot": True, "http-api-max-payload-size": True,
           "mmds-size-limit": True, "enable-pci": False, "help": False}
LEVELS = {"off", "trace", "debug", "info", "warn", "warning", "error"}
BAD_ARGUMENTS = 153


class Fault(Exception):
    """Answered with 400."""


# --- the allowed requests -------------------------------------------------------------------------------------------
# A type is a Python type, a set of words, a range, or a dictionary: {field: (required, type)}. PUT, except PATCHES.

BUCKET = {"size": (True, range(0, 2**64)), "refill_time": (True, range(0, 2**64)),
          "one_time_burst": (False, range(0, 2**64))}
LIMITER = {"bandwidth": (False, BUCKET), "ops": (False, BUCKET)}
REQUESTS = {
    "/machine-config": {"vcpu_count": (True, range(1, 33)), "mem_size_mib": (True, range(1, 2**64)),
                        "smt": (False, bool), "track_dirty_pages": (False, bool),
                        "cpu_template": (False, {"C3", "T2", "T2S", "T2CL", "T2A", "V1N1", "None"}),
                        "huge_pages": (False, {"None", "2M"})},
    "/boot-source": {"kernel_image_path": (True, str), "initrd_path": (False, str), "boot_args": (False, str)},
    "/drives/": {"drive_id": (True, str), "is_root_device": (True, bool), "path_on_host": (False, str),
                 "is_read_only": (False, bool), "partuuid": (False, str), "cache_type": (False, {"Unsafe", "Writeback"}),
                 "io_engine": (False, {"Sync", "Async"}), "rate_limiter": (False, LIMITER), "socket": (False, str)},
    "/vsock": {"guest_cid": (True, range(3, 2**32)), "uds_path": (True, str), "vsock_id": (False, str)},
    "/network-interfaces/": {"iface_id": (True, str), "host_dev_name": (True, str), "guest_mac": (False, str),
                             "rx_rate_limiter": (False, LIMITER), "tx_rate_limiter": (False, LIMITER)},
    "/entropy": {"rate_limiter": (False, LIMITER)},
    "/actions": {"action_type": (True, {"FlushMetrics", "InstanceStart", "SendCtrlAltDel"})},
    "/vm": {"state": (True, {"Paused", "Resumed"})},
    "/snapshot/create": {"snapshot_type": (False, {"Full", "Diff"}), "snapshot_path": (True, str),
                         "mem_file_path": (True, str)},
    "/snapshot/load": {"snapshot_path": (True, str), "mem_file_path": (False, str),
                       "mem_backend": (False, {"backend_path": (True, str), "backend_type": (True, {"File", "Uffd"})}),
                       "enable_diff_snapshots": (False, bool), "resume_vm": (False, bool)},
}
PATCHES = {"/vm"}
AFTER_START = {"/actions", "/vm", "/snapshot/create"}
BEFORE = "The requested operation is not supported before starting the microVM."
AFTER = "The requested operation is not supported after starting the microVM."


def check(value, kind, where):
    if isinstance(kind, dict):
        if not isinstance(value, dict):
            raise Fault(f"{where}: invalid type, expected a struct")
        for name in value:
            if name not in kind:
                raise Fault(f"{where}: unknown field `{name}`")
        for name, (required, inner) in kind.items():
            if name in value:
                check(value[name], inner, f"{where}.{name}")
            elif required:
                raise Fault(f"{where}: missing field `{name}`")
    elif isinstance(kind, range):
        if type(value) is not int or value not in kind:
            raise Fault(f"{where}: invalid value {value!r}")
    elif isinstance(kind, set):
        if value not in kind:
            raise Fault(f"{where}: unknown variant {value!r}")
    elif type(value) is not kind:
        raise Fault(f"{where}: invalid type {type(value).__name__}")


def once(pairs):
    found = dict(pairs)
    if len(found) != len(pairs):
        raise Fault("duplicate field")
    return found


# --- the machine ------------------------------------------------------------------------------------------------------


def opened(path, what):
    try:
        return open(path, "rb")
    except OSError as error:
        raise Fault(f"{what}: {path}: {error.strerror}") from error


class Fatal(Fault):
    """Answered so, too, and then the process ends."""


class Machine:
    def __init__(self):
        self.config = {"vcpu_count": 1, "mem_size_mib": 128}
        self.boot = self.vsock = None
        self.drives, self.links = {}, {}
        self.configured = self.paused = self.loaded = False
        self.runs = threading.Event()
        self.pool = os.urandom(32).hex()  # the random numbers of its kernel

    def ask(self, method, path, body):
        name = next((prefix for prefix in ("/drives/", "/network-interfaces/") if path.startswith(prefix)), path)
        if name not in REQUESTS or method != ("PATCH" if name in PATCHES else "PUT"):
            raise Fault(f"Invalid request method and/or path: {method} {path}.")
        check(body, REQUESTS[name], path)
        if self.runs.is_set() != (name in AFTER_START) and name != "/actions":
            raise Fault(AFTER if self.runs.is_set() else BEFORE)
        {"/machine-config": self.configure, "/boot-source": self.set_boot, "/drives/": self.add_drive,
         "/network-interfaces/": self.add_link, "/vsock": self.add_vsock, "/entropy": lambda *_: None, "/actions": self.act, "/vm": self.change,
         "/snapshot/create": self.keep, "/snapshot/load": self.load_kept}[name](body, path)
        self.configured = True

    def configure(self, body, _path):
        if body.get("smt") and body["vcpu_count"] not in (1, *range(2, 33, 2)):
            raise Fault("The vCPU number is invalid!")
        self.config = body

    def set_boot(self, body, _path):
        parameters = body.get("boot_args", "")
        if len(parameters) >= MOST_PARAMETERS or not re.fullmatch(r"[ -~]*", parameters):
            raise Fault("The kernel command line is invalid: it is too long, or has characters that are not ASCII.")
        self.parameters = dict(each.split("=", 1) for each in parameters.split() if "=" in each)
        self.boot = (opened(body["kernel_image_path"], "The kernel file cannot be opened"),
                     opened(body["initrd_path"], "The initrd file cannot be opened") if "initrd_path" in body else None,
                     parameters)

    def add_drive(self, body, path):
        if body["drive_id"] != path.removeprefix("/drives/"):
            raise Fault("The id from the path does not match the id from the body!")
        if not re.fullmatch(r"[A-Za-z0-9_]+", body["drive_id"]):
            raise Fault("invalid id")
        if "socket" in body or "path_on_host" not in body or "is_read_only" not in body:
            raise Fault("Unable to create the block device: a virtio one has path_on_host and is_read_only, and no socket.")
        self.open_drive(body["drive_id"], body["path_on_host"], "rb" if body["is_read_only"] else "r+b")

    def open_drive(self, name, path, mode):
        try:
            self.drives[name] = open(path, mode)
        except OSError as error:
            raise Fault(f"Unable to create the block device: {path}: {error.strerror}") from error

    def add_link(self, body, path):
        if body["iface_id"] != path.removeprefix("/network-interfaces/"):
            raise Fault("The id from the path does not match the id from the body!")
        if not re.fullmatch(r"([0-9a-f]{2}:){5}[0-9a-f]{2}", body.get("guest_mac", "00:00:00:00:00:00")):
            raise Fault("invalid MAC address")
        self.open_link(body["host_dev_name"])

    def open_link(self, name):
        try:
            tap = os.open("/dev/net/tun", os.O_RDWR | os.O_NONBLOCK | os.O_CLOEXEC)
            fcntl.ioctl(tap, TUNSETIFF, struct.pack("16sH22x", name.encode(), IFF_TAP | IFF_NO_PI | IFF_VNET_HDR))
            fcntl.ioctl(tap, TUNSETVNETHDRSZ, struct.pack("i", 12))
            fcntl.ioctl(tap, TUNSETOFFLOAD, ALL_OFFLOADS)
        except OSError as error:
            raise Fault(f"Cannot open TAP device: {name}: {error.strerror}") from error
        self.links[name] = tap

    def add_vsock(self, body, _path):
        # The real program listens there for connections from the host to the guest.
        listener = socket.socket(socket.AF_UNIX)
        try:
            listener.bind(body["uds_path"])
            listener.listen()
        except OSError as error:
            raise Fault(f"Cannot create backend for vsock device: {error.strerror}") from error
        self.vsock = (body["uds_path"], listener)

    def act(self, body, _path):
        if body["action_type"] != "InstanceStart":
            raise Fault("not in this double" if self.runs.is_set() else BEFORE)
        if self.runs.is_set():
            raise Fault(AFTER)
        if self.boot is None:
            raise Fault("Cannot start microvm without kernel configuration.")
        self.load()
        self.runs.set()

    def change(self, body, _path):
        self.paused = body["state"] == "Paused"

    def keep(self, body, _path):
        if not self.paused:
            raise Fault("Cannot save the microVM state: Operation not allowed: the microVM is not paused")
        if body.get("snapshot_type", "Full") == "Diff" and not self.config.get("track_dirty_pages"):
            raise Fault("Diff snapshots are not allowed on uVMs with dirty page tracking disabled.")
        if os.environ.get("DOUBLE_MACHINE"):
            raise Fault("not in this double")
        what = {"config": self.config, "parameters": self.parameters, "vsock": self.vsock[0],
                "drives": [[name, drive.name, drive.mode] for name, drive in self.drives.items()], "links": list(self.links)}
        state = json.dumps(what).encode()
        try:
            self.write(body["snapshot_path"], state, body["mem_file_path"])
        except OSError as error:
            raise Fault(f"Cannot perform open on the backing file: {error.strerror}") from error

    def write(self, state_path, state, memory_path):
        used = json.dumps({"pool": self.pool, "initrd": self.initrd.hex()}).encode()
        used = (struct.pack("<Q", len(used)) + used).ljust(PIECE * (len(used) // PIECE + 1), b"\0")
        digest = hashlib.sha256(state)
        size = self.config["mem_size_mib"] << 20
        with open(os.open(memory_path, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o666), "wb", buffering=0) as file:
            # Over the existing file, if its size is right, and the whole of it.
            if os.fstat(file.fileno()).st_size != size:
                os.ftruncate(file.fileno(), 0)
            os.ftruncate(file.fileno(), size)
            for at in range(0, size, PIECE):
                piece = used[at:at + PIECE] or bytes(PIECE)
                file.write(piece)
                digest.update(piece)
            os.fsync(file.fileno())
        with open(os.open(state_path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o666), "wb") as file:
            file.write(state + digest.digest())

    def load_kept(self, body, _path):
        if self.configured:
            raise Fault("Loading a microVM snapshot not allowed after configuring boot-specific resources.")
        if ("mem_backend" in body) == ("mem_file_path" in body):
            raise Fault("either `mem_backend` or `mem_file_path` exclusively must be given")
        backend = body.get("mem_backend") or {"backend_type": "File", "backend_path": body["mem_file_path"]}
        if backend["backend_type"] != "File":
            raise Fault("not in this double")
        try:
            self.become(body["snapshot_path"], backend["backend_path"])
        except (Fault, OSError, ValueError, KeyError, struct.error) as error:
            raise Fatal(f"Failed to restore from snapshot: {error}") from error
        self.loaded = True
        self.paused = not body.get("resume_vm", False)
        if not self.paused:
            self.runs.set()

    def become(self, state_path, memory_path):
        # Read-only, as in the real program, which maps the file and does not change it.
        with open(state_path, "rb") as file:
            data = file.read()
        state, digest = data[:-32], hashlib.sha256(data[:-32])
        with open(memory_path, "rb") as file:
            (size,) = struct.unpack("<Q", file.read(8))
            used = json.loads(file.read(size))
            file.seek(0)
            while piece := file.read(PIECE):
                digest.update(piece)
        if digest.digest() != data[-32:]:
            raise Fault("Failed to load snapshot state from file: CRC64 validation failed")
        what = json.loads(state)
        self.config, self.parameters = what["config"], what["parameters"]
        self.pool, self.initrd = used["pool"], bytes.fromhex(used["initrd"])
        for drive in what["drives"]:
            self.open_drive(*drive)
        for link in what["links"]:
            self.open_link(link)
        self.add_vsock({"uds_path": what["vsock"]}, None)

    def load(self):
        """Everything is read as the machine would."""
        kernel, initrd, parameters = self.boot
        memory = self.config["mem_size_mib"] << 20
        image = kernel.read()
        if image[:6] != b"\x7fELF\x02\x01" or struct.unpack_from("<H", image, 18) != (62,):
            raise Fault("Cannot load kernel due to invalid memory configuration or invalid kernel image: Invalid Elf magic number")
        offset, size, count = (struct.unpack_from(form, image, at)[0] for form, at in (("<Q", 32), ("<H", 54), ("<H", 56)))
        for number in range(count):
            kind, _, at, _, place, in_file, in_memory, _ = struct.unpack_from("<IIQQQQQQ", image, offset + number * size)
            if kind == 1 and (at + in_file > len(image) or place < HIMEM or place + in_memory > memory):
                raise Fault("Cannot load kernel due to invalid memory configuration or invalid kernel image")
        self.initrd = initrd.read() if initrd else b""
        if len(self.initrd) + len(image) > memory:
            raise Fault("Cannot load initrd due to an invalid memory configuration.")
        for drive in self.drives.values():
            if not drive.read(4096):
                raise Fault("Unable to read from the block device")
        self.paths = [os.path.realpath(file.name) for file in (kernel, initrd, *self.drives.values()) if file]


# --- the API ----------------------------------------------------------------------------------------------------------


def answer(status, body=b""):
    head = f"HTTP/1.1 {status} \r\nServer: Firecracker API\r\nConnection: keep-alive\r\n"
    if body:
        head += f"Content-Type: application/json\r\nContent-Length: {len(body)}\r\n"
    return head.encode() + b"\r\n" + body


def misbehave(peer):
    """In the place of an answer; whether there is more to come."""
    good = answer(204)
    if MISCHIEF == "huge":
        try:
            peer.sendall(b"HTTP/1.1 204 \r\nX: " + b"x" * (1 << 20))
        except OSError:
            pass
        return False
    if MISCHIEF == "endless-body":
        peer.sendall(b"HTTP/1.1 400 \r\nContent-Length: 999999999\r\n\r\nx")
    elif MISCHIEF == "garbage":
        peer.sendall(os.urandom(64) + b"\r\n\r\n")
    elif MISCHIEF == "twice":
        peer.sendall(good + good)
    elif MISCHIEF == "cut":
        peer.sendall(good[:20])
    elif MISCHIEF == "silent":
        time.sleep(3600)
    elif MISCHIEF == "refuse":
        peer.sendall(answer(400, b'{"fault_message":"no\x01 room <for> it"}'))
        time.sleep(3600)
    elif MISCHIEF == "slow":
        for byte in good:
            peer.sendall(bytes((byte,)))
            time.sleep(0.002)
        return True
    elif MISCHIEF == "die":
        os._exit(7)
    else:  # behaves until the machine runs
        peer.sendall(good)
        return True
    return False


def serve_one(peer, data, machine):
    """(the rest of `data`, whether the connection goes on) after a request; None if the request is incomplete."""
    head, end, rest = data.partition(b"\r\n\r\n")
    if not end:
        return None
    first, *lines = head.decode("ascii").split("\r\n")
    if not re.fullmatch(r"(GET|PUT|PATCH) /[!-~]* HTTP/1\.[01]", first):
        raise SystemExit(f"double: not a request: {first!r}")
    headers = {name.lower(): value.strip() for name, value in (line.split(":", 1) for line in lines)}
    length = int(headers.get("content-length", "0"))
    if length > MOST_PAYLOAD:
        raise SystemExit("double: the payload is too large")
    if len(rest) < length:
        return None
    method, path, _ = first.split(" ")
    lies = MISCHIEF == "lie" and path == os.environ.get("DOUBLE_AT")
    try:
        if headers.get("content-type") != "application/json":
            raise Fault("Unsupported media type")
        try:
            body = json.loads(rest[:length], object_pairs_hook=once)
        except ValueError as error:
            raise Fault(f"An error occurred when deserializing the json body of a request: {error}.") from error
        if not lies:
            machine.ask(method, path, body)
    except Fault as fault:
        print(f"double: {method} {path}: {fault}", file=sys.stderr, flush=True)
        peer.sendall(answer(400, json.dumps({"fault_message": str(fault)}).encode()))
        if isinstance(fault, Fatal):
            os._exit(1)
        return rest[length:], True
    if MISCHIEF and path == os.environ.get("DOUBLE_AT", "/boot-source"):
        return rest[length:], misbehave(peer)
    peer.sendall(answer(204))
    return rest[length:], True


def serve(listener, machine):
    try:
        serve_all(listener.accept()[0], machine)
    except BaseException as error:
        print(error, file=sys.stderr, flush=True)
        os._exit(1)


def serve_all(peer, machine):
    data = b""
    while True:
        piece = peer.recv(65536)
        if not piece and not machine.runs.is_set():
            raise SystemExit("double: the connection was closed before the machine was started")
        if not piece:
            return
        data += piece
        while data and (done := serve_one(peer, data, machine)):
            data, more = done
            if not more:
                peer.close()
                return


def play(machine):
    """The running machine: its guest."""
    import guest_double
    if MISCHIEF == "die-later":
        os._exit(9)
    if MISCHIEF == "no-guest":
        time.sleep(3600)
    if machine.vsock is None or "cloister_vsock" not in machine.parameters:
        raise SystemExit("double: the guest has no way to the node")
    print("double: the guest", "goes on" if machine.loaded else "boots", flush=True)  # its console
    if os.environ.get("DOUBLE_MACHINE") == "qemu":
        import vsock_machine
        vsock_machine.run(machine.paths, machine.config["mem_size_mib"], machine.boot[2], machine.vsock[0])
        return
    def connect():
        port = socket.socket(socket.AF_UNIX)
        port.connect(f"{machine.vsock[0]}_{machine.parameters['cloister_vsock']}")
        return port

    if machine.loaded and MISCHIEF == "reset":
        # After an earlier connection, the guest's kernel takes the event that ends its connections. The other side is
        # not notified.
        kept = connect()
        print("double: a connection is reset", kept.fileno(), flush=True)
        time.sleep(0.2)
    print("double: its random numbers are", machine.pool, flush=True)
    guest_double.run(connect, machine.initrd, sleeps="cloister_sleeps" in machine.parameters, woken=machine.loaded)


def parse(arguments):
    found, at = {}, 0
    while at < len(arguments):
        name = arguments[at].removeprefix("--")
        if arguments[at] == name or name not in OPTIONS:
            return None
        at += 1
        if OPTIONS[name]:
            if at == len(arguments):
                return None
            found[name] = arguments[at]
            at += 1
        else:
            found[name] = True
    return found


def main():
    options = parse(sys.argv[1:])
    if options is None:
        print("Error: ParseArguments", file=sys.stderr)
        return BAD_ARGUMENTS
    if "version" in options:
        print(f"Firecracker v{VERSION}\n")
        return 0
    if not re.fullmatch(r"[A-Za-z0-9-]{1,64}", options.get("id", "anonymous-instance")):
        raise SystemExit("double: Invalid instance ID")
    if options.get("level", "info").lower() not in LEVELS or "no-seccomp" in options:
        raise SystemExit("double: this level is none, or --no-seccomp was given")
    for descriptor in map(int, os.listdir("/proc/self/fd")):
        # The node's socket is the driver's alone.
        if descriptor > 2 and os.path.exists(f"/proc/self/fd/{descriptor}"):
            if stat.S_ISSOCK(os.fstat(descriptor).st_mode):
                raise SystemExit("double: a socket was left open")
    path = options.get("api-sock", "/run/firecracker.socket")
    listener = socket.socket(socket.AF_UNIX)
    listener.bind(path)
    listener.listen()
    signal.signal(signal.SIGPIPE, signal.SIG_IGN)
    machine = Machine()
    threading.Thread(target=serve, args=(listener, machine), daemon=True).start()
    machine.runs.wait()
    play(machine)
    return 0


if __name__ == "__main__":
    sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
    sys.exit(main())
