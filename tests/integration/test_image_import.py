#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""`cloister image`: container images become root file systems of the store, and hostile ones do not."""

import contextlib
import fcntl
import gzip
import hashlib
import io
import json
import os
import pathlib
import platform
import shutil
import signal
import stat
import subprocess
import tarfile
import tempfile
import unittest

import harness
import inert
import machine

MACHINE = {"x86_64": "amd64", "aarch64": "arm64"}[platform.machine()]
MOUNTED = {"dev", "proc", "run", "tmp", "workspace"}


def digest_of(data):
    return "sha256:" + hashlib.sha256(data).hexdigest()


def tar(*members):
    """A tar of (name, content): bytes for a file, None for a directory, text for a link's target."""
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w") as archive:
        for name, what, *mode in members:
            info = tarfile.TarInfo(name)
            info.mode = mode[0] if mode else 0o755
            info.uid = info.gid = 4242
            info.mtime = 1_000_000_000
            if what is None:
                info.type = tarfile.DIRTYPE
            elif isinstance(what, str):
                info.type, info.linkname = tarfile.SYMTYPE, what
            else:
                info.size = len(what)
            archive.addfile(info, io.BytesIO(what) if isinstance(what, bytes) else None)
    return out.getvalue()


def oci_layout(directory, *layers, env=()):
    """A directory in OCI layout of these layers, given as tars."""
    blobs = directory / "blobs" / "sha256"
    blobs.mkdir(parents=True)

    def blob(data, kind):
        (blobs / digest_of(data).split(":")[1]).write_bytes(data)
        return {"mediaType": f"application/vnd.oci.image.{kind}", "digest": digest_of(data), "size": len(data)}

    described = [blob(gzip.compress(layer, mtime=0), "layer.v1.tar+gzip") for layer in layers]
    config = blob(json.dumps({
        "os": "linux", "architecture": MACHINE, "config": {"Env": list(env)},
        "rootfs": {"type": "layers", "diff_ids": [digest_of(layer) for layer in layers]}}).encode(), "config.v1+json")
    manifest = blob(json.dumps({"schemaVersion": 2, "config": config, "layers": described}).encode(),
                    "manifest.v1+json")
    (directory / "index.json").write_text(json.dumps({"schemaVersion": 2, "manifests": [manifest]}))
    (directory / "oci-layout").write_text('{"imageLayoutVersion": "1.0.0"}')
    return config["digest"]


def tree_digest(root):
    """The digest defined in linux/tree_digest.h, computed independently."""
    manifest = hashlib.sha256()

    def walk(directory, prefix):
        for name in sorted(os.listdir(directory)):
            status = os.lstat(directory + b"/" + name)
            kind, size, content = "f", status.st_size, b"-"
            if stat.S_ISDIR(status.st_mode):
                kind, size = "d", 0
            elif stat.S_ISLNK(status.st_mode):
                kind = "l"
                content = hashlib.sha256(os.readlink(directory + b"/" + name)).hexdigest().encode()
            else:
                content = hashlib.sha256(pathlib.Path(os.fsdecode(directory + b"/" + name)).read_bytes()) \
                    .hexdigest().encode()
            manifest.update(f"{kind} {stat.S_IMODE(status.st_mode):o} {size} ".encode() + content + b" " +
                            prefix + name + b"\n")
            if kind == "d":
                walk(directory + b"/" + name, prefix + name + b"/")
    walk(os.fsencode(root), b"")
    return "sha256:" + manifest.hexdigest()


REFUSED = (2, 3, 4)  # docs/CLI.md: what is wrong, what may not be, and what is not there


class WithStore(unittest.TestCase):
    def setUp(self):
        self.directory = pathlib.Path(tempfile.mkdtemp(prefix="cloister-test-images."))
        self.addCleanup(shutil.rmtree, self.directory)
        self.store = self.directory / "store"
        self.layout = self.directory / "layout"
        self.user = {}

    def image(self, command, *arguments, status=0):
        done = subprocess.run([harness.BIN / "cloister", "image", command, "--images", self.store, *arguments],
                              capture_output=True, text=True, timeout=harness.ANSWER_SECONDS, **self.user)
        self.assertIn(done.returncode, status if isinstance(status, tuple) else (status,), done.stderr + done.stdout)
        return done

    def imported(self, name, path, *arguments):
        return json.loads(self.image("import", "--json", *arguments, name, path).stdout)

    def root(self, image):
        return self.store / image["digest"].replace(":", "-") / "root"

    def left(self):
        return sorted(p.name for p in self.store.iterdir()) if self.store.exists() else []

    @contextlib.contextmanager
    def in_use(self, image):
        with open_directory(self.root(image).parent) as descriptor:
            fcntl.flock(descriptor, fcntl.LOCK_SH)
            yield


@contextlib.contextmanager
def open_directory(path):
    descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
    try:
        yield descriptor
    finally:
        os.close(descriptor)


class Import(WithStore):
    def two_layers(self):
        return oci_layout(
            self.layout,
            tar(("usr/bin", None), ("usr/bin/tool", b"#!/bin/sh\n", 0o4775), ("bin", "usr/bin"), ("etc/old", b"1"),
                ("opt/a", b"1"), ("opt/b", b"1"), ("tmp/x", b"gone"), ("run", "/etc")),
            tar(("bin/more", b"2"), ("etc/.wh.old", b""), ("opt/.wh..wh..opq", b""), ("opt/c", b"2", 0o600)),
            env=["PATH=/usr/bin", "LANG=C.UTF-8", "no-shell-name=1"])

    def test_layers_make_a_tree(self):
        reference = self.two_layers()
        done = self.image("import", "--json", "app", self.layout)
        self.assertIn("no-shell-name", done.stderr)
        image = json.loads(done.stdout)
        self.assertEqual((image["name"], image["source"], image["reference"]), ("app", "oci", reference))
        self.assertEqual(image["env"], {"PATH": "/usr/bin", "LANG": "C.UTF-8"})
        root = self.root(image)
        self.assertEqual(image["digest"], tree_digest(root))
        self.assertEqual(set(os.listdir(root)), MOUNTED | {"usr", "bin", "etc", "home", "opt"})
        self.assertEqual(sorted(os.listdir(root / "usr/bin")), ["more", "tool"])
        self.assertEqual((os.listdir(root / "etc"), os.listdir(root / "opt")), ([], ["c"]))
        self.assertEqual(os.listdir(root / "home"), ["user"])
        for name in MOUNTED | {"home/user"}:
            self.assertFalse((root / name).is_symlink())
            self.assertEqual(os.listdir(root / name), [])
        tool = (root / "usr/bin/tool").stat()
        self.assertEqual((stat.S_IMODE(tool.st_mode), tool.st_uid, tool.st_gid), (0o755, os.geteuid(), os.getegid()))
        self.assertEqual(tool.st_mtime, 1_000_000_000)
        self.assertEqual(image["squashfs"], (root.parent / "root.squashfs").exists())
        self.assertEqual(image["squashfs"], shutil.which("mksquashfs") is not None)

    def test_the_same_content_has_the_same_digest(self):
        self.two_layers()
        first = self.imported("one", self.layout)
        packed = self.directory / "packed.tar.gz"
        with tarfile.open(packed, "w:gz") as archive:
            archive.add(self.layout, arcname=".")
        second = self.imported("two", packed)
        self.assertEqual(first["digest"], second["digest"])
        self.assertEqual(len([name for name in self.left() if name.startswith("sha256-")]), 1)
        squashfs = self.root(first).parent / "root.squashfs"
        before = squashfs.read_bytes() if first["squashfs"] else b""
        self.image("remove", "one")
        self.image("verify", "two")
        self.image("remove", "two")
        self.assertEqual(self.left(), ["names"])
        again = self.imported("one", packed)
        self.assertEqual(again["digest"], first["digest"])
        self.assertEqual(squashfs.read_bytes() if again["squashfs"] else b"", before)

    def test_a_change_is_found(self):
        self.two_layers()
        image = self.imported("app", self.layout)
        self.assertIn("intact", self.image("verify", "app").stdout)
        (self.root(image) / "usr/bin/tool").write_bytes(b"changed")
        self.assertIn("changed", self.image("verify", "app", status=1).stdout)
        self.imported("app", self.layout, "--replace")
        self.image("verify", "app")

    def test_what_is_in_use_stays(self):
        self.two_layers()
        image = self.imported("app", self.layout)
        other = self.directory / "other.tar"
        other.write_bytes(tar(("bin/sh", b"other")))
        self.assertIn("--replace", self.image("import", "app", other, status=REFUSED).stderr)
        with self.in_use(image):
            self.assertIn("in use by sandboxes", self.image("remove", "app", status=REFUSED).stderr)
            self.assertEqual(self.imported("app", other, "--replace")["name"], "app")
            self.assertTrue((self.root(image) / "usr/bin/tool").exists())
        self.image("remove", "app")
        self.assertEqual(self.left(), ["names"])
        self.assertIn("no image", self.image("remove", "app", status=REFUSED).stderr)

    def test_a_directory(self):
        tree = self.directory / "tree"
        (tree / "bin").mkdir(parents=True)
        (tree / "bin/sh").write_bytes(b"x")
        (tree / "lib").symlink_to("usr/lib")
        (tree / "secret").write_bytes(b"mine alone")
        (tree / "secret").chmod(0o600)
        image = self.imported("plain", tree)
        self.assertEqual((image["source"], image["reference"]), ("directory", None))
        self.assertEqual(image["files"], 12)
        self.assertEqual(image["digest"], tree_digest(self.root(image)))
        self.image("import", "host", tree, status=REFUSED)
        self.image("import", "plain", status=2)

    def test_a_root_of_busybox(self):
        machine.need_program(self, "busybox")
        busybox = shutil.which("busybox")
        tree = self.directory / "tree"
        (tree / "bin").mkdir(parents=True)
        shutil.copy(busybox, tree / "bin/busybox")
        for name in subprocess.run([busybox, "--list"], capture_output=True, text=True).stdout.split():
            if name != "busybox":
                (tree / "bin" / name).symlink_to("busybox")
        root = self.root(self.imported("busybox", tree))
        if not harness.ROOT:
            self.skipTest("to enter it takes root")
        done = subprocess.run(["/usr/sbin/chroot", root, "/bin/sh", "-c", "ls /"], capture_output=True,
                              text=True)
        self.assertEqual(set(done.stdout.split()), MOUNTED | {"bin", "etc", "home"}, done.stderr)

    def test_an_ordinary_user(self):
        if not harness.ROOT:
            self.skipTest("the other tests are an ordinary user's already")
        self.two_layers()
        self.directory.chmod(0o777)
        programs = harness.user_bin()
        if not (programs / "cloister-image").exists():
            shutil.copy2(harness.BIN / "cloister-image", programs)
        done = subprocess.run([programs / "cloister-image", "import", "--json", "--images", self.store, "app",
                               self.layout], capture_output=True, text=True, user=harness.USER_ID,
                              group=harness.USER_ID, extra_groups=[], env={})
        self.assertEqual(done.returncode, 0, done.stderr)
        image = json.loads(done.stdout)
        self.assertEqual((self.root(image) / "usr/bin/tool").stat().st_uid, harness.USER_ID)
        self.assertEqual(self.imported("root", self.layout)["digest"], image["digest"])

    def test_umoci_makes_the_same(self):
        if shutil.which("umoci") is None:
            self.skipTest("umoci is not installed")

        def umoci(*arguments):
            subprocess.run(["umoci", *arguments], check=True, capture_output=True, cwd=self.directory)
        umoci("init", "--layout", "made")
        umoci("new", "--image", "made:app")
        umoci("unpack", "--rootless", "--image", "made:app", "bundle")
        rootfs = self.directory / "bundle/rootfs"
        (rootfs / "usr/bin").mkdir(parents=True)
        (rootfs / "usr/bin/tool").write_bytes(b"1")
        (rootfs / "usr/gone").write_bytes(b"1")
        (rootfs / "bin").symlink_to("usr/bin")
        umoci("repack", "--refresh-bundle", "--image", "made:app", "bundle")
        (rootfs / "usr/gone").unlink()
        (rootfs / "usr/bin/more").write_bytes(b"2")
        umoci("repack", "--image", "made:app", "bundle")
        umoci("gc", "--layout", "made")
        image = self.imported("umoci", self.directory / "made")
        self.assertEqual(image["source"], "oci")
        self.assertEqual(image["digest"], self.imported("plain", rootfs)["digest"])


class Hostile(WithStore):
    def refused(self, data, why, *arguments):
        archive = self.directory / "archive"
        archive.write_bytes(data)
        done = self.image("import", *arguments, "bad", archive, status=REFUSED)
        self.assertIn(why, done.stderr)
        self.assertLessEqual(set(self.left()), {"names"})

    def test_names_that_lead_out(self):
        canary = self.directory / "canary"
        canary.write_bytes(b"alive")
        self.refused(tar(("../canary", b"dead")), "leads out of the image")
        self.refused(tar(("out", str(self.directory)), ("out/canary", b"dead")), "link to nothing")
        self.refused(tar(("a/b", b""), ("a/../../canary", b"dead")), "leads out of the image")
        self.assertEqual(canary.read_bytes(), b"alive")

    def test_bombs_end_at_their_bound(self):
        config = self.directory / "config.yaml"
        config.write_text(inert.configuration("images:\n  max_mb: 2\n  max_files: 50\n", self.directory))
        self.refused(gzip.compress(tar(("zeros", bytes(64 << 20)))), "images.max_mb", "--config", config)
        self.refused(tar(*((f"f{i}", b"") for i in range(51))), "images.max_files", "--config", config)

    def test_what_is_damaged(self):
        oci_layout(self.layout, tar(("a", b"1")))
        for blob in (self.layout / "blobs/sha256").iterdir():
            if not blob.read_bytes().startswith(b"{"):
                blob.write_bytes(gzip.compress(tar(("a", b"2")), mtime=0))
        self.assertIn("layer 1", self.image("import", "bad", self.layout, status=REFUSED).stderr)
        self.refused(b"nothing of the kind", "not a whole archive")
        self.refused(gzip.compress(tar(("a", os.urandom(100_000))))[:5_000], "not a whole archive")
        self.image("import", "bad", self.directory / "absent", status=REFUSED)

    def test_an_interrupted_import_leaves_nothing(self):
        fifo_tree = self.directory / "tree"
        fifo_tree.mkdir()
        with open(fifo_tree / "big", "wb") as big:
            big.truncate(8 << 30)  # a hole, slow to copy
        running = subprocess.Popen([harness.BIN / "cloister-image", "import", "--images", self.store, "big", fifo_tree],
                                   stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
        try:
            harness.wait_for("the import", lambda: list(self.store.glob(".tmp-*/root/big")), seconds=30)
            running.send_signal(signal.SIGTERM)
            self.assertEqual(running.wait(30), 130)
        finally:
            running.kill()
            running.communicate()
        self.assertEqual(self.left(), ["names"])


if __name__ == "__main__":
    unittest.main()
