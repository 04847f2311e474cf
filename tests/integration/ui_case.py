# SPDX-License-Identifier: Apache-2.0
"""A browser, as far as signing in to the web interface needs one, and files in place of the interface."""

import contextlib
import gzip
import http.client
import json
import pathlib
import shutil
import tempfile

import harness

OWN = object()  # the page's own origin, or the session's own token
SCRIPT = b"console.log('cloister');\n" * 20
FILES = {
    "index.html": b'<!doctype html><html><head><base href="/ui/"><script type="module" src="assets/app-1a2b.js">'
                  b"</script></head><body></body></html>\n",
    "assets/app-1a2b.js": SCRIPT,
    "assets/app-1a2b.js.gz": gzip.compress(SCRIPT),
    "icon.svg": b"<svg xmlns='http://www.w3.org/2000/svg'/>",
    ".hidden.txt": b"no",
}
# A server in a sandbox that shows the request's head and tries to plant cookies.
ECHO = r'''
import http.server
class Handler(http.server.BaseHTTPRequestHandler):
    def log_message(self, *args): pass
    def do_GET(self):
        body = (self.requestline + "\n" + str(self.headers)).encode()
        self.send_response(200)
        for name in ("cloister_ui", "__Host-cloister", "CLOISTER_UI", "\tcloister_ui", "=cloister_ui", "__Host-cloister-login"):
            self.send_header("Set-Cookie", name + "=planted; Path=/; Domain=boxes.test")
        self.send_header("Set-Cookie", "own=1; Path=/")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)
server = http.server.ThreadingHTTPServer(("127.0.0.1", 8020), Handler)
print("ready", flush=True)
server.serve_forever()
'''


class _Share(pathlib.PosixPath):
    """A folder that goes at the end of `with`, if it is a temporary folder."""

    def __enter__(self):
        return self

    def __exit__(self, *_):
        shutil.rmtree(self, ignore_errors=True)


def share_with_files(files=None, into=None):
    """The share directory of the programs, with other files in web/."""
    share = _Share(into or tempfile.mkdtemp(prefix="ui-share."))
    share.chmod(0o755)
    for each in (harness.BIN.parent / "share" / "cloister").iterdir():
        if each.name != "web":
            (share / each.name).symlink_to(each.resolve())
    for name, text in (FILES if files is None else files).items():
        path = share / "web" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(text)
    if files is None:
        (share / "web" / "link.txt").symlink_to("/etc/passwd")
    return share


class Browser:
    """Keeps cookies of the service, and sends what browsers send. `headers`: of every request, as a proxy adds."""

    def __init__(self, server, origin=None, cookies=None, **headers):
        self.server, self.origin, self.headers = server, origin or server.url, headers
        self.cookies, self.csrf = dict(cookies or {}), None

    @property
    def cookie(self):
        return "; ".join(f"{name}={value}" for name, value in self.cookies.items())

    def _ask(self, method, path, body=None, **headers):
        mine = {"Cookie": self.cookie} if self.cookies else {}
        headers = {**self.headers, **mine, **headers}
        if body is not None and not isinstance(body, bytes):
            body = json.dumps(body).encode()
            headers.setdefault("Content-Type", "application/json")
        where = (self.server.host, self.server.port)
        connection = http.client.HTTPSConnection(*where, timeout=harness.ANSWER_SECONDS, context=self.server.tls) \
            if self.server.tls else http.client.HTTPConnection(*where, timeout=harness.ANSWER_SECONDS)
        with contextlib.closing(connection):
            connection.request(method, path, body=body, headers=headers)
            answer = connection.getresponse()
            text = answer.read()
            for each in answer.headers.get_all("Set-Cookie") or ():
                self._keep(each)
            return harness.Response(answer.status, {name.lower(): value for name, value in answer.getheaders()}, text)

    def _keep(self, text):
        name, _, rest = text.partition("=")
        if "Max-Age=0" in text:
            self.cookies.pop(name, None)
        else:
            self.cookies[name] = rest.split(";")[0]

    def get(self, path, **headers):
        return self._ask("GET", path, **headers)

    def send(self, method, path, body=None, origin=OWN, csrf=OWN, **headers):
        """An unsafe method of a page of ours, or with another origin or token; None sends none."""
        origin = self.origin if origin is OWN else origin
        csrf = self.csrf if csrf is OWN else csrf
        shown = {"Origin": origin, "X-CSRF-Token": csrf}
        return self._ask(method, path, body, **{name: value for name, value in shown.items() if value is not None}, **headers)

    def sign_in(self, key, status=201, **headers):
        answer = self._ask("POST", "/ui/session", {"key": key}, Origin=self.origin, **headers)
        if status is not None:
            assert answer.status == status, (answer.status, answer.body)
        if answer.status == 201:
            self.csrf = answer.json()["csrf"]
        return answer
