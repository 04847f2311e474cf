# SPDX-License-Identifier: Apache-2.0
"""Copies of the built programs."""

import shutil
import subprocess


def install(programs, copy, **replaced):
    """Copies the directory `programs`, and the files they read, into the new directory `copy`, readable by everybody
    → the place of the programs. `replaced`: files that replace some; in their names `_` stands for `-`."""
    (copy / "share").mkdir(parents=True)
    (copy / "bin").mkdir()
    for name in ("cloister", "cloisterd", "cloister-egress", "cloister-node", "cloister-spawner", "cloister-runner", "cloister-guest",
                 "cloister-walls", "cloister-firecracker", "cloister-krun", "cloister-zygote-python.so"):
        shutil.copy2(replaced.get(name.replace("-", "_"), programs / name), copy / "bin" / name)
    shutil.copytree(programs.parent / "share" / "cloister", copy / "share" / "cloister",
                    ignore=shutil.ignore_patterns("microvm"))
    subprocess.run(["chmod", "-R", "a+rX", copy], check=True)
    return copy / "bin"
