# SPDX-License-Identifier: Apache-2.0
"""A real machine for the double of Firecracker: QEMU emulates the machine, and this module is the host's side of its
vsock, by the vhost-user protocol (QEMU's docs/interop/vhost-user.rst) and the virtio specification (5.10, socket
device). Like Firecracker, the module hands a connection of the guest to the Unix socket of its port."""

import array
import ctypes
import mmap
import os
import select
import signal
import socket
import struct
import subprocess
import sys
import threading

QEMU = "qemu-system-x86_64"
PR_SET_PDEATHSIG = 1
GUEST, HOST = 3, 2
RX, TX = 0, 1
VERSION_1, PROTOCOL_FEATURES, CONFIG = 1 << 32, 1 << 30, 1 << 9
(GET_FEATURES, SET_MEM_TABLE, SET_VRING_NUM, SET_VRING_ADDR, SET_VRING_BASE, GET_VRING_BASE, SET_VRING_KICK,
 SET_VRING_CALL, GET_PROTOCOL_FEATURES, GET_CONFIG) = 1, 5, 8, 9, 10, 11, 12, 13, 15, 24
REPLY, NEED_REPLY, NO_FD = 4, 8, 0x100
PACKET = struct.Struct("<QQIIIHHIII")
REQUEST, RESPONSE, RESET, SHUTDOWN, DATA, CREDIT, ASK_CREDIT = range(1, 8)
WINDOW, PIECE = 1 << 18, 4096
NEXT = 1  # VRING_DESC_F_NEXT


class Memory:
    """The guest's memory, mapped like in its process."""

    def __init__(self, regions, files):
        self.regions = []
        for (place, size, address, offset), file in zip(regions, files):
            self.regions.append((place, address, size, mmap.mmap(file, size + offset), offset))
            os.close(file)

    def find(self, at, which):
        for region in self.regions:
            begin = region[which]
            if begin <= at < begin + region[2]:
                return region[3], at - begin + region[4]
        raise SystemExit(f"vsock: {at:#x} is no memory of the guest")

    def read(self, at, size, which=0):
        pages, offset = self.find(at, which)
        return pages[offset:offset + size]

    def write(self, at, data, which=0):
        pages, offset = self.find(at, which)
        pages[offset:offset + len(data)] = data


class Queue:
    """A split virtqueue; its three parts are where QEMU's own addresses say."""

    def __init__(self):
        self.size = self.seen = self.used_count = 0
        self.desc = self.used = self.avail = None
        self.kick = self.call = -1

    def ready(self):
        return self.desc is not None and self.kick >= 0

    def take(self, memory):
        """(head, [(address, length)]) of the next chain; None where there is none."""
        (index,) = struct.unpack("<H", memory.read(self.avail + 2, 2, 1))
        if index == self.seen:
            return None
        (head,) = struct.unpack("<H", memory.read(self.avail + 4 + 2 * (self.seen % self.size), 2, 1))
        self.seen = (self.seen + 1) & 0xFFFF
        chain, at, flags = [], head, NEXT
        while flags & NEXT:
            address, length, flags, following = struct.unpack("<QIHH", memory.read(self.desc + 16 * at, 16, 1))
            chain.append((address, length))
            at = following
        return head, chain

    def give_back(self, memory, head, length):
        memory.write(self.used + 4 + 8 * (self.used_count % self.size), struct.pack("<II", head, length), 1)
        self.used_count = (self.used_count + 1) & 0xFFFF
        memory.write(self.used + 2, struct.pack("<H", self.used_count), 1)
        if self.call >= 0:
            os.write(self.call, struct.pack("<Q", 1))


class Vsock:
    def __init__(self, control, path):
        self.control, self.path = control, path
        self.queues = (Queue(), Queue(), Queue())
        self.memory = self.peer = None
        self.outgoing = []  # packets that still wait for a guest's buffer
        self.port = self.guest_port = 0
        self.taken = self.sent = self.guest_window = self.guest_taken = 0

    # - QEMU's word -

    def message(self):
        head, ancillary, _, _ = self.control.recvmsg(12, socket.CMSG_SPACE(8 * 4))
        if len(head) < 12:
            return False
        files = array.array("i")
        for _, _, data in ancillary:
            files.frombytes(data)
        kind, flags, size = struct.unpack("<III", head)
        payload = self.control.recv(size, socket.MSG_WAITALL) if size else b""
        answer = self.obey(kind, payload, list(files))
        if answer is None and flags & NEED_REPLY:
            answer = bytes(8)
        if answer is not None:
            self.control.sendall(struct.pack("<III", kind, 1 | REPLY, len(answer)) + answer)
        return True

    def obey(self, kind, payload, files):
        if kind == GET_FEATURES:
            return struct.pack("<Q", VERSION_1 | PROTOCOL_FEATURES)
        if kind == GET_PROTOCOL_FEATURES:
            return struct.pack("<Q", CONFIG)
        if kind == GET_CONFIG:
            return payload[:12] + struct.pack("<Q", GUEST)
        if kind == SET_MEM_TABLE:
            (count,) = struct.unpack_from("<I", payload)
            self.memory = Memory([struct.unpack_from("<QQQQ", payload, 8 + 32 * each) for each in range(count)], files)
        elif kind in (SET_VRING_KICK, SET_VRING_CALL):
            (value,) = struct.unpack("<Q", payload)
            setattr(self.queues[value & 0xFF], "kick" if kind == SET_VRING_KICK else "call", files[0] if files else -1)
        elif kind == SET_VRING_ADDR:
            index, _, desc, used, avail, _ = struct.unpack("<IIQQQQ", payload)
            queue = self.queues[index]
            queue.desc, queue.used, queue.avail = desc, used, avail
        elif kind in (SET_VRING_NUM, SET_VRING_BASE):
            index, number = struct.unpack("<II", payload)
            setattr(self.queues[index], "size" if kind == SET_VRING_NUM else "seen", number)
        elif kind == GET_VRING_BASE:
            (index, _) = struct.unpack("<II", payload)
            return struct.pack("<II", index, self.queues[index].seen)
        return None

    # - the guest's -

    def receive(self):
        queue = self.queues[TX]
        while (taken := queue.take(self.memory)) is not None:
            head, chain = taken
            data = b"".join(self.memory.read(*each) for each in chain)
            queue.give_back(self.memory, head, 0)
            self.packet(data[:PACKET.size], data[PACKET.size:])

    def packet(self, head, data):
        source, target, source_port, target_port, length, _, what, _, window, taken = PACKET.unpack(head)
        if (source, target) != (GUEST, HOST):
            return
        if what != REQUEST and source_port != self.guest_port:
            return  # of a closed connection
        self.guest_window, self.guest_taken = window, taken
        if what == REQUEST:
            self.port, self.guest_port = target_port, source_port
            self.taken = self.sent = 0
            self.peer = socket.socket(socket.AF_UNIX)
            try:
                self.peer.connect(f"{self.path}_{target_port}")
            except OSError:
                self.peer = None
                self.say(RESET)
                return
            self.say(RESPONSE)
        elif what == DATA and self.peer is not None:
            self.peer.sendall(data[:length])
            self.taken += length
            self.say(CREDIT)
        elif what == ASK_CREDIT:
            self.say(CREDIT)
        elif what in (SHUTDOWN, RESET):
            self.hang_up()

    def hang_up(self):
        if self.peer is not None:
            self.peer.close()
            self.peer = None
            self.say(RESET)

    def say(self, what, data=b"", flags=0):
        self.outgoing.append(PACKET.pack(HOST, GUEST, self.port, self.guest_port, len(data), 1, what, flags, WINDOW,
                                         self.taken & 0xFFFFFFFF) + data)
        self.flush()

    def flush(self):
        queue = self.queues[RX]
        while self.outgoing and queue.ready() and (taken := queue.take(self.memory)) is not None:
            head, chain = taken
            data, at = self.outgoing.pop(0), 0
            for address, length in chain:
                self.memory.write(address, data[at:at + length])
                at += min(length, len(data) - at)
            queue.give_back(self.memory, head, at)

    def room(self):
        return self.guest_window - ((self.sent - self.guest_taken) & 0xFFFFFFFF)

    def bring(self):
        data = self.peer.recv(min(PIECE, self.room()))
        if not data:
            self.say(SHUTDOWN, flags=3)
            self.peer.close()
            self.peer = None
            return
        self.sent += len(data)
        self.say(DATA, data)

    def serve(self):
        while True:
            kicks = {queue.kick: index for index, queue in enumerate(self.queues[:2]) if queue.ready()}
            wants = self.peer is not None and not self.outgoing and self.room() > 0
            ready, _, _ = select.select([self.control, *kicks, *([self.peer] if wants else [])], [], [])
            if self.control in ready and not self.message():
                return
            for kick in set(ready) & set(kicks):
                os.read(kick, 8)
                if kicks[kick] == TX:
                    self.receive()
                else:
                    self.flush()
            if wants and self.peer is not None and self.peer in ready:
                self.bring()


# Message of a Linux that could not count its timer's ticks, and then waits for ever (src/sandbox/microvm/qemu.cc).
NO_TIMER = b"APIC frequency too slow, disabling apic timer"
MOST_BOOTS = 3


def start(files, mebibytes, parameters, place):
    kernel, initrd, disk = files
    parameters = parameters.replace("reboot=k", "reboot=t")
    parameters += " tsc=reliable tsc_early_khz=2000000 mitigations=off loglevel=5"
    return subprocess.Popen([
        QEMU, "-machine", "microvm,pit=off,pic=off,rtc=on,isa-serial=on,x-option-roms=off,memory-backend=memory", "-accel",
        "tcg,thread=multi", "-cpu", "max", "-m", str(mebibytes), "-object",
        f"memory-backend-memfd,id=memory,size={mebibytes}M,share=on", "-nodefaults", "-no-user-config", "-no-reboot",
        "-display", "none", "-kernel", kernel, "-initrd", initrd, "-append", parameters, "-blockdev",
        f"driver=file,node-name=disk,filename={disk},read-only=on,locking=off", "-device", "virtio-blk-device,drive=disk",
        "-device", "virtio-rng-device", "-chardev", f"socket,id=vsock,path={place}/vhost", "-device",
        "vhost-user-vsock-device,chardev=vsock", "-chardev", "stdio,id=console,signal=off", "-serial", "chardev:console"],
        stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
        preexec_fn=lambda: ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL))


def show(machine, lost):
    """Hands its console on; a machine without a timer ends, and `lost` is set."""
    for line in machine.stdout:
        sys.stdout.buffer.write(line)
        sys.stdout.buffer.flush()
        if NO_TIMER in line:
            lost.set()
            machine.kill()


def run(files, mebibytes, parameters, uds_path):
    """`files`: kernel, initial RAM file system and disk, as paths. Until the machine ends."""
    place = os.path.dirname(uds_path)
    listener = socket.socket(socket.AF_UNIX)
    listener.bind(f"{place}/vhost")
    listener.listen()
    for _ in range(MOST_BOOTS):
        lost = threading.Event()
        machine = start(files, mebibytes, parameters, place)
        shows = threading.Thread(target=show, args=(machine, lost), daemon=True)
        shows.start()
        control, _ = listener.accept()
        Vsock(control, uds_path).serve()
        machine.wait()
        shows.join()
        if not lost.is_set():
            return
