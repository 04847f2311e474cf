# SPDX-License-Identifier: Apache-2.0
"""A package index of the test's own: PyPI's simple API at /simple/, and npm's registry at /npm/, over HTTP of loopback. The packages
are made here, with dates, digests and faults as a test asks for.

    with Registry() as registry:
        registry.wheel("demo", "1.0", {"demo.py": "VALUE = 1"}, days=100)
        registry.npm("hello", "1.0.0", {"index.js": "module.exports = 1"}, days=100)
"""

import base64
import datetime
import hashlib
import http.server
import io
import json
import tarfile
import threading
import time
import urllib.parse
import zipfile

from egress_files import zip_entry

OLD = 1000  # days
JSON = "application/vnd.pypi.simple.v1+json"


def moment(days):
    """RFC 3339, so many days ago."""
    return (datetime.datetime.now(datetime.timezone.utc) - datetime.timedelta(days=days)).isoformat().replace("+00:00", "Z")


def wheel_bytes(name, version, files, requires=(), metadata_version=None):
    """The content of a wheel. `metadata_version`: what its metadata says, if it lies."""
    said = metadata_version or version
    info = f"{name}-{said}.dist-info"
    needs = "".join(f"Requires-Dist: {each}\n" for each in requires)
    parts = {**files,
             f"{info}/METADATA": f"Metadata-Version: 2.1\nName: {name}\nVersion: {said}\n{needs}",
             f"{info}/WHEEL": "Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: py3-none-any\n"}
    parts[f"{info}/RECORD"] = "".join(f"{path},,\n" for path in [*parts, f"{info}/RECORD"])
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w") as archive:
        for path, content in parts.items():
            archive.writestr(zip_entry(path), content)
    return packed.getvalue()


def tarball_bytes(files, folder="package"):
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w:gz") as archive:
        for path, content in files.items():
            content = content.encode() if isinstance(content, str) else content
            entry = tarfile.TarInfo(f"{folder}/{path}")
            entry.size, entry.mode = len(content), 0o755
            archive.addfile(entry, io.BytesIO(content))
    return packed.getvalue()


class Registry:
    """`user`: "name:password" that every request has to have. `html`: the index has no JSON. Everything may change while it serves;
    the gateway keeps an index for `packages.index_seconds`."""

    def __init__(self, user=None, html=False):
        self.user, self.html = user, html
        self.projects, self.packages = {}, {}  # by name
        self.files = {}     # by path
        self.special = {}   # by path: a function of the handler that answers
        self.asked = []     # (path, headers)

    def __enter__(self):
        registry = self

        class Handler(http.server.BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def log_message(self, *_):
                pass

            def do_GET(self):
                registry.answer(self)

        class Listener(http.server.ThreadingHTTPServer):
            daemon_threads = True
            request_queue_size = 128

            def handle_error(self, *_):
                pass  # a client that went

        self.listener = Listener(("127.0.0.1", 0), Handler)
        threading.Thread(target=self.listener.serve_forever, args=(0.05,), daemon=True).start()
        return self

    def __exit__(self, *_):
        self.listener.shutdown()
        self.listener.server_close()

    @property
    def url(self):
        return f"http://127.0.0.1:{self.listener.server_address[1]}"

    def paths(self, start=""):
        return [path for path, _ in self.asked if path.startswith(start)]

    # - what it has -

    def file(self, project, filename, content, days=OLD, **members):
        """`days` None: without a date. `members`: of the file in the index, in place of the usual ones."""
        path = f"/files/{filename}"
        self.files[path] = content
        entry = {"filename": filename, "url": f"../..{path}", "hashes": {"sha256": hashlib.sha256(content).hexdigest()},
                 "size": len(content), **members}
        if days is not None:
            entry["upload-time"] = moment(days)
        self.projects.setdefault(project, []).append(entry)
        return entry

    def wheel(self, name, version, files=None, days=OLD, requires=(), metadata_version=None, **members):
        module = name.replace("-", "_")
        files = files or {f"{module}.py": f"VERSION = {version!r}\n"}
        content = wheel_bytes(module, version, files, requires, metadata_version)
        return self.file(name, f"{module}-{version}-py3-none-any.whl", content, days, **members)

    def sdist(self, name, version, days=OLD):
        content = tarball_bytes({"setup.py": "raise SystemExit('code of a source distribution ran')\n",
                                 "PKG-INFO": f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n"}, f"{name}-{version}")
        return self.file(name, f"{name}-{version}.tar.gz", content, days)

    def npm(self, name, version, files=None, days=OLD, manifest=(), shown=None, **dist):
        """`manifest`: more members of package.json. `shown`: members that the registry's document has in their place."""
        own = {"name": name, "version": version, "main": "index.js", **dict(manifest)}
        content = tarball_bytes({"package.json": json.dumps(own), **(files or {"index.js": f"module.exports = {version!r}\n"})})
        base = name.split("/")[-1]
        path = f"/npm/{name}/-/{base}-{version}.tgz"
        self.files[path] = content
        package = self.packages.setdefault(name, {"name": name, "dist-tags": {}, "versions": {}, "time": {}})
        integrity = "sha512-" + base64.b64encode(hashlib.sha512(content).digest()).decode()
        package["versions"][version] = {**(own if shown is None else {"name": name, "version": version, **shown}),
                                        "dist": {"tarball": self.url + path, "integrity": integrity, **dist}}
        package["dist-tags"]["latest"] = version
        if days is not None:
            package["time"][version] = moment(days)

    # - how it answers -

    def answer(self, handler):
        path = urllib.parse.unquote(urllib.parse.urlsplit(handler.path).path)
        self.asked.append((path, dict(handler.headers)))
        if self.user and handler.headers.get("Authorization") != "Basic " + base64.b64encode(self.user.encode()).decode():
            return self.send(handler, b"no", status=401)
        if path in self.special:
            return self.special[path](handler)
        if path in self.files:
            return self.send(handler, self.files[path], "application/octet-stream")
        parts = path.strip("/").split("/")
        if parts[0] == "simple" and parts[-1] in self.projects:
            return self.send(handler, *self.page(parts[-1]))
        if parts[0] == "npm" and "/".join(parts[1:]) in self.packages:
            return self.send(handler, json.dumps(self.packages["/".join(parts[1:])]).encode(), "application/json")
        return self.send(handler, b"none", status=404)

    def page(self, name):
        if not self.html:
            page = {"meta": {"api-version": "1.1"}, "name": name, "files": self.projects[name]}
            return json.dumps(page).encode(), JSON
        links = "".join(f'<a href="{each["url"]}#sha256={each["hashes"]["sha256"]}">{each["filename"]}</a>\n' for each in self.projects[name])
        return f"<!DOCTYPE html><html><body>\n{links}</body></html>".encode(), "text/html"

    @staticmethod
    def send(handler, content, kind="text/plain", status=200, **headers):
        handler.send_response(status)
        handler.send_header("Content-Type", kind)
        handler.send_header("Content-Length", str(len(content)))
        for name, value in headers.items():
            handler.send_header(name.replace("_", "-"), value)
        handler.end_headers()
        handler.wfile.write(content)

    @staticmethod
    def redirect(to):
        return lambda handler: Registry.send(handler, b"", status=302, Location=to)

    @staticmethod
    def slow(handler, seconds=60):
        """The head, and then a byte a second."""
        handler.send_response(200)
        handler.send_header("Content-Type", JSON)
        handler.send_header("Content-Length", "100000")
        handler.end_headers()
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            handler.wfile.write(b" ")
            time.sleep(1)
