# SPDX-License-Identifier: Apache-2.0
"""Copies of the built programs."""

import shutil
import subprocess


def install(programs, copy, **replaced):
    """Copies the directory `programs`, and what they read, into the new directory `copy`, for anybody to read → where
    its programs are. `replaced`: files that take the place of some, in whose names `_` stands for `-`."""
    (copy / "share").mkdir(parents=True)
    (copy / "bin").mkdir()
    for name in ("cloister", "cloisterd", "cloister-node", "cloister-spawner", "cloister-runner", "cloister-guest",
                 "cloister-walls", "cloister-firecracker", "cloister-krun", "cloister-zygote-python.so"):
        shutil.copy2(replaced.get(name.replace("-", "_"), programs / name), copy / "bin" / name)
    shutil.copytree(programs.parent / "share" / "cloister", copy / "share" / "cloister",
                    ignore=shutil.ignore_patterns("microvm"))
    subprocess.run(["chmod", "-R", "a+rX", copy], check=True)
    return copy / "bin"
