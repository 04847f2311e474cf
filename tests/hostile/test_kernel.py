# SPDX-License-Identifier: Apache-2.0
"""P10 to P21: the kernel's surface as seen from inside."""
import concurrent.futures
import hashlib
import pathlib
import re
import unittest

from hostile import AS_USER, CANARY_ENV, GVISOR, NESTED, RUNTIME, HostileTest, harness

EPERM, ENOSYS = 1, 38
# What a node as root keeps, as src/node/privileges.cc lists; capabilities(7), linux/capability.h.
NODE_CAPABILITIES = {"chown": 0, "dac_override": 1, "dac_read_search": 2, "kill": 5, "setgid": 6, "setuid": 7, "setpcap": 8,
                     "net_bind_service": 10, "net_admin": 12, "sys_chroot": 18, "sys_ptrace": 19, "sys_admin": 21, "mknod": 27,
                     "setfcap": 31}


class Kernel(HostileTest):
    def test_p10_the_parts_of_the_node(self):
        """The node, which parses the frames of all this, and the spawners that it started: /proc/PID/status."""
        kept = sum(1 << number for number in NODE_CAPABILITIES.values())
        if not harness.ROOT or AS_USER:
            kept = 0
        node = self.server.pid_of("cloister-node")
        spawners = [pid for pid in harness.children(node) if harness.program_of(pid) == "cloister-spawner"]
        self.assertTrue(spawners)
        for pid in (node, *spawners):
            name = harness.program_of(pid)
            lines = pathlib.Path(f"/proc/{pid}/status").read_text().splitlines()
            status = dict(line.split(":\t", 1) for line in lines if ":\t" in line)
            self.assertEqual((status["NoNewPrivs"], status["Seccomp"]), ("1", "2"), name)
            if pid != node and not kept:
                continue  # an ordinary user's spawner has capabilities over the user namespace that it made
            wanted = {"CapPrm": kept, "CapEff": kept, "CapInh": 0, "CapAmb": 0, **({"CapBnd": kept} if kept else {})}
            for field, value in wanted.items():
                self.assertEqual(int(status[field], 16), value, f"{field} of {name}")

    def test_p10_identity(self):
        result = self.run_code("bash", "cat /proc/self/status; echo; cat /proc/self/uid_map; "
                                       "cat /proc/1/comm; id -u; cat /proc/self/gid_map")
        status = dict(line.split(":\t", 1) for line in result["stdout"].splitlines() if ":\t" in line)
        for name in ("CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb"):
            if name in status or not GVISOR:  # gVisor does not report all
                self.assertEqual(int(status[name], 16), 0, name)
        self.assertEqual(status["Seccomp"], "2")
        self.assertEqual(status["Groups"].strip(), "")
        self.assertIn("\ncloister-runner\n", result["stdout"])
        if GVISOR:
            return  # gVisor does not show no_new_privs
        self.assertEqual(status["NoNewPrivs"], "1")
        if RUNTIME != "process":
            return  # a kernel of its own knows no id of the host
        inside, host, count = next(line.split() for line in result["stdout"].splitlines()
                                   if re.fullmatch(r"\s*\d+\s+\d+\s+\d+", line))
        self.assertEqual(inside, "1000")
        self.assertLess(int(count), 65537)
        if not AS_USER:
            self.assertGreater(int(host), 65535)

    def test_p10_no_two_sandboxes_share_a_host_uid(self):
        if AS_USER:
            self.skipTest("an ordinary user has one host uid for all sandboxes (weakened says so)")
        if RUNTIME != "process":
            self.skipTest("a kernel of its own shows no id of the host inside")
        code = "cat /proc/self/uid_map; sleep 1"
        with concurrent.futures.ThreadPoolExecutor(2) as pool:
            first, second = pool.map(lambda _: self.run_code("bash", code), range(2))
        self.assertNotEqual(first["stdout"], second["stdout"])

    def test_p11_setuid(self):
        result = self.run_program("p11_setuid")
        self.assertIn("again uid 1000 euid 1000", result["stdout"])
        self.assertIn("end uid 1000 euid 1000", result["stdout"])
        self.assertNotIn("-> worked", result["stdout"])
        for call in ("setuid0", "setreuid0", "chown", "filecaps"):
            self.assertNotIn(f"{call} 0\n", result["stdout"])

    def test_p12_p13_p14_p19_system_calls(self):
        result = self.run_program("p12_syscalls")
        # Devices of the guest kernel's own; calls to use them are refused.
        errnos = self.assertRefused(result, ("P19 /dev/fuse", "P19 /dev/net/tun") if GVISOR else ())
        self.assertGreater(len(errnos), 90)
        for what, errno in errnos.items():
            if what.startswith(("P12 unshare", "P12 clone", "P14 bpf", "P14 io_uring", "P14 keyctl",
                                "P14 userfaultfd", "P14 perf", "P13 mount", "P13 fs", "P13 open_tree")):
                self.assertIn(errno, (EPERM, ENOSYS), what)

    def test_p15_foreign_abi(self):
        result = self.run_program("p15_foreign_abi")
        self.assertTrue(result["stdout"].endswith("end\n"))
        for line in result["stdout"].splitlines()[:-1]:
            abi, name, *outcome = line.split()
            self.assertTrue(outcome[0] == "killed" or int(outcome[0]) < 0, line)

    def test_p16_tty_injection(self):
        result = self.run_program("p16_tty")
        for line in result["stdout"].splitlines():
            if line != "own 0" or not GVISOR:  # gVisor opens no terminal's other end by number
                self.assertNotEqual(line.rsplit(" ", 1)[1], "0", line)

    def test_p17_cgroup_escape(self):
        code = r'''
cat /proc/self/cgroup
find / -xdev \( -name release_agent -o -name notify_on_release -o -name cgroup.procs -o -name "memory.max" \) 2>/dev/null
ls /sys/fs/cgroup 2>&1 | head -3
mkdir /sys/fs/cgroup/x 2>/dev/null && echo made
echo $$ > /sys/fs/cgroup/cgroup.procs 2>/dev/null && echo moved
echo end'''
        result = self.run_code("bash", code)
        self.assertNotIn("made", result["stdout"])
        self.assertNotIn("moved", result["stdout"])
        for name in ("release_agent", "notify_on_release", "cgroup.procs", "memory.max"):
            self.assertNotIn(name, result["stdout"])
        for line in result["stdout"].splitlines():
            if re.match(r"\d+:", line):
                self.assertEqual(line.rsplit(":", 1)[1], "/", "the cgroup path shows the host's: " + line)

    def test_p18_proc_and_sys(self):
        code = r'''
import os
for name in ["kallsyms","kcore","keys","key-users","sched_debug","timer_list","kmsg","modules","slabinfo",
             "vmallocinfo","iomem","ioports","interrupts","cmdline","config.gz","partitions","diskstats",
             "sysrq-trigger","sys/kernel/core_pattern","sys/kernel/modprobe","sys/kernel/hostname",
             "sys/kernel/kptr_restrict","sys/vm/overcommit_memory","sys/fs/binfmt_misc/register","bus","irq","driver","fs"]:
    path = "/proc/" + name
    try:
        data = open(path, "rb").read(64) if not os.path.isdir(path) else str(os.listdir(path)).encode()
        read = "read" if data.strip(b"[]") else "empty"
    except OSError as e: read = type(e).__name__
    try:
        fd = os.open(path, os.O_WRONLY); wrote = "writable"; os.close(fd)
    except OSError as e: wrote = "no"
    print("proc", name, read, wrote)
for path in ["/sys/firmware","/sys/kernel/debug","/sys/kernel/security","/sys/fs","/boot","/root","/home","/var","/run","/etc/shadow"]:
    try: print("path", path, "list", *os.listdir(path))
    except OSError as e: print("path", path, type(e).__name__)
for line in open("/proc/self/mountinfo"): print("mount", line.strip())
print("pids", sorted(int(p) for p in os.listdir("/proc") if p.isdigit()))
'''
        result = self.run_code("python", code)
        lines = result["stdout"].splitlines()
        # Files in /run from the making of the sandbox; in gVisor also those of its runner and its filter.
        in_run = {"process": {"masked", "ahead", "deps", "secrets"},
                  "gvisor": {"cloister-runner", "filter", "ahead", "secrets"},
                  "microvm": set()}
        in_run["gvisor"] |= {"cloister-guest"} if NESTED else set()
        ours = {"/var": {"tmp"}, "/home": {"user"}, "/run": in_run[RUNTIME]}
        for line in lines:
            if line.startswith("proc "):
                _, name, read, wrote = line.split()
                self.assertEqual(wrote, "no", line)
                if not name.startswith("sys/") and (name != "cmdline" or not GVISOR):  # its own
                    self.assertNotEqual(read, "read", line)
            elif line.startswith("path "):
                _, path, found, *names = line.split()
                if path != "/sys/fs" or not GVISOR:  # its own, empty
                    self.assertRegex(found, r"(Error|list)$", line)
                    self.assertLessEqual(set(names), ours.get(path, set()), line)
            elif line.startswith("mount "):
                for secret in (self.server.state, harness.REPO, "/build/", "/root", "/tmp/"):
                    self.assertNotIn(str(secret), line)
        pids = eval(next(line for line in lines if line.startswith("pids ")).removeprefix("pids "))
        self.assertLessEqual(max(pids), 10)

    def test_p20_leaked_descriptors(self):
        code = (r'for f in /proc/self/fd/*; do echo "$f $(readlink $f)"; done; '
                r'for n in $(seq 3 255); do cd /proc/self/fd/$n 2>/dev/null && echo "entered $n $(pwd -P)"; done; echo end')
        result = self.run_code("bash", code)
        # The shell opens the listed files itself; only 0, 1 and 2 come from outside.
        inherited = self.run_code("python", "import os\n"
                                            "def link(n):\n"
                                            "  try: return os.readlink(f'/proc/self/fd/{n}')\n"
                                            "  except OSError: return None\n"
                                            "print({n: link(n) for n in range(256) if link(n)})")
        for fd, target in eval(inherited["stdout"]).items():
            if int(fd) > 2:
                self.assertRegex(target, r"^/workspace|^/proc/|^/usr|^/dev/null", f"{fd} {target}")
            self.assertNotRegex(target, r"cgroup|\.sock|/state|ledger", f"{fd} {target}")
        for line in result["stdout"].splitlines():
            if line.startswith("entered"):
                self.assertRegex(line.split()[2], r"^/(workspace|proc|usr)", line)

    def test_p21_runner(self):
        runner = harness.BIN / "cloister-runner"
        before = hashlib.sha256(runner.read_bytes()).hexdigest()
        result = self.run_program("p21_runner")
        if GVISOR:  # in gVisor a program may end its runner, and so its run
            self.assertEnded(result, "failed", "RUNNER_LOST")
        else:
            self.assertRefused(result)
            self.assertEnded(result, "completed")
        self.assertEqual(hashlib.sha256(runner.read_bytes()).hexdigest(), before)

    def test_p21_shebang_preload_and_environment(self):
        code = r'''
import os, subprocess
open("x", "w").write("#!/proc/self/exe\n"); os.chmod("x", 0o755)
try: print("shebang", subprocess.run(["./x"], timeout=5).returncode)
except (OSError, subprocess.TimeoutExpired) as e: print("shebang", type(e).__name__)
found = []
for pid in os.listdir("/proc"):
    if pid.isdigit():
        for name in ("environ", "cmdline", "maps"):
            try: found.append(open(f"/proc/{pid}/{name}", "rb").read())
            except OSError: pass
print("canary", any(b"CANARY_ENV" in data for data in found), "CANARY_ENV" in os.environ)
'''
        result = self.run_code("python", code, env={"LD_PRELOAD": "/workspace/evil.so"})
        self.assertIn("canary False False", result["stdout"])
        self.assertNotIn(CANARY_ENV, result["stdout"])


if __name__ == "__main__":
    unittest.main()
