# SPDX-License-Identifier: Apache-2.0
"""Listens to the link itself: every packet that arrives and begins something, of any protocol. packet(7)"""

import ctypes
import socket
import struct

ETH_P_ALL = 0x0003
SO_ATTACH_FILTER = 26
PACKET_OUTGOING = 4
IPV4, IPV6 = 0x0800, 0x86DD
PROTOCOLS = {1: "icmp", 6: "tcp", 17: "udp", 58: "icmp6", 132: "sctp"}
NEIGHBOURS = {130, 131, 132, 133, 134, 135, 136, 137, 143}  # ICMPv6 that every IPv6 host sends on its own
HOP_BY_HOP = 0
# Classic BPF (linux/filter.h): (code, jump if true, jump if false, value). Everything but TCP, and of TCP the segments
# with SYN and without ACK. The kernel drops the others, so that a bulk transfer costs nothing here.
LD_H, LD_B, LD_B_X, LDX_IHL, AND, JEQ, RET = 0x28, 0x30, 0x50, 0xB1, 0x54, 0x15, 0x06
PROTOCOL = 0xFFFFF000  # SKF_AD_OFF + SKF_AD_PROTOCOL
SYNS_AND_OTHERS = [
    (LD_H, 0, 0, PROTOCOL),
    (JEQ, 2, 0, IPV4),
    (JEQ, 7, 0, IPV6),
    (RET, 0, 0, 0),
    (LD_B, 0, 0, 9),  # IPv4: the protocol; not TCP: accept
    (JEQ, 0, 9, 6),
    (LDX_IHL, 0, 0, 0),
    (LD_B_X, 0, 0, 13),
    (AND, 0, 0, 0x12),
    (JEQ, 5, 6, 0x02),
    (LD_B, 0, 0, 6),  # IPv6: the next header; not TCP: accept
    (JEQ, 0, 3, 6),
    (LD_B, 0, 0, 53),
    (AND, 0, 0, 0x12),
    (JEQ, 0, 1, 0x02),
    (RET, 0, 0, 0xFFFF),
    (RET, 0, 0, 0),
]


def attach(listener, program):
    code = b"".join(struct.pack("HBBI", *step) for step in program)
    held = ctypes.create_string_buffer(code)
    listener.setsockopt(socket.SOL_SOCKET, SO_ATTACH_FILTER, struct.pack("HL", len(program), ctypes.addressof(held)))


class Sniffer:
    def __init__(self, interface, log):
        self._log = log
        self.socket = socket.socket(socket.AF_PACKET, socket.SOCK_DGRAM, socket.htons(ETH_P_ALL))
        attach(self.socket, SYNS_AND_OTHERS)
        self.socket.bind((interface, ETH_P_ALL))
        self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4 << 20)
        self.socket.setblocking(False)

    def drain(self):
        """Logs all that has arrived."""
        while True:
            try:
                data, (_, ether, kind, *_rest) = self.socket.recvfrom(256)
            except BlockingIOError:
                return
            if kind != PACKET_OUTGOING:
                self._one(data, ether)

    def _one(self, data, ether):
        if ether == IPV4 and len(data) >= 20:
            number, at = data[9], (data[0] & 15) * 4
            source, target = socket.inet_ntoa(data[12:16]), socket.inet_ntoa(data[16:20])
        elif ether == IPV6 and len(data) >= 40:
            number, at = data[6], 40
            source, target = (socket.inet_ntop(socket.AF_INET6, data[n:n + 16]) for n in (8, 24))
        else:
            return
        if ether == IPV6 and (number == HOP_BY_HOP or number == 58 and len(data) > at and data[at] in NEIGHBOURS):
            return
        port = struct.unpack_from("!H", data, at + 2)[0] if number in (6, 17, 132) and len(data) >= at + 4 else 0
        self._log(kind="packet", protocol=PROTOCOLS.get(number, str(number)), source=source, address=target, port=port)
