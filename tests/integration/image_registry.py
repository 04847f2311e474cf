# SPDX-License-Identifier: Apache-2.0
"""Debian's docker-registry on loopback with a storage of its own; images that are pushed to it through its HTTP interface; and
signatures and attestations in the formats of cosign, made with openssl."""

import base64
import contextlib
import crypt
import gzip
import http.client
import http.server
import json
import shutil
import ssl
import subprocess
import threading
import time
import urllib.parse

import harness
from test_image_import import MACHINE, digest_of

OCI = "application/vnd.oci.image"
SIMPLE_SIGNING = "application/vnd.dev.cosign.simplesigning.v1+json"
ACCEPT = f"{OCI}.manifest.v1+json, {OCI}.index.v1+json, */*"  # the registry answers 404 to others
USER, PASSWORD = "puller", "word:with:colons"


class Authority:
    """A certificate authority with a certificate of 127.0.0.1 and localhost."""

    def __init__(self, folder):
        self.ca, self.certificate, self.key = folder / "ca.pem", folder / "server.pem", folder / "server.key"
        ca_key, request, names = folder / "ca.key", folder / "server.csr", folder / "names"
        names.write_text("subjectAltName=IP:127.0.0.1,DNS:localhost")
        curve = ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes"]
        for command in (["req", "-x509", *curve, "-days", "2", "-subj", "/CN=test authority", "-keyout", ca_key, "-out", self.ca],
                        ["req", *curve, "-subj", "/CN=registry", "-keyout", self.key, "-out", request],
                        ["x509", "-req", "-days", "2", "-CA", self.ca, "-CAkey", ca_key, "-CAcreateserial", "-in", request,
                         "-extfile", names, "-out", self.certificate]):
            subprocess.run(["openssl", *command], check=True, capture_output=True)

    def server_context(self):
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(self.certificate, self.key)
        return context


class TokenService:
    """The token service of a registry (Docker's specification of tokens), over TLS. `asked`: (query, user) of each request."""

    service, issuer = "registry.test", "tokens.test"

    def __init__(self, folder, authority):
        self.authority, self.certificate, self._folder = authority, folder / "token.pem", folder
        self.asked, self.host = [], None
        subprocess.run(["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj", "/CN=tokens", "-keyout",
                        folder / "token.key", "-out", self.certificate], check=True, capture_output=True)

    def issue(self, repository, actions):
        def part(value):
            return base64.urlsafe_b64encode(value).rstrip(b"=")
        der = base64.b64encode(ssl.PEM_cert_to_DER_cert(self.certificate.read_text())).decode()
        claims = {"iss": self.issuer, "sub": USER, "aud": self.service, "exp": int(time.time()) + 300, "nbf": int(time.time()) - 10,
                  "iat": int(time.time()), "jti": "1", "access": [{"type": "repository", "name": repository, "actions": actions}]}
        signed = b".".join(part(json.dumps(each).encode()) for each in ({"typ": "JWT", "alg": "RS256", "x5c": [der]}, claims))
        done = subprocess.run(["openssl", "dgst", "-sha256", "-sign", self._folder / "token.key"], input=signed, check=True,
                              capture_output=True)
        return (signed + b"." + part(done.stdout)).decode()

    def __enter__(self):
        service = self

        class Handler(http.server.BaseHTTPRequestHandler):
            def log_message(self, *_):
                pass

            def do_GET(self):
                query = dict(urllib.parse.parse_qsl(urllib.parse.urlsplit(self.path).query))
                login = self.headers.get("Authorization", "Basic ").removeprefix("Basic ")
                user = base64.b64decode(login).decode()
                service.asked.append((query, user))
                good = user == f"{USER}:{PASSWORD}"
                _, repository, actions = query["scope"].split(":")
                body = json.dumps({"token": service.issue(repository, actions.split(","))}).encode() if good else b"{}"
                self.send_response(200 if good else 401)
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.server.socket = self.authority.server_context().wrap_socket(self.server.socket, server_side=True)
        self.host = f"127.0.0.1:{self.server.server_address[1]}"
        self.url = f"https://{self.host}/token"
        threading.Thread(target=self.server.serve_forever, daemon=True).start()
        return self

    def __exit__(self, *exception):
        self.server.shutdown()
        self.server.server_close()


class Registry:
    """`with Registry(folder, …) as registry`. `authority`: speaks TLS. `login`: wants USER and PASSWORD."""

    def __init__(self, folder, authority=None, login=False, token=None):
        self.folder, self.authority, self.login, self.token = folder, authority, login, token
        folder.mkdir(exist_ok=True)
        self.storage, self.port = folder / "storage", harness.free_port()
        self.host = f"127.0.0.1:{self.port}"
        http = {"addr": self.host, "secret": "of a test"}
        if authority:
            http["tls"] = {"certificate": str(authority.certificate), "key": str(authority.key)}
        config = {"version": 0.1, "log": {"level": "error", "accesslog": {"disabled": True}}, "http": http,
                  "storage": {"filesystem": {"rootdirectory": str(self.storage)}, "delete": {"enabled": True}}}
        if login:
            (folder / "htpasswd").write_text(f"{USER}:{crypt.crypt(PASSWORD, crypt.mksalt(crypt.METHOD_BLOWFISH, rounds=16))}\n")
            config["auth"] = {"htpasswd": {"realm": "test", "path": str(folder / "htpasswd")}}
        if token:
            config["auth"] = {"token": {"realm": token.url, "service": token.service, "issuer": token.issuer,
                                        "rootcertbundle": str(token.certificate)}}
        self.config = folder / "registry.yml"
        self.config.write_text(json.dumps(config))

    def __enter__(self):
        program = shutil.which("docker-registry") or "/usr/bin/docker-registry"
        with open(self.folder / "registry.log", "wb") as log:
            self.process = subprocess.Popen([program, "serve", self.config], stdout=log, stderr=log)
        harness.wait_for("the registry", lambda: self._answers(), seconds=20)
        return self

    def __exit__(self, *exception):
        self.process.terminate()
        self.process.wait(timeout=20)

    def _answers(self):
        with contextlib.suppress(OSError):
            return self.request("GET", "/v2/").status in (200, 401)
        if self.process.poll() is not None:
            raise AssertionError((self.folder / "registry.log").read_text()[-2000:])
        return False

    def request(self, method, target, body=None, kind=None, login=True):
        if self.authority:
            context = ssl.create_default_context(cafile=self.authority.ca)
            connection = http.client.HTTPSConnection("127.0.0.1", self.port, context=context, timeout=20)
        else:
            connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=20)
        headers = {"Accept": ACCEPT, **({"Content-Type": kind} if kind else {})}
        if self.login and login:
            headers["Authorization"] = "Basic " + base64.b64encode(f"{USER}:{PASSWORD}".encode()).decode()
        if self.token and "/blobs/" in target or self.token and "/manifests/" in target:
            repository = target.removeprefix("/v2/").rpartition("/blobs/" if "/blobs/" in target else "/manifests/")[0]
            headers["Authorization"] = "Bearer " + self.token.issue(repository, ["pull", "push"])
        with contextlib.closing(connection):
            connection.request(method, target, body, headers)
            answer = connection.getresponse()
            answer.body = answer.read()
            return answer

    # - pushing -

    def blob(self, repository, data, kind):
        """→ the descriptor of the pushed blob."""
        begun = self.request("POST", f"/v2/{repository}/blobs/uploads/")
        assert begun.status == 202, (begun.status, begun.body)
        place = urllib.parse.urlsplit(begun.headers["Location"])
        target = f"{place.path}?{place.query}&digest={digest_of(data)}"
        done = self.request("PUT", target, data, "application/octet-stream")
        assert done.status == 201, (done.status, done.body)
        return {"mediaType": kind, "digest": digest_of(data), "size": len(data)}

    def manifest(self, repository, document, tag=None):
        """→ its descriptor."""
        data = document if isinstance(document, bytes) else json.dumps(document).encode()
        kind = json.loads(data)["mediaType"]
        done = self.request("PUT", f"/v2/{repository}/manifests/{tag or digest_of(data)}", data, kind)
        assert done.status == 201, (done.status, done.body)
        return {"mediaType": kind, "digest": digest_of(data), "size": len(data)}

    def image(self, repository, *layers, tag=None, architecture=MACHINE):
        """An image of tars. → its descriptor."""
        described = [self.blob(repository, gzip.compress(layer, mtime=0), f"{OCI}.layer.v1.tar+gzip") for layer in layers]
        config = {"os": "linux", "architecture": architecture, "config": {"Env": ["PATH=/bin:/usr/bin"]},
                  "rootfs": {"type": "layers", "diff_ids": [digest_of(layer) for layer in layers]}}
        return self.manifest(repository, {
            "schemaVersion": 2, "mediaType": f"{OCI}.manifest.v1+json", "layers": described,
            "config": self.blob(repository, json.dumps(config).encode(), f"{OCI}.config.v1+json")}, tag)

    def index(self, repository, entries, tag=None):
        """An index of {architecture: descriptor}."""
        manifests = [{**descriptor, "platform": {"os": "linux", "architecture": name}} for name, descriptor in entries.items()]
        return self.manifest(repository, {"schemaVersion": 2, "mediaType": f"{OCI}.index.v1+json", "manifests": manifests}, tag)

    def archive(self, repository, archive, referrers=False, change=None):
        """Pushes all manifests of an own_images.Archive: by their tags, or with `referrers` by their digests, listed by their
        subjects as registries with the interface of OCI 1.1 do. `change`: of (media type, bytes) of each layer. → the image's
        descriptor."""
        pushed = []
        for entry in archive.index:
            document = archive.manifest(entry)
            self.blob(repository, archive.blobs[document["config"]["digest"]], document["config"]["mediaType"])
            for layer in document["layers"]:
                data = archive.blobs[layer["digest"]]
                layer.update(self.blob(repository, change(layer["mediaType"], data) if change else data, layer["mediaType"]))
            same = archive.blobs[entry["digest"]] if not change else json.dumps(document, sort_keys=True).encode()
            pushed.append(self.manifest(repository, same, None if referrers else archive.tag(entry)))
            if referrers and "subject" in document:
                self.refer(repository, document["subject"]["digest"], {**pushed[-1], "artifactType": document["artifactType"]})
        return pushed[0]

    # - what belongs to an image -

    def artifact(self, repository, layers, subject=None, kind=f"{OCI}.config.v1+json", tag=None):
        """A manifest of (bytes, media type, annotations); with `subject` a referrer, by the fallback tag. → its descriptor."""
        document = {"schemaVersion": 2, "mediaType": f"{OCI}.manifest.v1+json", "config": self.blob(repository, b"{}", kind),
                    "layers": [{**self.blob(repository, data, media), "annotations": notes} for data, media, notes in layers]}
        if subject:
            document["subject"] = subject
        pushed = self.manifest(repository, document, tag)
        if subject:
            self.refer(repository, subject["digest"], {**pushed, "artifactType": kind})
        return pushed

    def refer(self, repository, digest, descriptor):
        tag = digest.replace(":", "-")
        found = self.request("GET", f"/v2/{repository}/manifests/{tag}")
        before = json.loads(found.body)["manifests"] if found.status == 200 else []
        self.manifest(repository, {"schemaVersion": 2, "mediaType": f"{OCI}.index.v1+json", "manifests": [*before, descriptor]}, tag)

    def sign(self, repository, image, key, *, of=None, referrer=False, change=None, payload=None):
        """As `cosign sign --key`. `of`: another image's digest in the payload. `change`: changes (payload, signature)
        after signing."""
        payload = payload or signing_payload(of or image["digest"])
        signature = key.sign(payload)
        if change:
            payload, signature = change(payload, signature)
        layer = (payload, SIMPLE_SIGNING, {"dev.cosignproject.cosign/signature": base64.b64encode(signature).decode()})
        if referrer:
            return self.artifact(repository, [layer], image, "application/vnd.dev.cosign.artifact.sig.v1+json")
        return self.artifact(repository, [layer], tag=image["digest"].replace(":", "-") + ".sig")

    def attest(self, repository, image, predicate_type, predicate, key, *, of=None, bundle=False, change=None):
        """As `cosign attest --key`; `bundle`: in the form of a bundle of sigstore, as a referrer."""
        statement = {"_type": "https://in-toto.io/Statement/v0.1", "predicateType": predicate_type, "predicate": predicate,
                     "subject": [{"name": repository, "digest": {"sha256": (of or image["digest"]).split(":")[1]}}]}
        kind, payload = "application/vnd.in-toto+json", json.dumps(statement).encode()
        signature = key.sign(f"DSSEv1 {len(kind)} {kind} {len(payload)} ".encode() + payload)
        if change:
            payload = change(payload)
        envelope = {"payloadType": kind, "payload": base64.b64encode(payload).decode(),
                    "signatures": [{"keyid": "", "sig": base64.b64encode(signature).decode()}]}
        if bundle:
            media = "application/vnd.dev.sigstore.bundle.v0.3+json"
            text = {"mediaType": media, "verificationMaterial": {"publicKey": {"hint": "x"}}, "dsseEnvelope": envelope}
            return self.artifact(repository, [(json.dumps(text).encode(), media, {})], image, media)
        layer = (json.dumps(envelope).encode(), "application/vnd.dsse.envelope.v1+json", {"predicateType": predicate_type})
        return self.artifact(repository, [layer], tag=image["digest"].replace(":", "-") + ".att")

    def path_of(self, digest):
        hexes = digest.split(":")[1]
        return self.storage / "docker/registry/v2/blobs/sha256" / hexes[:2] / hexes / "data"


def signing_payload(digest, kind="cosign container image signature"):
    return json.dumps({"critical": {"identity": {"docker-reference": "any"}, "image": {"docker-manifest-digest": digest},
                                    "type": kind}, "optional": {"creator": "test"}}).encode()


class Key:
    """A pair of keys as cosign makes them: "EC" or "ED25519"."""

    def __init__(self, folder, name, kind="EC"):
        self.private, self.public, self._file, self._kind = folder / f"{name}.key", folder / f"{name}.pub", folder / f"{name}.in", kind
        more = ["-pkeyopt", "ec_paramgen_curve:P-256"] if kind == "EC" else []
        subprocess.run(["openssl", "genpkey", "-algorithm", kind, *more, "-out", self.private], check=True, capture_output=True)
        subprocess.run(["openssl", "pkey", "-in", self.private, "-pubout", "-out", self.public], check=True)
        der = subprocess.run(["openssl", "pkey", "-in", self.private, "-pubout", "-outform", "DER"], check=True, capture_output=True).stdout
        self.id = digest_of(der)

    def sign(self, data):
        self._file.write_bytes(data)
        command = (["dgst", "-sha256", "-sign", self.private, self._file] if self._kind == "EC" else
                   ["pkeyutl", "-sign", "-rawin", "-inkey", self.private, "-in", self._file])
        return subprocess.run(["openssl", *command], check=True, capture_output=True).stdout


class Relay:
    """An HTTP relay before a registry on plain HTTP, with faults. `seen`: (path, headers) of each request.

    `break_after`: each answer of a blob ends after so many bytes. `ignore_range`: from the beginning each time. `stall`: the
    body of a blob does not go on until `release()`. `blobs_at`: blobs are redirected to this URL. `refuse`: the status of the
    first requests, one each. `login`: wants any credential. `referrers`: the registry's fallback tags as the interface of OCI 1.1.
    `swap`: other bodies by their path.
    """

    def __init__(self, registry, context=None):
        self.registry, self.context, self.seen = registry, context, []
        self.break_after = self.blobs_at = None
        self.ignore_range = self.stall = self.referrers = self.login = False
        self.refuse, self.swap = [], {}
        self._go_on = threading.Event()

    def release(self):
        self._go_on.set()

    def __enter__(self):
        relay = self

        class Handler(http.server.BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def log_message(self, *_):
                pass

            def do_GET(self):
                relay.seen.append((self.path, dict(self.headers.items())))
                self.close_connection = True
                with contextlib.suppress(OSError):
                    relay.answer(self)

        class Listener(http.server.ThreadingHTTPServer):
            daemon_threads = True

            def handle_error(self, *_):
                pass  # a client that went

        self.server = Listener(("127.0.0.1", 0), Handler)
        if self.context:
            self.server.socket = self.context.wrap_socket(self.server.socket, server_side=True)
        self.host = f"127.0.0.1:{self.server.server_address[1]}"
        self.url = ("https://" if self.context else "http://") + self.host
        threading.Thread(target=self.server.serve_forever, daemon=True).start()
        return self

    def __exit__(self, *exception):
        self.release()
        self.server.shutdown()
        self.server.server_close()

    @staticmethod
    def send(handler, status, body=b"", **headers):
        handler.send_response(status)
        for name, value in {"Content-Length": len(body), **headers}.items():
            handler.send_header(name.replace("_", "-"), str(value))
        handler.end_headers()
        handler.wfile.write(body)

    def answer(self, handler):
        path = handler.path
        if self.refuse:
            return self.send(handler, self.refuse.pop(0), Retry_After=0)
        if self.login and "Authorization" not in handler.headers:
            return self.send(handler, 401, WWW_Authenticate='Basic realm="relay"')
        is_blob = "/blobs/" in path
        if is_blob and self.blobs_at:
            return self.send(handler, 307, Location=self.blobs_at + path)
        if "/referrers/" in path and self.referrers:
            path = path.replace("/referrers/sha256:", "/manifests/sha256-")
        found = self.registry.request("GET", path)
        status, body = (200, self.swap[path]) if path in self.swap else (found.status, found.body)
        headers = {"Content-Type": found.headers.get("Content-Type", "text/plain")}
        wanted = handler.headers.get("Range")
        if is_blob and wanted and status == 200 and not self.ignore_range:
            first = int(wanted.removeprefix("bytes=").rstrip("-"))
            headers["Content-Range"] = f"bytes {first}-{len(body) - 1}/{len(body)}"
            status, body = 206, body[first:]
        handler.send_response(status)
        for name, value in {**headers, "Content-Length": len(body)}.items():
            handler.send_header(name, str(value))
        handler.end_headers()
        if is_blob and self.stall:
            handler.wfile.write(body[:1])
            handler.wfile.flush()
            self._go_on.wait(120)
        handler.wfile.write(body[:self.break_after] if is_blob and self.break_after else body)
        return None
