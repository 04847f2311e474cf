# SPDX-License-Identifier: Apache-2.0
"""The container image of the service: complete, an OCI archive, and running with the rights of deploy/compose.yaml as well as
with an engine's default rights."""

import hashlib
import json
import os
import pathlib
import shutil
import subprocess
import sys
import tarfile
import tempfile
import unittest

import yaml

REPO = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(REPO / "tests" / "integration"))
import harness  # noqa: E402
import sbom_schema  # noqa: E402
import test_container  # noqa: E402

PYTHON = "/usr/bin/python3"
# Makes the tree $1 the root, as container engines do, and runs the rest there.
ENTER = """
tree=$1; shift
mount --bind "$tree" "$tree" && cd "$tree"
mount -t proc proc proc
mount --rbind /dev dev
[ "$1" = covered ] && for name in kcore keys timer_list; do [ -e "proc/$name" ] || continue; mount --bind /dev/null proc/$name; done
[ "$1" = covered ] && mount --bind proc/sys proc/sys && mount -o remount,bind,ro proc/sys
shift
mkdir -p old && pivot_root . old && umount -l old
exec "$@"
"""


class Image(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = pathlib.Path(cls.enterClassContext(tempfile.TemporaryDirectory(prefix="cloister-image.")))
        cls.folder.chmod(0o755)
        env = {**os.environ, "DPKG_DEB_COMPRESSOR_TYPE": "none"}
        made = subprocess.run([PYTHON, REPO / "tools" / "package.py", harness.BIN.parent, cls.folder / "package"], check=True, env=env,
                              capture_output=True, text=True).stdout.splitlines()
        done = subprocess.run([PYTHON, REPO / "tools" / "package_oci.py", made[0], cls.folder], capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
        cls.version = subprocess.run(["dpkg-deb", "--field", made[0], "Version"], check=True, capture_output=True, text=True).stdout.strip()
        shutil.rmtree(cls.folder / "package")
        cls.archive = pathlib.Path(done.stdout.strip())
        cls.blobs = cls.folder / "layout"
        with tarfile.open(cls.archive) as archive:
            archive.extractall(cls.blobs)
        cls.tree = cls.folder / "tree"
        cls.tree.mkdir()
        subprocess.run(["tar", "-C", cls.tree, "-xpf", cls.blob(cls.manifest()["layers"][0])], check=True)

    @classmethod
    def blob(cls, descriptor):
        return cls.blobs / "blobs" / descriptor["digest"].replace(":", "/")

    @classmethod
    def manifest(cls):
        index = json.loads((cls.blobs / "index.json").read_text())
        return json.loads(cls.blob(index["manifests"][0]).read_text())

    def config(self):
        return json.loads(self.blob(self.manifest()["config"]).read_text())

    def test_the_layout(self):
        for file in (self.blobs / "blobs" / "sha256").iterdir():
            self.assertEqual(hashlib.sha256(file.read_bytes()).hexdigest(), file.name)
        self.assertEqual(json.loads((self.blobs / "oci-layout").read_text()), {"imageLayoutVersion": "1.0.0"})
        index = json.loads((self.blobs / "index.json").read_text())
        compose = yaml.safe_load((REPO / "deploy" / "compose.yaml").read_text())
        self.assertEqual(index["manifests"][0]["annotations"]["org.opencontainers.image.ref.name"], compose["services"]["cloister"]["image"])

    def test_the_configuration(self):
        config = self.config()["config"]
        self.assertEqual(config["Entrypoint"], ["/usr/bin/cloister"])
        self.assertEqual(config["Labels"]["org.opencontainers.image.version"], self.version)
        self.assertEqual(config["ExposedPorts"], {"8750/tcp": {}})
        self.assertIn("/var/lib/cloister", config["Volumes"])

    def test_the_tree(self):
        self.assertIn("cloister:x:64750:", (self.tree / "etc" / "passwd").read_text())
        self.assertTrue((self.tree / "etc" / "default" / "cloister").is_file())
        self.assertEqual(os.readlink(self.tree / "lib"), "usr/lib")
        self.assertEqual((self.tree / "tmp").stat().st_mode & 0o7777, 0o1777)
        found = subprocess.run(["find", self.tree, "-perm", "/6000"], check=True, capture_output=True, text=True).stdout
        self.assertEqual(found, "", "no program of the image changes its user")

    def test_the_bill_of_materials(self):
        text = self.archive.with_suffix(".cdx.json").read_text()
        self.assertIsNone(sbom_schema.validate(text))
        bill = json.loads(text)
        packages = [each["name"] for each in bill["components"] if "purl" in each]
        self.assertEqual(packages, self.config()["config"]["Labels"]["debian.packages"].split())
        programs = {each["evidence"]["occurrences"][0]["location"]: each for each in bill["components"] if "purl" not in each}
        files = {f"/{path.relative_to(self.tree)}": path for path in (
            *(self.tree / "usr/lib/cloister").iterdir(),
            *(path for path in self.tree.rglob("*.py") if path.is_relative_to(self.tree / "usr/share") and "cloister" in path.parts))}
        self.assertEqual(programs.keys(), files.keys())
        for place in ("lib/cloister/cloisterd", "share/cloister/languages/tools/mcp_bridge.py", "share/doc/cloister/tools/verify_audit.py"):
            self.assertIn(f"/usr/{place}", files)
        for place, path in files.items():
            self.assertEqual(programs[place]["hashes"], [{"alg": "SHA-256", "content": hashlib.sha256(path.read_bytes()).hexdigest()}])
            self.assertEqual(programs[place]["version"], self.version)
        self.assertEqual(bill["metadata"]["component"]["version"], json.loads((self.blobs / "index.json").read_text())["manifests"][0]["digest"])

    def test_each_program_is_in_the_bill(self):
        """A file with machine code is of a package of the bill, or a program of the bill."""
        bill = json.loads(self.archive.with_suffix(".cdx.json").read_text())
        packages = [each["name"] for each in bill["components"] if "purl" in each]
        listed = subprocess.run(["dpkg-query", "-L", *packages], check=True, capture_output=True, text=True).stdout.split("\n")
        known = {each["bom-ref"] for each in bill["components"]} | {os.path.realpath(path) for path in listed}
        for folder, _, names in os.walk(self.tree):
            for path in (pathlib.Path(folder) / name for name in names):
                if path.is_symlink() or not path.is_file():
                    continue
                with open(path, "rb") as file:
                    if file.read(4) == b"\x7fELF":
                        self.assertIn(f"/{path.relative_to(self.tree)}", known)

    def inside(self, capabilities, covered, *command):
        """A command of the image, in a container with these rights."""
        kept = ",".join(["-all", *(f"+{name}" for name in capabilities)])
        before = ["unshare", "--mount", "--pid", "--ipc", "--uts", "--fork", "sh", "-ec", ENTER, "sh", self.tree,
                  "covered" if covered else "open"]
        setpriv = ["/usr/bin/setpriv", "--bounding-set", kept, "--inh-caps", "-all"]
        done = subprocess.run([str(word) for word in (*before, *setpriv, *self.config()["config"]["Entrypoint"], *command)],
                              env={"PATH": "/usr/sbin:/usr/bin:/sbin:/bin"}, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=120)
        self.assertEqual(done.returncode, 0, f"{command}:\n{done.stdout}{done.stderr}")
        return done.stdout

    @unittest.skipUnless(harness.ROOT, "needs root: it makes containers")
    def test_runs_with_both_rights_and_tells_the_difference(self):
        # These are of this machine, at the same paths; the image has no use for them.
        for program in ("setpriv", "umount"):
            shutil.copyfile(f"/usr/bin/{program}", self.tree / "usr" / "bin" / program)
            (self.tree / "usr" / "bin" / program).chmod(0o755)
            subprocess.run(f"ldd /usr/bin/{program} | grep -o '/[^ ]*' | xargs -I{{}} cp -n -L {{}} {self.tree}/usr/lib/x86_64-linux-gnu/",
                           shell=True, check=True)
        weakened = {}
        for name, capabilities, covered in (("documented", test_container.COMPOSE, False), ("default", test_container.DEFAULT, True)):
            result = json.loads(self.inside(capabilities, covered, "run", "--json", "-c", "print(6 * 7)"))
            self.assertEqual(result["stdout"], "42\n")
            weakened[name] = result["provenance"]["weakened"]
            report = json.loads(self.inside(capabilities, covered, "doctor", "--json"))
            self.assertTrue(report["usable"])
            self.assertLessEqual(set(report["weakened"]), set(weakened[name]))
        more = set(weakened["default"]) - set(weakened["documented"])
        self.assertTrue([line for line in more if line.startswith(test_container.NO_PROC)], weakened)


if __name__ == "__main__":
    unittest.main()
