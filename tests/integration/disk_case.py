# SPDX-License-Identifier: Apache-2.0
"""Shared by tests of workspaces on disk: whether the machine has them, and their raw bytes."""

import glob
import mmap
import os
import pathlib

MIB = 1 << 20


def lack(server):
    """The reason why the machine has none, or None."""
    for finding in server.request("GET", "/v1/node").json()["findings"]:
        if finding["name"] == "disk workspaces":
            return None if finding["state"] == "ok" else finding["detail"]
    return "no node"


def devices(server):
    """The loop devices over files of the server's state directory."""
    return devices_in(server.state)


def devices_in(directory):
    found = []
    for path in glob.glob("/sys/block/loop*/loop/backing_file"):
        try:
            backing = pathlib.Path(path).read_text().strip()
        except OSError:
            continue
        if backing.startswith(f"{directory}/"):
            found.append("/dev/" + path.split("/")[3])
    return found


def holds(path, texts):
    """The `texts` found in the raw bytes of a device or file."""
    with open(path, "rb") as raw:
        size = raw.seek(0, os.SEEK_END)
        with mmap.mmap(raw.fileno(), size, prot=mmap.PROT_READ) as mapped:
            return [text for text in texts if mapped.find(text) >= 0]
