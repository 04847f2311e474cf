# SPDX-License-Identifier: Apache-2.0
"""The kernel inside a vmlinuz, as an ELF file: what VMMs boot that do not unpack it themselves. The x86 boot
protocol (Documentation/arch/x86/boot.rst) says where in the file it lies, and the magic number how it is packed.

    tools/unpack_kernel.py VMLINUZ VMLINUX
"""

import lzma
import pathlib
import struct
import subprocess
import sys
import zlib

MOST = 256 << 20  # bytes, unpacked


class Malformed(Exception):
    """A kernel that cannot be unpacked; the message has the reason."""


def lz4_length(source, at, nibble):
    while nibble >= 15:
        byte = source[at]
        at, nibble = at + 1, nibble + byte
        if byte != 255:
            break
    return at, nibble


def lz4_block(source):
    out, at = bytearray(), 0
    while True:
        token = source[at]
        at, literals = lz4_length(source, at + 1, token >> 4)
        out += source[at:at + literals]
        at += literals
        if at >= len(source):
            return out
        back = source[at] | source[at + 1] << 8
        at, length = lz4_length(source, at + 2, token & 15)
        length += 4
        begin = len(out) - back
        if back == 0 or begin < 0 or len(out) + length > MOST:
            raise Malformed("its LZ4 data is malformed")
        piece = out[begin:begin + length]  # a piece that overlaps its own end repeats
        out += (piece * (length // len(piece) + 1))[:length]


def lz4(data):
    """The legacy format, used by the kernel's build: blocks with their lengths."""
    out, at = bytearray(), 4
    while at + 4 <= len(data) and len(out) <= MOST:
        (size,) = struct.unpack_from("<I", data, at)
        out += lz4_block(data[at + 4:at + 4 + size])
        at += 4 + size
    return bytes(out)


def zstd(data):
    done = subprocess.run(["zstd", "-dcq"], input=data, capture_output=True)
    if done.returncode != 0:
        raise Malformed(f"zstd (package zstd) cannot unpack it: {done.stderr.decode(errors='replace').strip()}")
    return done.stdout


PACKERS = ((b"\x1f\x8b", lambda data: zlib.decompressobj(wbits=31).decompress(data, MOST)),
           (b"\xfd7zXZ\0", lambda data: lzma.LZMADecompressor().decompress(data, MOST)),
           (b"\x28\xb5\x2f\xfd", zstd), (b"\x02\x21\x4c\x18", lz4))


def unpack(image):
    if image[0x202:0x206] != b"HdrS":
        raise Malformed("it has no header of the x86 boot protocol")
    sectors = image[0x1F1] or 4
    offset, length = struct.unpack_from("<II", image, 0x248)
    begin = (sectors + 1) * 512 + offset
    payload = image[begin:begin + length]
    if len(payload) != length or length < 8:
        raise Malformed("it is shorter than its header says")
    (size,) = struct.unpack_from("<I", payload, length - 4)  # of the unpacked kernel
    for magic, unpacker in PACKERS:
        if payload.startswith(magic):
            try:
                kernel = unpacker(payload[:-4])
            except (IndexError, ValueError, EOFError, zlib.error, lzma.LZMAError, OSError, struct.error) as error:
                raise Malformed(f"it cannot be unpacked: {error}") from error
            if len(kernel) != size or kernel[:4] != b"\x7fELF":
                raise Malformed("what is packed in it is not what its header says")
            return kernel
    raise Malformed(f"it is packed in a way that is not known here ({payload[:4].hex()})")


if __name__ == "__main__":
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    try:
        pathlib.Path(sys.argv[2]).write_bytes(unpack(pathlib.Path(sys.argv[1]).read_bytes()))
    except Malformed as reason:
        sys.exit(f"unpack_kernel: {sys.argv[1]}: {reason}")
