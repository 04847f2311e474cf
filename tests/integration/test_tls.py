# SPDX-License-Identifier: Apache-2.0
"""HTTPS, and clients with certificates of a real authority made here."""

import contextlib
import http.client
import pathlib
import shutil
import socket
import ssl
import subprocess
import tempfile
import time
import unittest

import harness


class Authority:
    """A directory with a certificate authority; openssl does the work."""

    def __init__(self, name):
        self.dir = pathlib.Path(tempfile.mkdtemp(prefix="tls-test."))
        self.dir.chmod(0o755)
        self.ca, self._key = self.dir / "ca.pem", self.dir / "ca.key"
        self._run("req", "-x509", *self._new_key(self._key), "-days", "30", "-subj", f"/CN={name}",
                  "-addext", "basicConstraints=critical,CA:TRUE",
                  "-addext", "keyUsage=critical,keyCertSign,cRLSign", "-out", self.ca)
        (self.dir / "index.txt").write_text("")
        (self.dir / "crlnumber").write_text("01\n")
        (self.dir / "ca.cnf").write_text(
            f"[ca]\ndefault_ca = own\n[own]\ndatabase = {self.dir}/index.txt\n"
            f"crlnumber = {self.dir}/crlnumber\ndefault_md = sha256\ndefault_crl_days = 30\n"
            f"new_certs_dir = {self.dir}\nrand_serial = yes\npolicy = any\n[any]\ncommonName = supplied\n")

    def __enter__(self):
        return self

    def __exit__(self, *_):
        shutil.rmtree(self.dir, ignore_errors=True)

    @staticmethod
    def _run(*command):
        done = subprocess.run(["openssl", *map(str, command)], capture_output=True, text=True)
        assert done.returncode == 0, done.stderr

    @staticmethod
    def _new_key(path):
        return ("-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-keyout", path)

    def issue(self, name, names, usage="clientAuth", days=30, into=None, end=None):
        """A certificate for the subjectAltName `names`; gives the paths of the certificate and of its key. `end`:
        its last second, since the epoch, instead of `days`."""
        stem = into or name
        certificate, key = self.dir / f"{stem}.pem", self.dir / f"{stem}.key"
        request, extensions = self.dir / f"{name}.csr", self.dir / f"{name}.ext"
        self._run("req", *self._new_key(key), "-subj", f"/CN={name}", "-out", request)
        extensions.write_text(f"subjectAltName={names}\nextendedKeyUsage={usage}\n")
        fresh = self.dir / f"{name}.new"
        if end:
            self._run("ca", "-batch", "-notext", "-config", self.dir / "ca.cnf", "-cert", self.ca, "-keyfile", self._key,
                      "-enddate", time.strftime("%Y%m%d%H%M%SZ", time.gmtime(end)), "-extfile", extensions,
                      "-in", request, "-out", fresh)
        else:  # -1 days: already expired
            self._run("x509", "-req", "-in", request, "-CA", self.ca, "-CAkey", self._key,
                      "-CAcreateserial", "-days", days, "-extfile", extensions, "-out", fresh)
        fresh.rename(certificate)
        key.chmod(0o644)
        return certificate, key

    def revoke(self, certificate=None):
        """The list of revoked certificates, with the given certificate added."""
        crl = self.dir / "crl.pem"
        common = ("-config", self.dir / "ca.cnf", "-cert", self.ca, "-keyfile", self._key)
        if certificate:
            self._run("ca", *common, "-revoke", certificate)
        self._run("ca", *common, "-gencrl", "-out", self.dir / "crl.new")
        (self.dir / "crl.new").rename(crl)
        return crl

    def trusting(self, shown=None):
        context = ssl.create_default_context(cafile=self.ca)
        if shown:
            context.load_cert_chain(*shown)
        return context


SERVER_NAMES = "IP:127.0.0.1,DNS:localhost"


def config_of(authority, server, more=""):
    return (f"tls:\n  certificate: {server[0]}\n  key: {server[1]}\n"
            f"  client_ca: {authority.ca}\n" + more)


class Https(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.authority = cls.enterClassContext(Authority("the company"))
        cls.stranger = cls.enterClassContext(Authority("the company"))
        server = cls.own = cls.authority.issue("server", SERVER_NAMES, "serverAuth")
        cls.alice = cls.authority.issue("alice", "URI:spiffe://corp/alice,DNS:alice.example")
        cls.eve = cls.authority.issue("eve", "DNS:eve.example,URI:spiffe://corp/revoked")
        cls.authority.revoke()
        clients = ("  client_crl: " + str(cls.authority.dir / "crl.pem") + "\n  clients:\n"
                   "    - uri:spiffe://corp/alice = tenant:acme app:ci agent:alice roles:agent\n"
                   "    - uri:spiffe://corp/revoked = tenant:acme roles:agent\n"
                   "    - dns:viewer.example = tenant:acme user:v roles:viewer\n")
        cls.server = cls.enterClassContext(harness.Server(
            config=config_of(cls.authority, server, clients), tls=cls.authority.trusting()))

    def ask(self, shown=None, path="/v1/whoami", key=False, **more):
        headers = {"Authorization": f"Bearer {key}"} if key else {}
        return harness.http_request(self.server.host, self.server.port, more.pop("method", "GET"),
                                    path, headers=headers, tls=self.authority.trusting(shown),
                                    **more)

    def test_a_run_over_https(self):
        self.assertEqual(self.server.run("print(1)")["stdout"], "1\n")
        self.assertTrue((self.server.state / "address").read_text().startswith("https://"))

    def test_a_certificate_is_a_principal(self):
        who = self.ask(self.alice).json()
        self.assertEqual((who["tenant"], who["app"], who["agent"], who["roles"]),
                         ("acme", "ci", "alice", ["agent"]))
        ran = self.ask(self.alice, "/v1/executions?wait=30", method="POST",
                       body={"language": "python", "code": "print(2)"}).json()
        self.assertEqual(ran["stdout"], "2\n")
        self.assertEqual(ran["principal"]["agent"], "alice")

    def test_its_expiry_is_a_metric(self):
        shown = self.server.metrics()["cloister_certificate_expiry_timestamp_seconds"]
        said = subprocess.check_output(["openssl", "x509", "-noout", "-enddate", "-in", self.own[0]], text=True)
        self.assertEqual(shown, ssl.cert_time_to_seconds(said.strip().removeprefix("notAfter=")))

    def test_its_roles_are_its_roles(self):
        viewer = self.authority.issue("viewer", "DNS:viewer.example")
        self.assertEqual(self.ask(viewer).json()["user"], "v")
        self.assertEqual(self.ask(viewer, "/v1/executions", method="POST",
                                  body={"language": "python", "code": "1"}).status, 403)

    def test_a_shown_key_is_what_counts(self):
        self.assertEqual(self.ask(self.alice, key=self.server.key).json()["roles"], ["admin"])
        self.assertEqual(self.ask(self.alice, key="clo_wrong").status, 401)

    def test_without_a_certificate_there_must_be_a_key(self):
        self.assertEqual(self.ask().status, 401)
        self.assertEqual(self.ask(key=self.server.key).status, 200)

    def test_a_certificate_that_nobody_has_named(self):
        unnamed = self.authority.issue("unnamed", "DNS:unnamed.example")
        answer = self.ask(unnamed)
        self.assertEqual(answer.status, 401)
        self.assertEqual({k: v for k, v in answer.json().items() if k != "instance"},
                         {k: v for k, v in self.ask().json().items() if k != "instance"})

    def test_the_common_name_is_no_name(self):
        named = self.authority.issue("viewer.example", "DNS:other.example")
        self.assertEqual(self.ask(named).status, 401)

    def refused(self, shown):
        # With TLS 1.3 the client learns of the refusal only with the first answer.
        with self.assertRaises((ssl.SSLError, ConnectionError, http.client.RemoteDisconnected)):
            self.ask(shown)

    def test_strangers_are_not_let_in(self):
        self.refused(self.stranger.issue("alice", "URI:spiffe://corp/alice"))
        self.refused(self.authority.issue("late", "URI:spiffe://corp/alice", days=-1))
        self.refused(self.authority.issue("wrong", "URI:spiffe://corp/alice", "serverAuth"))

    def test_a_revoked_certificate(self):
        self.assertEqual(self.ask(self.eve).json()["tenant"], "acme")
        self.authority.revoke(self.eve[0])

        def gone():
            try:
                return self.ask(self.eve).status == 401
            except (ssl.SSLError, ConnectionError, http.client.RemoteDisconnected):
                return True

        harness.wait_for("the list to be read again", gone)
        self.assertEqual(self.ask(self.alice).status, 200)

    def test_old_protocols_and_plain_http(self):
        old = ssl.create_default_context(cafile=self.authority.ca)
        old.minimum_version = ssl.TLSVersion.MINIMUM_SUPPORTED
        old.maximum_version = ssl.TLSVersion.TLSv1_1
        old.set_ciphers("ALL:@SECLEVEL=0")
        with self.assertRaises((ssl.SSLError, ConnectionError)):
            harness.http_request(self.server.host, self.server.port, "GET", "/healthz", tls=old)
        with self.assertRaises((OSError, http.client.HTTPException)):
            harness.http_request(self.server.host, self.server.port, "GET", "/healthz", timeout=15)

    def test_events_and_large_bodies(self):
        code = "import sys\nfor i in range(20000): print('x' * 50)\nprint(len(sys.stdin.read()))"
        ran = self.server.run(code, input="y" * 1_000_000, max_output_bytes=4_000_000)
        self.assertEqual(ran["stdout"].count("x"), 1_000_000)
        self.assertTrue(ran["stdout"].endswith("1000000\n"))

    def test_connections_that_only_hold_on(self):
        with contextlib.ExitStack() as held:
            for _ in range(200):
                held.enter_context(socket.create_connection(
                    (self.server.host, self.server.port), timeout=10))
            self.assertEqual(self.ask(path="/healthz").status, 200)

    def test_what_it_began_ends_with_a_certificate(self):
        """A stream is cut off when the certificate expires; the program goes on."""
        end = int(time.time()) + 8
        soon = self.authority.issue("soon", "URI:spiffe://corp/alice", end=end)
        run = self.ask(soon, "/v1/executions", method="POST", body={"language": "bash", "code": "sleep 60"}).json()
        connection = http.client.HTTPSConnection(self.server.host, self.server.port, timeout=harness.limit(20),
                                                 context=self.authority.trusting(soon))
        self.addCleanup(connection.close)
        connection.request("GET", f"/v1/executions/{run['id']}/events")
        stream = connection.getresponse()
        self.assertEqual(stream.status, 200)
        with self.assertRaises((OSError, http.client.HTTPException)):  # in the middle of an answer
            stream.read()
        self.assertGreaterEqual(time.time(), end)
        self.assertEqual(self.server.get(run["id"])["status"], "running")
        self.server.request("DELETE", f"/v1/executions/{run['id']}")

    # - the command line -

    def cli(self, *args, **env):
        return harness.cli(*args, env={"CLOISTER_URL": self.server.url, **env})

    def test_the_command_line_of_this_account(self):
        for more in ([], ["--url", self.server.url]):
            done = harness.cli("run", "--state", self.server.state, *more, "-c", "print('here')")
            self.assertEqual((done.returncode, done.stdout), (0, "here\n"), done.stderr)
        done = self.server.cli("--state", self.server.state, "run", "-c", "print('here')")
        self.assertEqual((done.returncode, done.stdout), (0, "here\n"), done.stderr)

    def test_the_command_line_with_a_certificate(self):
        done = self.cli("run", "-c", "print('there')", CLOISTER_CA=str(self.authority.ca),
                        CLOISTER_CERT=str(self.alice[0]), CLOISTER_CERT_KEY=str(self.alice[1]))
        self.assertEqual((done.returncode, done.stdout), (0, "there\n"), done.stderr)

    def test_the_command_line_believes_nobody_else(self):
        for ca in ({}, {"CLOISTER_CA": str(self.stranger.ca)}):
            done = self.cli("run", "-c", "1", CLOISTER_API_KEY="clo_secret", **ca)
            self.assertEqual(done.returncode, 125)
            self.assertIn("CLOISTER_CA", done.stderr)
        done = self.cli("run", "-c", "1", CLOISTER_CA="/nowhere.pem")
        self.assertIn("CLOISTER_CA: /nowhere.pem", done.stderr)

    def test_the_command_line_checks_the_name(self):
        wrong = f"https://127.0.0.2:{self.server.port}"
        done = self.cli("run", "-c", "1", CLOISTER_URL=wrong, CLOISTER_CA=str(self.authority.ca),
                        CLOISTER_API_KEY="clo_secret")
        self.assertEqual(done.returncode, 125, done.stderr)


class Renewal(unittest.TestCase):
    def serial(self, server, authority):
        with socket.create_connection((server.host, server.port), timeout=10) as plain:
            with authority.trusting().wrap_socket(plain, server_hostname="localhost") as shaken:
                return shaken.getpeercert()["serialNumber"]

    def test_a_new_certificate_needs_no_restart(self):
        with Authority("renewal") as authority:
            files = authority.issue("one", SERVER_NAMES, "serverAuth", into="server")
            config = config_of(authority, files)
            with harness.Server(config=config, tls=authority.trusting()) as server:
                first = self.serial(server, authority)
                files[1].write_text("half a key")
                harness.wait_for("the half key to be refused", lambda: (
                    self.serial(server, authority) and "certificates not read again" in server.log.read_text()))
                self.assertEqual(self.serial(server, authority), first)
                authority.issue("two", SERVER_NAMES, "serverAuth", into="server")
                harness.wait_for("the new certificate",
                                 lambda: self.serial(server, authority) != first)
                self.assertEqual(server.run("print(3)")["stdout"], "3\n")


class Values(unittest.TestCase):
    """Servers that have different files."""

    def setUp(self):
        self.authorities = [self.enterContext(Authority(name)) for name in ("one", "two")]

    def serve(self, config, trusting):
        return self.enterContext(harness.Server(config=config, tls=trusting.trusting()))

    def shown(self, server, trusting):
        """The certificate whose key the server has, as PEM."""
        with socket.create_connection((server.host, server.port), timeout=10) as plain:
            with trusting.trusting().wrap_socket(plain, server_hostname="localhost") as shaken:
                return ssl.DER_cert_to_PEM_cert(shaken.getpeercert(binary_form=True))

    def test_the_certificate_and_its_key(self):
        for authority in self.authorities:
            certificate, key = authority.issue("server", SERVER_NAMES, "serverAuth")
            server = self.serve(f"tls:\n  certificate: {certificate}\n  key: {key}\n", authority)
            self.assertEqual(self.shown(server, authority), certificate.read_text())

    def test_whose_certificates_are_believed(self):
        own = self.authorities[0]
        files = own.issue("server", SERVER_NAMES, "serverAuth")
        shown = [authority.issue("alice", "DNS:alice.example") for authority in self.authorities]
        for number, authority in enumerate(self.authorities):
            server = self.serve(f"tls:\n  certificate: {files[0]}\n  key: {files[1]}\n  client_ca: {authority.ca}\n"
                                "  clients: ['dns:alice.example = tenant:acme agent:alice roles:agent']\n", own)
            ask = lambda which: harness.http_request(server.host, server.port, "GET", "/v1/whoami", tls=own.trusting(shown[which]))
            self.assertEqual(ask(number).json().get("agent"), "alice")
            with self.assertRaises((ssl.SSLError, ConnectionError, http.client.RemoteDisconnected)):
                ask(1 - number)


class Mistakes(unittest.TestCase):
    def said(self, config):
        server = harness.Server(config=config, ready=False)
        with contextlib.suppress(AssertionError):
            with server:
                with contextlib.suppress(subprocess.TimeoutExpired):
                    server.process.wait(10)
                return server.log_tail()

    def test_each_names_its_key(self):
        with Authority("mistakes") as authority:
            own = authority.issue("server", SERVER_NAMES, "serverAuth")
            other = authority.issue("other", SERVER_NAMES, "serverAuth")
            good = config_of(authority, own)
            for config, wanted in (
                    (f"tls:\n  certificate: {own[0]}\n", "tls.key: is required"),
                    (f"tls:\n  key: {own[1]}\n", "tls.key: needs tls.certificate"),
                    (f"tls:\n  certificate: {own[0]}\n  key: {other[1]}\n", f"tls.key: {other[1]}"),
                    (f"tls:\n  certificate: /none.pem\n  key: {own[1]}\n", "tls.certificate: /none"),
                    (good + "  client_crl: /none.pem\n", "tls.client_crl: /none.pem"),
                    (good + "  clients: ['a = tenant:t roles:agent']\n", "tls.clients: \\\"a = ")):
                with self.subTest(wanted):
                    self.assertIn(wanted, self.said(config) or "")


if __name__ == "__main__":
    unittest.main()
