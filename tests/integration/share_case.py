# SPDX-License-Identifier: Apache-2.0
"""A sandbox's view of its machine, by each way that programs ask: the view must be the sandbox's share."""

import json
import os

PYTHON = """
import json, os, re, subprocess
def read(path): return open(path).read()
def meminfo(name): return int(re.search(name + r": *(\\d+) kB", read("/proc/meminfo"))[1])
def says(*command): return subprocess.run(command, capture_output=True, text=True, check=True).stdout
online = "/sys/devices/system/cpu/online"
shown = {"os.cpu_count": os.cpu_count(), "sched_getaffinity": len(os.sched_getaffinity(0)),
         "_SC_NPROCESSORS_ONLN": os.sysconf("SC_NPROCESSORS_ONLN"), "nproc": int(says("nproc")),
         "/proc/cpuinfo": len(re.findall("^processor", read("/proc/cpuinfo"), re.M)),
         "/proc/stat": len(re.findall("^cpu[0-9]", read("/proc/stat"), re.M)),
         "/sys": int(read(online).strip().split("-")[-1]) + 1 if os.path.exists(online) else None}
memory = {"MemTotal": meminfo("MemTotal") >> 10, "free": int(re.search(r"Mem: *(\\d+)", says("free", "-m"))[1]),
          "_SC_PHYS_PAGES": os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") >> 20}
print(json.dumps({"uptime": float(read("/proc/uptime").split()[0]), "processors": shown, "memory": memory, "swap": meminfo("SwapTotal"),
                  "available": 0 < meminfo("MemAvailable") <= meminfo("MemTotal")}))
"""
NODE = """
const os = require("os");
console.log(JSON.stringify({"processors": {"os.cpus": os.cpus().length, "availableParallelism": os.availableParallelism()},
                            "memory": {"os.totalmem": os.totalmem() / 1048576}}));
"""
# Two limits with different numbers of processors on most machines.
LIMITS = ({"cpu_millis": 800, "memory_mb": 256}, {"cpu_millis": 1001, "memory_mb": 192})


def processors(cpu_millis):
    return min(-(-cpu_millis // 1000), len(os.sched_getaffinity(0)))


class ShareCase:
    """A mixin for test cases."""

    def assertShows(self, done, cpu_millis, memory_mb, but=()):
        """`done`: of PYTHON or NODE. `but`: names of figures that show more."""
        self.assertEqual((done["status"], done["exit_code"]), ("completed", 0), done)
        shown = json.loads(done["stdout"])
        for kind, value in (("processors", processors(cpu_millis)), ("memory", memory_mb)):
            values = {name: number for name, number in shown[kind].items() if number is not None and name not in but}
            self.assertEqual(values, dict.fromkeys(values, value), shown)
        self.assertEqual((shown.get("swap", 0), shown.get("available", True)), (0, True), shown)
