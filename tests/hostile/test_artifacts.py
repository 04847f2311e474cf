# SPDX-License-Identifier: Apache-2.0
"""P23 to P26 and P29: false artifacts that a program leaves in its workspace to be collected."""
import json
import unittest

from hostile import HostileTest, harness

# Names that must break nothing, each percent-encoded in its own path below.
NAMES = ("new\nline", "\x1b]52;c;cm0gLXJm\x07", "\u202egpj.exe", 'quo"te', "semi;colon=1", "back\\slash",
         "per%0d%0aInjected: 1", "<script>", " ", "-rf")


class Artifacts(HostileTest):
    def collect(self, code, **request):
        return self.run_code("python", code, **{"artifacts": ["**"], "timeout_seconds": 60, **request})

    def content(self, artifact):
        answer = self.server.request("GET", f"/v1/artifacts/{artifact['id']}/content")
        self.assertEqual(answer.status, 200, answer.body[:500])
        self.assertNotIn(self.canaries.secret.encode(), answer.body)
        return answer

    def test_p23_p24_links_are_not_followed(self):
        canary = str(self.canaries.file)
        result = self.collect(f"""
import os
for n, target in enumerate(({canary!r}, "/proc/1/root" + {canary!r}, "/etc/passwd", "/proc/self/exe", "kept", "loop-5")):
    os.symlink(target, f"loop-{{n}}")
for n, target in enumerate(("/", "/proc/1/root", "/proc/self/cwd", ".", "..")):
    os.symlink(target, f"folder-{{n}}")
for n, target in enumerate(({canary!r}, "/etc/passwd", "/bin/sh", "/proc/self/environ")):
    try: os.link(target, f"hard-{{n}}")
    except OSError as e: print(e.errno)
open("kept", "w").write("mine"); os.link("kept", "twice")
""")
        self.assertEqual({a["path"] for a in result["artifacts"]}, {"kept", "twice"}, result["stdout"])
        self.assertEqual(len(result["stdout"].split()), 4, "a hard link to a file that is not its own")
        for artifact in result["artifacts"]:
            self.assertEqual(self.content(artifact).body, b"mine")

    def test_p25_a_daemon_that_swaps_while_files_are_collected(self):
        result = self.collect("""
import ctypes, os
libc = ctypes.CDLL(None, use_errno=True)
os.mkdir("/tmp/out"); open("/tmp/out/CANARY", "w").write("theirs")
os.mkdir("d"); open("d/CANARY", "w").write("mine"); os.symlink("/tmp/out", "e")
open("f", "w").write("mine"); os.symlink("/tmp/out/CANARY", "g")
for n in range(2000): open(f"many-{n}", "w").close()
ready, done = os.pipe()
if os.fork() == 0:
    os.setsid()
    if os.fork(): os._exit(0)
    for n in range(3): os.close(n)
    while True:
        for a, b in ((b"d", b"e"), (b"f", b"g")):
            libc.syscall(316, -100, a, -100, b, 2)  # renameat2, RENAME_EXCHANGE
        os.write(done, b".")
os.close(done)
os.read(ready, 1)
""")
        self.assertEqual(result["status"], "completed")
        self.assertGreaterEqual(len(result["artifacts"]), 1)
        for artifact in result["artifacts"]:
            if not artifact["path"].startswith("many-"):
                self.assertEqual(self.content(artifact).body, b"mine", artifact)

    def test_p26_what_is_no_file_is_left_out(self):
        result = self.collect("""
import os, socket, stat
os.mkfifo("fifo"); s = socket.socket(socket.AF_UNIX); s.bind("socket")
for mode in (stat.S_IFCHR, stat.S_IFBLK):
    try: os.mknod("device", mode | 0o666, os.makedev(1, 5)); print("made a device")
    except PermissionError: pass
open("secret", "w").write("x"); os.chmod("secret", 0)
open("set-id", "w").write("x"); os.chmod("set-id", 0o6777)
os.mkdir("closed"); open("closed/in", "w").write("x"); os.chmod("closed", 0)
open("sparse", "w").truncate(64 << 20)
open("kept", "w").write("x")
""")
        self.assertEqual((result["status"], result["stdout"]), ("completed", ""))
        paths = {a["path"] for a in result["artifacts"]}
        self.assertLessEqual(paths, {"secret", "set-id", "closed/in", "sparse", "kept"})
        self.assertIn("kept", paths)
        for artifact in result["artifacts"]:
            self.assertEqual(len(self.content(artifact).body), artifact["size"])

    def test_p29_names_that_break_lines_headers_and_terminals(self):
        result = self.collect(f"""
for name in {NAMES!r}:
    open(name, "w").write(name)
open(b"\\xff\\xfe", "wb").write(b"not text")
open("n" * 255, "w").close()
""")
        self.assertEqual(result["status"], "completed", result["stderr"])
        self.assertEqual(len(result["artifacts"]), len(NAMES) + 2)
        plain = json.dumps(result["artifacts"], ensure_ascii=False)
        self.assertFalse([c for c in plain if ord(c) < 32 or 0x7f <= ord(c) < 0xa0 or 0x202a <= ord(c) <= 0x202e], plain)
        for artifact in result["artifacts"]:
            answer = self.content(artifact)
            disposition = answer.headers["content-disposition"]
            self.assertRegex(disposition, r"^attachment; filename\*=UTF-8''[A-Za-z0-9!#$&+.^_`|~%-]*$")
            self.assertNotIn("injected", answer.headers)

    def test_p29_a_hundred_thousand_files_are_cut_and_said_to_be(self):
        daemon = self.server.pid_of("cloisterd")
        before = harness.memory_of(daemon)
        result = self.collect("for n in range(100_000): open(f'f{n}', 'w').write('x')",
                              memory_mb=1024, inodes=200_000)
        self.assertEqual((result["status"], result["exit_code"]), ("completed", 0), result["stderr"])
        self.assertEqual((result["error"]["type"], result["error"]["details"]["limit"]),
                         ("RESOURCE_LIMIT_EXCEEDED", "artifacts"))
        self.assertEqual(len(result["artifacts"]), result["error"]["details"]["value"])
        self.assertLess(harness.memory_of(daemon) - before, 128 << 20)


if __name__ == "__main__":
    unittest.main()
