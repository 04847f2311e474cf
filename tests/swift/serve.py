#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""The S3 interface of OpenStack Swift (s3api), for tests: its proxy, account, container and object servers in one process, with
rings of one device in a temporary directory, on ports of loopback.

    serve.py [--front]  # prints {"port": …, "key_id": …, "secret": …, "bucket": …} and ends at the end of its input

`--front` puts front.py before it, whose port is printed. The bucket exists.
"""

import json
import os
import pathlib
import secrets
import shutil
import socket
import subprocess
import sys
import tempfile

KEY_ID, BUCKET, REGION = "cloister:service", "blobs", "eu-test-1"
KINDS = ("account", "container", "object")


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def write_configuration(folder, ports, secret, memcached):
    """Swift's files, as its deployment guide has them, for one device."""
    (folder / "swift.conf").write_text("[swift-hash]\nswift_hash_path_prefix = test\nswift_hash_path_suffix = test\n"
                                       "[storage-policy:0]\nname = only\ndefault = yes\n")
    common = f"swift_dir = {folder}\ndevices = {folder}/devices\nmount_check = false\nworkers = 0\nlog_level = ERROR\n" \
             f"bind_ip = 127.0.0.1\nfallocate_reserve = 0\nlog_address = {folder}/no-log\n"
    for kind in KINDS:
        (folder / f"{kind}.conf").write_text(f"[DEFAULT]\n{common}bind_port = {ports[kind]}\n"
                                             f"[pipeline:main]\npipeline = {kind}-server\n"
                                             f"[app:{kind}-server]\nuse = egg:swift#{kind}\nallow_versions = true\n")
    (folder / "proxy.conf").write_text(
        f"[DEFAULT]\n{common}bind_port = {ports['proxy']}\n"
        "[pipeline:main]\npipeline = catch_errors gatekeeper cache listing_formats bulk s3api tempauth copy slo dlo proxy-server\n"
        "[app:proxy-server]\nuse = egg:swift#proxy\naccount_autocreate = true\nallow_account_management = true\n"
        "[filter:catch_errors]\nuse = egg:swift#catch_errors\n[filter:gatekeeper]\nuse = egg:swift#gatekeeper\n"
        f"[filter:cache]\nuse = egg:swift#memcache\nmemcache_servers = 127.0.0.1:{memcached}\n"
        "[filter:listing_formats]\nuse = egg:swift#listing_formats\n[filter:bulk]\nuse = egg:swift#bulk\n"
        f"[filter:s3api]\nuse = egg:swift#s3api\nlocation = {REGION}\ns3_acl = false\n"
        f"[filter:tempauth]\nuse = egg:swift#tempauth\nuser_{KEY_ID.replace(':', '_')} = {secret} .admin\n"
        "[filter:copy]\nuse = egg:swift#copy\n[filter:slo]\nuse = egg:swift#slo\n[filter:dlo]\nuse = egg:swift#dlo\n")


def make_rings(folder, ports):
    from swift.common.ring import RingBuilder
    for kind in KINDS:
        builder = RingBuilder(4, 1, 0)
        builder.add_dev({"region": 1, "zone": 1, "ip": "127.0.0.1", "port": ports[kind], "device": "d1", "weight": 1.0,
                         "replication_ip": "127.0.0.1", "replication_port": ports[kind], "meta": ""})
        builder.rebalance(seed="test")
        builder.get_ring().save(str(folder / f"{kind}.ring.gz"))


def main():
    folder = pathlib.Path(tempfile.mkdtemp(prefix="swift-"))
    memcached = front = None
    try:
        ports = {kind: free_port() for kind in (*KINDS, "proxy", "memcached")}
        secret = secrets.token_hex(20)
        (folder / "devices" / "d1").mkdir(parents=True)
        write_configuration(folder, ports, secret, ports["memcached"])
        memcached = subprocess.Popen(["memcached", "-l", "127.0.0.1", "-p", str(ports["memcached"]), "-m", "16", "-t", "1",
                                      *(["-u", "root"] if os.geteuid() == 0 else [])], stdin=subprocess.DEVNULL)

        # Swift reads this file from a fixed place, as soon as its modules are imported.
        import swift.common.utils as utils
        utils.SWIFT_CONF_FILE = str(folder / "swift.conf")
        import eventlet
        import eventlet.wsgi
        eventlet.patcher.monkey_patch(all=False, socket=True, select=True, thread=True)
        from swift.common.wsgi import SwiftHttpProtocol, loadapp
        make_rings(folder, ports)
        for kind in (*KINDS, "proxy"):
            listener = eventlet.listen(("127.0.0.1", ports[kind]), backlog=128)
            application = loadapp(str(folder / f"{kind}.conf"), global_conf={"log_requests": "false"})
            eventlet.spawn(eventlet.wsgi.server, listener, application, log_output=False, protocol=SwiftHttpProtocol,
                           custom_pool=eventlet.GreenPool(256))
        make_bucket(ports["proxy"], secret)
        port = ports["proxy"]
        if "--front" in sys.argv:
            front = subprocess.Popen([sys.executable, pathlib.Path(__file__).parent / "front.py", str(port)],
                                     stdin=subprocess.PIPE, stdout=subprocess.PIPE)
            port = int(front.stdout.readline())
        print(json.dumps({"port": port, "key_id": KEY_ID, "secret": secret, "bucket": BUCKET, "region": REGION}), flush=True)
        from eventlet import tpool
        while tpool.execute(os.read, 0, 4096):
            pass
    finally:
        for each in (front, memcached):
            if each:
                each.kill()
                each.wait()
        shutil.rmtree(folder, ignore_errors=True)


def make_bucket(port, secret):
    """By Swift's own interface, with a token of its tempauth."""
    from eventlet.green.http import client
    connection = client.HTTPConnection("127.0.0.1", port, timeout=30)
    connection.request("GET", "/auth/v1.0", headers={"X-Auth-User": KEY_ID, "X-Auth-Key": secret})
    answer = connection.getresponse()
    answer.read()
    token, url = answer.getheader("X-Auth-Token"), answer.getheader("X-Storage-Url")
    connection.request("PUT", "/v1/" + url.split("/v1/")[1] + "/" + BUCKET, headers={"X-Auth-Token": token})
    answer = connection.getresponse()
    answer.read()
    assert answer.status in (201, 202), answer.status


if __name__ == "__main__":
    main()
