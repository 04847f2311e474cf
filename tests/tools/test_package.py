# SPDX-License-Identifier: Apache-2.0
"""An installation by `cmake --install` works from its own prefix, and its Debian package is complete."""

import gzip
import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import unittest

REPO = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(REPO / "tests" / "integration"))
import harness  # noqa: E402

PYTHON = "/usr/bin/python3"

PROGRAMS = ("cloister", "cloisterd", "cloister-node", "cloister-egress", "cloister-image", "cloister-spawner", "cloister-runner",
            "cloister-guest", "cloister-walls", "cloister-firecracker", "cloister-krun", "cloister-zygote-python.so")
GRPC = "cloister-grpc"  # of a package of its own
IN_THE_SOURCE = ("CONTRIBUTING.md", "LICENSE", "sdk/", "src/", "tests/")  # targets of links in the documents that the package lacks
LINK = re.compile(r"(?<!!)\[[^\]]*\]\(([^)#\s]+)[^)]*\)")
COMPLETIONS = ("bash-completion/completions/cloister", "zsh/vendor-completions/_cloister",
               "fish/vendor_completions.d/cloister.fish")


class Installed(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = pathlib.Path(cls.enterClassContext(tempfile.TemporaryDirectory(prefix="cloister-package.")))
        cls.folder.chmod(0o755)
        cls.prefix = cls.folder / "prefix"
        cls.install(cls.prefix)

    @classmethod
    def install(cls, prefix, **env):
        subprocess.run(["cmake", "--install", harness.BIN.parent, "--prefix", prefix], check=True,
                       stdout=subprocess.DEVNULL, env={**os.environ, **env})

    def cloister(self, *arguments):
        """The installed command, which knows nothing of the build."""
        env = {"PATH": os.environ["PATH"], "HOME": str(self.folder), "TMPDIR": str(self.folder)}
        return subprocess.run([self.prefix / "bin" / "cloister", *arguments], capture_output=True, text=True, env=env,
                              timeout=120)

    def test_every_program_is_there(self):
        names = sorted(path.name for path in (self.prefix / "lib" / "cloister").iterdir())
        self.assertEqual(names, sorted((*PROGRAMS, GRPC)))
        self.assertEqual(sorted(path.name for path in (self.prefix / "bin").iterdir()), ["cloister", GRPC])
        self.assertEqual(os.readlink(self.prefix / "bin" / "cloister"), "../lib/cloister/cloister")

    def test_the_command_runs_a_program(self):
        done = self.cloister("--state", str(self.folder / "state"), "--json", "run", "-c", "print(6 * 7)")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(json.loads(done.stdout)["stdout"], "42\n")

    def test_data_come_from_the_prefix(self):
        languages = self.prefix / "share" / "cloister" / "languages"
        hidden = languages.rename(languages.with_name("hidden"))
        try:
            done = self.cloister("--state", str(self.folder / "without"), "run", "-c", "print(1)")
        finally:
            hidden.rename(languages)
        self.assertEqual(done.returncode, 125, done.stdout)
        self.assertIn(str(languages), done.stderr)

    def test_the_manual_has_every_command_and_flag(self):
        text = gzip.decompress((self.prefix / "share" / "man" / "man1" / "cloister.1.gz").read_bytes()).decode()
        plain = text.replace("\\-", "-")

        def listed(title, *words):
            lines = self.cloister(*words, "--help").stdout.split(f"{title}:\n")[1].split("\n\n")[0].splitlines()
            return [line.split()[0] for line in lines if line[2] != " "]  # not the rest of a summary

        commands = listed("Commands") + [f"{group} {name}" for group in listed("Groups") for name in listed("Commands", group)]
        self.assertGreater(len(commands), 50)
        for name in commands:
            self.assertIn(f"\n.SS {name}\n", plain)
        for flag in ("-c, --code CODE", "--timeout TIME", "--key-file FILE"):  # of a single command, and of all
            self.assertIn(f"\n.B {flag}\n", plain)

    def test_the_texts_of_grpc(self):
        text = gzip.decompress((self.prefix / "share" / "man" / "man1" / f"{GRPC}.1.gz").read_bytes()).decode().replace("\\-", "-")
        usage = subprocess.run([self.prefix / "bin" / GRPC, "--help"], check=True, capture_output=True, text=True).stdout
        flags = re.findall(r"^  (?:-\w, )?--([a-z-]+)", usage, re.MULTILINE)
        self.assertGreater(len(flags), 10)
        for flag in flags:
            self.assertRegex(text, rf"\n\.B (-\w, )?--{flag}[ \n]")
        for file in COMPLETIONS:
            completion = (self.prefix / "share" / file.replace("cloister", GRPC)).read_text()
            self.assertEqual([flag for flag in flags if flag not in completion], [], file)
        script = f"source {self.prefix}/share/bash-completion/completions/{GRPC}; _cloister_grpc x --max-c x; echo ${{COMPREPLY[@]}}"
        done = subprocess.run(["bash", "-c", script], capture_output=True, text=True)
        self.assertEqual(done.stdout, "--max-calls\n", done.stderr)
        unit = (self.prefix / "lib" / "systemd" / "system" / f"{GRPC}.service").read_text().splitlines()
        self.assertIn(f"ExecStart={self.prefix}/bin/{GRPC} $CLOISTER_GRPC_FLAGS", unit)

    def test_help_leads_to_the_installed_documents(self):
        documents = self.prefix / "share" / "doc" / "cloister"
        general = self.cloister("--help").stdout
        self.assertTrue(general.endswith(f"\nDocumentation:\n  docs/ is in {documents}\n"), general[-200:])
        named = {}
        for line in general.split("Commands:\n")[1].split("\n\n")[0].splitlines():
            name = line.strip().split("  ")[0]
            text = self.cloister(*name.split(), "--help").stdout
            for absent in ("./dev", "deploy/"):  # of a source tree
                self.assertNotIn(absent, text, name)
            files = re.findall(r"\bdocs/[\w/.-]+\.md\b", text)
            self.assertEqual(f"docs/ is in {documents}\n" in text, bool(files), name)
            named.update(dict.fromkeys(files, name))
        self.assertIn("docs/CONFIGURATION.md", named)
        self.assertTrue(os.access(documents / "tools" / "verify_audit.py", os.X_OK), "docs/AUDIT.md names it")
        for file, name in named.items():
            self.assertTrue((documents / file).is_file(), f"{file}, of {name}")

    def test_links_of_the_documents_lead_somewhere(self):
        documents = self.prefix / "share" / "doc" / "cloister"
        pages = [documents / "README.md", *sorted((documents / "docs").glob("**/*.md"))]
        self.assertGreater(len(pages), 60)
        dead = []
        for page in pages:
            for target in LINK.findall(page.read_text()):
                place = os.path.relpath(page.parent / target, documents)
                if re.match(r"[a-z]+:", target) or place.startswith(IN_THE_SOURCE):
                    continue
                if not (documents / place).exists():
                    dead.append(f"{page}: {target}")
        self.assertEqual(dead, [])

    def test_completions_are_those_of_the_command(self):
        for shell, file in zip(("bash", "zsh", "fish"), COMPLETIONS):
            self.assertEqual((self.prefix / "share" / file).read_text(), self.cloister("completion", shell).stdout)

    def test_the_unit_starts_the_installed_command(self):
        unit = (self.prefix / "lib" / "systemd" / "system" / "cloister.service").read_text().splitlines()
        self.assertIn(f"ExecStart={self.prefix}/bin/cloister serve $CLOISTER_FLAGS", unit)
        self.assertIn("CacheDirectory=cloister", unit)
        self.assertTrue((self.prefix / "lib" / "systemd" / "system" / "cloister.socket").is_file())
        self.assertTrue((self.prefix / "lib" / "sysusers.d" / "cloister.conf").is_file())

    def test_a_staged_installation_is_for_its_prefix(self):
        self.install("/usr", DESTDIR=str(self.folder / "stage"))
        stage = self.folder / "stage" / "usr"
        self.assertTrue((stage / "lib" / "cloister" / "cloisterd").is_file())
        unit = (stage / "lib" / "systemd" / "system" / "cloister.service").read_text()
        self.assertEqual(unit, (REPO / "deploy" / "systemd" / "cloister.service").read_text())


class Package(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = pathlib.Path(cls.enterClassContext(tempfile.TemporaryDirectory(prefix="cloister-package.")))
        cls.file, cls.grpc, cls.sdk = cls.make("first")

    @classmethod
    def make(cls, name):
        """The packages of the programs, of gRPC and of the SDK, without compression, which would take longer than all the rest."""
        env = {**os.environ, "DPKG_DEB_COMPRESSOR_TYPE": "none"}
        done = subprocess.run([PYTHON, REPO / "tools" / "package.py", harness.BIN.parent, cls.folder / name], check=True,
                              env=env, capture_output=True, text=True)
        return [pathlib.Path(line) for line in done.stdout.splitlines()]

    def field(self, name, file=None):
        return subprocess.run(["dpkg-deb", "--field", file or self.file, name], check=True, capture_output=True,
                              text=True).stdout.strip()

    def test_what_it_needs(self):
        depends = self.field("Depends").split(", ")
        self.assertIn("python3", depends)
        for library in ("libc6", "libssl3", "libsqlite3-0", "libseccomp2"):
            self.assertTrue(any(word.startswith(f"{library} ") for word in depends), depends)
        self.assertEqual(self.field("Recommends"), "nodejs")

    def test_its_version_sorts_below_the_release(self):
        released = (REPO / "CMakeLists.txt").read_text().split("project(cloister VERSION ")[1].split()[0]
        version = self.field("Version")
        self.assertTrue(version.startswith(released), version)
        if version != released:
            subprocess.run(["dpkg", "--compare-versions", version, "lt", released], check=True)

    def test_what_is_in_it(self):
        unpacked = self.folder / "unpacked"
        subprocess.run(["dpkg-deb", "--raw-extract", self.file, unpacked], check=True)
        for name in PROGRAMS:
            self.assertTrue((unpacked / "usr" / "lib" / "cloister" / name).is_file(), name)
        for name in ("copyright", "changelog.gz", "changelog.Debian.gz"):
            self.assertTrue((unpacked / "usr" / "share" / "doc" / "cloister" / name).is_file(), name)
        default = (unpacked / "etc" / "default" / "cloister").read_text()
        self.assertEqual([line for line in default.splitlines() if line and not line.startswith("#")], [])
        self.assertIn('\n#CLOISTER_FLAGS="--config /etc/cloister.yaml"\n', default)
        self.assertEqual((unpacked / "DEBIAN" / "conffiles").read_text(), "/etc/default/cloister\n")
        example = re.search(r"(/usr/share/doc/\S+\.yaml)", default)[1]
        self.assertEqual((unpacked / example[1:]).read_text(), (REPO / "deploy" / "cloister.yaml").read_text())
        for script in ("postinst", "prerm"):
            self.assertTrue(os.access(unpacked / "DEBIAN" / script, os.X_OK), script)
        subprocess.run(["md5sum", "--quiet", "--check", "DEBIAN/md5sums"], cwd=unpacked, check=True)
        debug = subprocess.run(["readelf", "--sections", unpacked / "usr" / "lib" / "cloister" / "cloisterd"], check=True,
                               capture_output=True, text=True).stdout
        self.assertNotIn(".debug_line", debug)

    def test_the_same_programs_give_the_same_package(self):
        self.assertEqual([path.read_bytes() for path in self.make("second")], 
                         [path.read_bytes() for path in (self.file, self.grpc, self.sdk)])

    def test_grpc_is_apart(self):
        """Its libraries take 20 MB, and most machines need none of them."""
        self.assertFalse(any(word.startswith("libgrpc") for word in self.field("Depends").split(", ")))
        depends = self.field("Depends", self.grpc).split(", ")
        for library in ("libgrpc++1.51", "libprotobuf32", "libssl3"):
            self.assertTrue(any(word.startswith(library) for word in depends), depends)
        self.assertEqual((self.field("Package", self.grpc), self.field("Version", self.grpc)), (GRPC, self.field("Version")))
        unpacked = self.folder / "unpacked-grpc"
        subprocess.run(["dpkg-deb", "--raw-extract", self.grpc, unpacked], check=True)
        subprocess.run(["md5sum", "--quiet", "--check", "DEBIAN/md5sums"], cwd=unpacked, check=True)
        of_programs = subprocess.run(["dpkg-deb", "--contents", self.file], check=True, capture_output=True, text=True).stdout
        self.assertNotIn(f"bin/{GRPC}", of_programs)
        for file in (f"lib/cloister/{GRPC}", f"bin/{GRPC}", f"lib/systemd/system/{GRPC}.service", f"share/man/man1/{GRPC}.1.gz",
                     f"share/doc/{GRPC}/proto/cloister/v1/executions.proto", f"share/doc/{GRPC}/grpc.md"):
            self.assertTrue((unpacked / "usr" / file).is_file(), file)
        for script in ("postinst", "prerm"):
            self.assertTrue(os.access(unpacked / "DEBIAN" / script, os.X_OK), script)

    def test_the_sdk_for_python(self):
        self.assertEqual((self.field("Package", self.sdk), self.field("Architecture", self.sdk), self.field("Depends", self.sdk)),
                         ("python3-cloister", "all", "python3 (>= 3.9)"))
        self.assertEqual(self.field("Version", self.sdk), self.field("Version"))
        unpacked = self.folder / "unpacked-sdk"
        subprocess.run(["dpkg-deb", "--raw-extract", self.sdk, unpacked], check=True)
        subprocess.run(["md5sum", "--quiet", "--check", "DEBIAN/md5sums"], cwd=unpacked, check=True)
        done = subprocess.run([PYTHON, "-B", "-c", "import cloister; print(cloister.__file__, cloister.Sandbox.__name__)"], check=True,
                              env={"PYTHONPATH": str(unpacked / "usr/lib/python3/dist-packages")}, capture_output=True, text=True)
        self.assertEqual(done.stdout, f"{unpacked}/usr/lib/python3/dist-packages/cloister/__init__.py Sandbox\n")
        self.assertTrue((unpacked / "usr/lib/python3/dist-packages/cloister/py.typed").is_file())
        for script in ("postinst", "prerm"):
            self.assertTrue(os.access(unpacked / "DEBIAN" / script, os.X_OK), script)


if __name__ == "__main__":
    unittest.main()
