# SPDX-License-Identifier: Apache-2.0
"""For tests of virtual machines with KVM: whether KVM can be tried, and an image with a kernel of our own
(tests/microvm/kernel.c), which also boots on a KVM that runs no Linux."""

import fcntl
import hashlib
import os
import pathlib
import shutil
import subprocess

from processes import program_of

QEMU = "/usr/bin/qemu-system-x86_64"
SOURCE = pathlib.Path(__file__).parents[1] / "microvm" / "kernel.c"
COMPILER = "clang-19"
FLAGS = ["-m32", "-fuse-ld=lld", "-O1", "-ffreestanding", "-fno-pic", "-fno-stack-protector", "-fcf-protection=none",
         "-mno-sse", "-mno-mmx", "-mno-80387", "-nostdlib", "-static", "-Wall", "-Wextra", "-Werror",
         "-Wl,-Ttext=0x100000", "-Wl,--build-id=none", "-Wl,-e,entry"]
KVM_CREATE_VM = 0xae01


def lacks():
    """The reason why QEMU can make no machine with KVM here; "" if nothing is known against it."""
    return lacks_device() if os.path.exists(QEMU) else f"no {QEMU}"


def lacks_device():
    """The same, of any VMM."""
    try:
        with open("/dev/kvm", "r+b", buffering=0) as device:
            os.close(fcntl.ioctl(device, KVM_CREATE_VM, 0))
    except OSError as error:
        return f"no KVM: {error}"
    return ""


def compile_kernel(source, target):
    subprocess.run([COMPILER, *FLAGS, "-o", target, source], check=True)


def make_image(directory):
    """An image with our kernel. Its root is a dummy, which the kernel never reads."""
    compile_kernel(SOURCE, directory / "vmlinuz")
    (directory / "modules.cpio").write_bytes(b"")
    (directory / "root.squashfs").write_bytes(b"no root: " + os.urandom(8))
    return directory


def lacks_compiler():
    """The reason why our kernel cannot be built; the linker is the compiler's own."""
    if not shutil.which(COMPILER):
        return f"no {COMPILER}"
    linker = subprocess.run([COMPILER, "-print-prog-name=ld.lld"], check=True, capture_output=True, text=True).stdout.strip()
    return "" if shutil.which(linker) else f"{COMPILER} finds no ld.lld"


def answer_file(image):
    """The file in which root's node keeps its findings about KVM with this image (prove_kvm.h)."""
    name = hashlib.sha256(f"{QEMU}\n{image}".encode()).hexdigest()[:16]
    return pathlib.Path("/var/cache/cloister") / f"kvm-{name}"


def finding(server):
    """The finding of `cloister doctor` about the runtime."""
    lines = server.cli("doctor").stdout.splitlines()
    return next(line for line in lines if line.split()[1:2] == ["microvm"])


def config(image, **settings):
    lines = [f"  {key}: {value}\n" for key, value in settings.items()]
    return f"microvm:\n  image: {image}\n" + "".join(lines)


def machines(server):
    """The pids of the virtual machines of this server's sandboxes."""
    return {pid for pid in server.pids() if program_of(pid) == os.path.basename(QEMU)}
