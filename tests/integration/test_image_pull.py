#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""`cloister image pull`: images of a real registry are verified before use, and what cannot be verified leaves nothing."""

import base64
import contextlib
import json
import os
import pathlib
import shutil
import signal
import subprocess
import tempfile
import unittest

import harness
import inert
import machine
import own_images
from image_registry import OCI, PASSWORD, USER, Authority, Key, Registry, Relay, TokenService, signing_payload
from test_image_import import MACHINE, digest_of, tar
from test_images import libraries

REFUSED = 3  # docs/CLI.md: what policy refuses
APP = tar(("bin", None), ("bin/tool", b"#!/bin/sh\n"))


def logins(folder, **hosts):
    """A file of logins in docker's form: its path."""
    auth = base64.b64encode(f"{USER}:{PASSWORD}".encode()).decode()
    file = folder / "logins.json"
    file.write_text(json.dumps({"auths": {host: {"auth": auth} for host in hosts["at"]}}))
    return file


class WithRegistry(unittest.TestCase):
    """A registry over HTTP of loopback with the image `app`, and its keys."""

    @classmethod
    def setUpClass(cls):
        cls.common = pathlib.Path(tempfile.mkdtemp(prefix="cloister-test-pull."))
        cls.addClassCleanup(shutil.rmtree, cls.common)
        cls.registry = cls.enterClassContext(Registry(cls.common / "registry"))
        cls.key, cls.ed, cls.other = (Key(cls.common, "ec"), Key(cls.common, "ed", "ED25519"), Key(cls.common, "other"))
        cls.app = cls.registry.image("team/app", APP)

    def setUp(self):
        self.directory = pathlib.Path(tempfile.mkdtemp(prefix="cloister-test-pull."))
        self.addCleanup(shutil.rmtree, self.directory)
        self.store = self.directory / "store"

    def command(self, reference, images, *arguments):
        command = [harness.BIN / "cloister", "image", "pull", "--images", self.store, *arguments]
        if images is not None:
            config = self.directory / "config.yaml"
            text = json.dumps({"images": {"pull_attempts": 2, "pull_stall_seconds": 20, **images}}, default=str)
            config.write_text(inert.configuration(text, self.directory))
            command += ["--config", config]
        return [*command, reference]

    def reference(self, image, repository="team/app", at=None):
        return f"{at or 'http://' + self.registry.host}/{repository}@{image['digest']}"

    def pull(self, reference, images=None, *arguments, status=0):
        done = subprocess.run(self.command(reference, images, "--json", *arguments), capture_output=True, text=True,
                              timeout=harness.ANSWER_SECONDS)
        self.assertEqual(done.returncode, status, done.stderr + done.stdout)
        return json.loads(done.stdout) if status == 0 else done.stderr

    def refused(self, reference, images, *why, status=REFUSED):
        before = set(self.left()) | {"names"}
        said = self.pull(reference, images, "--replace", status=status)
        for each in why:
            self.assertIn(each, said)
        self.assertLessEqual(set(self.left()), before)
        return said

    def left(self):
        return sorted(path.name for path in self.store.iterdir()) if self.store.exists() else []

    def root(self, image):
        return self.store / image["digest"].replace(":", "-") / "root"

    def fresh(self, repository, content=b"1"):
        """An image of its own in a repository of its own."""
        return self.registry.image(repository, tar(("etc", None), ("etc/own", repository.encode() + content)))


class Pull(WithRegistry):
    def test_the_image_is_what_an_import_makes(self):
        image = self.pull(self.reference(self.app))
        self.assertEqual((image["name"], image["source"]), ("app", "oci"))
        self.assertEqual(image["verified"], {"reference": f"{self.registry.host}/team/app@{self.app['digest']}", "key": None, "sbom": None})
        self.assertEqual((self.root(image) / "bin/tool").read_bytes(), b"#!/bin/sh\n")
        plain = self.directory / "plain.tar"
        plain.write_bytes(APP)
        again = subprocess.run([harness.BIN / "cloister", "image", "import", "--json", "--images", self.store, "plain", plain],
                               capture_output=True, text=True, check=True)
        self.assertEqual(json.loads(again.stdout)["digest"], image["digest"])
        self.assertIsNone(json.loads(again.stdout)["verified"])
        listed = subprocess.run([harness.BIN / "cloister", "image", "list", "--json", "--images", self.store],
                                capture_output=True, text=True, check=True)
        self.assertEqual({each["name"]: each["verified"] for each in json.loads(listed.stdout)["images"]},
                         {"app": image["verified"], "plain": None})

    def test_names(self):
        reference = self.reference(self.app).replace("@", ":v1@")
        self.assertEqual(self.pull(reference, None, "--name", "mine")["name"], "mine")
        self.assertIn("--replace", self.pull(reference, None, "--name", "mine", status=REFUSED))
        self.assertEqual(self.pull(reference, None, "--name", "mine", "--replace")["name"], "mine")
        self.assertIn("--name NAME", self.pull(self.reference(self.app, "team/" + "x" * 70), status=2))
        self.assertIn("no name of an image", self.pull(reference, None, "--name", "a/b", status=2))

    def test_a_tag_alone_gets_the_remedy(self):
        for reference in ("python:3.12", f"http://{self.registry.host}/team/app", "app@sha256:12"):
            self.assertIn("REF@sha256:DIGEST", self.pull(reference, status=2))
        self.assertIn("use https", self.pull("http://registry.example/a@" + self.app["digest"], status=2))

    def test_the_platform_of_this_machine(self):
        other = {"amd64": "arm64", "arm64": "amd64"}
        own = next(name for name in other if name == MACHINE)
        foreign = self.registry.image("team/app", tar(("foreign", b"1")), architecture=other[own])
        both = self.registry.index("team/app", {other[own]: foreign, own: self.app})
        image = self.pull(self.reference(both))
        self.assertTrue((self.root(image) / "bin/tool").exists())
        self.assertIn(both["digest"], image["verified"]["reference"])
        none = self.registry.index("team/app", {other[own]: foreign})
        self.refused(self.reference(none), {}, f"no image for linux/{own}", status=125)

    def test_what_a_registry_has_not(self):
        self.refused(self.reference({"digest": digest_of(b"none")}), {}, "has it not (404)", status=4)

    def test_limits(self):
        big = self.registry.image("team/big", tar(("noise", os.urandom(3 << 20))))
        self.refused(self.reference(big, "team/big"), {"max_mb": 1}, "images.max_mb", status=3)

    def test_runs_in_it(self):
        root = [(name, path) for name, path in (("bin/bash", "/bin/bash"), *((each.lstrip("/"), each) for each in libraries("/bin/bash")))]
        bash = self.registry.image("team/bash", tar(*((name, pathlib.Path(os.path.realpath(path)).read_bytes()) for name, path in root)))
        self.registry.sign("team/bash", bash, self.key)
        image = self.pull(self.reference(bash, "team/bash"), {"keys": [self.key.public], "require_signature": True}, "--name", "signed")
        self.directory.chmod(0o755)
        with harness.Server(f"node:\n  images: {self.store}\n") as server:
            done = server.cli("run", "--image", "signed", "--language", "bash", "-c", "echo in $((40 + 2)); [ -e /usr/bin/python3 ] || echo alone")
            self.assertEqual((done.returncode, done.stdout), (0, "in 42\nalone\n"), done.stderr)
            offered = {each["name"]: each for each in server.request("GET", "/v1/images").json()["images"]}
        self.assertEqual(offered["signed"]["verified"], image["verified"])
        self.assertEqual(image["verified"]["key"], self.key.id)
        self.assertIsNone(offered["host"]["verified"])


class Ways(WithRegistry):
    """Mirrors, logins, authorities, and what goes wrong on the way."""

    def relay(self, **options):
        relay = self.enterContext(Relay(self.registry, options.pop("context", None)))
        for name, value in options.items():
            setattr(relay, name, value)
        return relay

    def test_mirrors(self):
        relay = self.relay()
        reference = f"images.invalid/app@{self.app['digest']}"
        image = self.pull(reference, {"mirrors": {"images.invalid": ["http://127.0.0.1:9", relay.url + "/team"]}})
        self.assertEqual(image["verified"]["reference"], reference)
        self.assertIn(f"/v2/team/app/manifests/{self.app['digest']}", [path for path, _ in relay.seen])
        self.refused(reference, {"mirrors": {"images.invalid": ["http://mirror.example"]}}, "images.mirrors: http://mirror.example", status=2)

    def test_a_mirror_cannot_lie(self):
        relay = self.relay()
        relay.swap[f"/v2/team/app/manifests/{self.app['digest']}"] = b'{"layers":[]}'
        mirrors = {"mirrors": {self.registry.host: [relay.url]}}
        self.pull(self.reference(self.app), mirrors)  # the registry itself has the right one
        self.refused(self.reference(self.app, at="http://" + relay.host), {}, "damaged or was changed", status=2)

    def test_a_basic_login_over_tls(self):
        authority = Authority(self.directory)
        with Registry(self.directory / "closed", authority, login=True) as closed:
            app = closed.image("team/app", APP)
            reference = f"{closed.host}/team/app@{app['digest']}"
            good = {"ca_file": authority.ca, "credentials_file": logins(self.directory, at=[closed.host])}
            self.assertEqual(self.pull(reference, good)["verified"]["reference"], reference)
            self.refused(reference, {**good, "ca_file": ""}, "images.ca_file names a file of the authority", status=125)
            self.refused(reference, {"ca_file": authority.ca}, "images.credentials_file has none for it")
            self.refused(reference, {**good, "credentials_file": logins(self.directory, at=["other.example"])}, "images.credentials_file")
            wrong = self.directory / "wrong.json"
            wrong.write_text(json.dumps({"auths": {closed.host: {"username": USER, "password": "no"}}}))
            said = self.refused(reference, {**good, "credentials_file": wrong}, "check its login in images.credentials_file")
            self.assertNotIn("no:", said)

    def test_a_token(self):
        authority = Authority(self.directory)
        tokens = self.enterContext(TokenService(self.directory, authority))
        with Registry(self.directory / "closed", authority, token=tokens) as closed:
            app = closed.image("team/app", APP)
            reference = f"{closed.host}/team/app@{app['digest']}"
            good = {"ca_file": authority.ca, "credentials_file": logins(self.directory, at=[closed.host])}
            self.pull(reference, good)
            query, user = tokens.asked[-1]
            self.assertEqual((query["service"], query["scope"]), ("registry.test", "repository:team/app:pull"))
            self.assertEqual(user, f"{USER}:{PASSWORD}")
            self.refused(reference, {"ca_file": authority.ca}, "refuses the login", "images.credentials_file")

    def test_a_redirect_gets_no_credentials(self):
        authority = Authority(self.directory)
        storage = self.relay(context=authority.server_context())
        front = self.relay(context=authority.server_context(), login=True, blobs_at=storage.url)
        images = {"ca_file": authority.ca, "credentials_file": logins(self.directory, at=[front.host, storage.host])}
        reference = self.reference(self.app, at=front.host)
        self.pull(reference, images)
        self.assertTrue(any("Authorization" in headers for _, headers in front.seen))
        self.assertTrue(storage.seen)
        self.assertFalse(any("Authorization" in headers for _, headers in storage.seen))
        front.blobs_at = front.url
        plain = self.relay()
        front.blobs_at = plain.url
        shutil.rmtree(self.store)
        self.refused(reference, images, "redirects from https to http")
        self.assertEqual(plain.seen, [])
        for place in ("file:///etc/passwd", "http://storage.example", "https://u:p@storage.example"):
            front.blobs_at = place
            self.refused(reference, images, "redirects to")

    def test_redirects_are_counted(self):
        relay = self.relay()
        relay.blobs_at = relay.url
        self.refused(self.reference(self.app, at="http://" + relay.host), {}, "redirects more than 3 times")

    def test_what_breaks_off_is_resumed(self):
        big = self.registry.image("team/big", tar(("noise", os.urandom(256 << 10))))
        relay = self.relay(break_after=100_000)
        reference = self.reference(big, "team/big", at="http://" + relay.host)
        self.pull(reference, {"pull_attempts": 4})
        self.assertIn("bytes=100000-", [headers.get("Range") for _, headers in relay.seen])
        shutil.rmtree(self.store)
        relay.ignore_range = True
        self.refused(reference, {"pull_attempts": 2}, "2 attempts (images.pull_attempts)", "it broke off", status=125)

    def test_attempts(self):
        relay = self.relay(refuse=[503, 429])
        reference = self.reference(self.app, at="http://" + relay.host)
        self.refused(reference, {"pull_attempts": 1}, "images.pull_attempts", "answers 503", status=125)
        relay.refuse = [503, 429]
        self.pull(reference, {"pull_attempts": 3})

    def test_a_registry_that_stalls(self):
        relay = self.relay(stall=True)
        reference = self.reference(self.app, at="http://" + relay.host)
        self.refused(reference, {"pull_stall_seconds": 1, "pull_seconds": 15, "pull_attempts": 1}, "sends nothing for images.pull_stall_seconds", status=125)

    def test_a_pull_that_takes_too_long(self):
        relay = self.relay(stall=True)
        reference = self.reference(self.app, at="http://" + relay.host)
        self.refused(reference, {"pull_seconds": 1}, "images.pull_seconds", status=125)

    def test_an_interrupted_pull_leaves_nothing(self):
        relay = self.relay(stall=True)
        command = self.command(self.reference(self.app, at="http://" + relay.host), {})
        for sent, status in ((signal.SIGINT, 130), (signal.SIGKILL, -signal.SIGKILL)):
            running = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
            with contextlib.closing(running.stderr):
                relay.seen.clear()
                harness.wait_for("the blob", lambda: any("/blobs/" in path for path, _ in relay.seen), seconds=20)
                self.assertEqual(len(machine.processes(str(self.store))), 2)
                running.send_signal(sent)
                self.assertEqual(running.wait(timeout=20), status)
            harness.wait_for("the end of the fetching process", lambda: not machine.processes(str(self.store)), seconds=10)
            if sent == signal.SIGINT:
                self.assertEqual(self.left(), ["names"])
        relay.release()
        relay.stall = False
        image = self.pull(self.reference(self.app))
        self.assertEqual(self.left(), sorted(["names", image["digest"].replace(":", "-")]), "the next pull removes what a kill leaves")

    def test_what_the_storage_changed(self):
        image = self.fresh("changed/blob")
        layer = json.loads(self.registry.request("GET", f"/v2/changed/blob/manifests/{image['digest']}").body)["layers"][0]
        data = self.registry.path_of(layer["digest"])
        data.write_bytes(data.read_bytes()[:-1] + b"x")
        self.refused(self.reference(image, "changed/blob"), {}, "layer 1 of 1", layer["digest"], "damaged or was changed", status=2)
        longer = self.fresh("changed/size")
        document = self.registry.request("GET", f"/v2/changed/size/manifests/{longer['digest']}").body
        relay = self.relay()
        relay.swap[f"/v2/changed/size/manifests/{longer['digest']}"] = document + b" "
        self.refused(self.reference(longer, "changed/size", at="http://" + relay.host), {}, "damaged or was changed", status=2)

    def test_two_readings(self):
        document = {"schemaVersion": 2, "mediaType": f"{OCI}.index.v1+json", "manifests": [], "layers": [], "config": {}}
        data = json.dumps(document).encode()
        relay = self.relay()
        relay.swap[f"/v2/team/app/manifests/{digest_of(data)}"] = data
        self.refused(self.reference({"digest": digest_of(data)}, at="http://" + relay.host), {}, "may be read in two ways", status=2)


class Signatures(WithRegistry):
    def wants(self, **more):
        return {"keys": [self.other.public, self.key.public], "require_signature": True, **more}

    def unsigned(self, repository, *why, **more):
        image = self.images[repository]
        return self.refused(self.reference(image, repository), self.wants(**more), "images.require_signature refuses the image", *why)

    def setUp(self):
        super().setUp()
        self.images = {}

    def image(self, repository):
        self.images[repository] = self.fresh(repository)
        return self.images[repository]

    def test_both_places_and_both_kinds(self):
        for number, (key, referrer) in enumerate([(self.key, False), (self.key, True), (self.ed, False), (self.ed, True)]):
            repository = f"signed/{number}"
            image = self.fresh(repository)
            self.registry.sign(repository, image, key, referrer=referrer)
            got = self.pull(self.reference(image, repository), {"keys": [key.public], "require_signature": True})
            self.assertEqual(got["verified"]["key"], key.id)

    def test_referrers_by_the_interface(self):
        image = self.fresh("signed/api")
        self.registry.sign("signed/api", image, self.key, referrer=True)
        relay = self.enterContext(Relay(self.registry))
        relay.referrers = True
        got = self.pull(self.reference(image, "signed/api", at="http://" + relay.host), self.wants())
        self.assertEqual(got["verified"]["key"], self.key.id)
        self.assertTrue(any("/referrers/" in path for path, _ in relay.seen))
        self.assertFalse(any(path.endswith("/manifests/" + image["digest"].replace(":", "-")) for path, _ in relay.seen))

    def test_bundles(self):
        image = self.fresh("signed/bundle")
        self.registry.attest("signed/bundle", image, "https://sigstore.dev/cosign/sign/v1", {}, self.key, bundle=True)
        self.assertEqual(self.pull(self.reference(image, "signed/bundle"), self.wants())["verified"]["key"], self.key.id)
        other = self.image("signed/statement")
        self.registry.attest("signed/statement", other, "https://example.org/other", {}, self.key, bundle=True)
        self.unsigned("signed/statement", "signs something else than the image")
        third = self.image("signed/third")
        self.registry.attest("signed/third", third, "https://sigstore.dev/cosign/sign/v1", {}, self.key, bundle=True, of=self.app["digest"])
        self.unsigned("signed/third", "of another image, " + self.app["digest"])

    def test_unsigned(self):
        self.image("bad/unsigned")
        self.unsigned("bad/unsigned", "it is not signed")

    def test_another_key(self):
        self.registry.sign("bad/key", self.image("bad/key"), self.ed)
        self.unsigned("bad/key", "of no key of images.keys")

    def test_the_payload_of_another_image(self):
        self.registry.sign("bad/other", self.image("bad/other"), self.key, of=self.app["digest"])
        self.unsigned("bad/other", "a signature is of another image, " + self.app["digest"])

    def test_a_changed_payload(self):
        image = self.image("bad/payload")
        self.registry.sign("bad/payload", image, self.key, change=lambda payload, signature: (payload.replace(b"any", b"all"), signature))
        self.unsigned("bad/payload", "or its payload was changed")
        self.registry.sign("bad/payload", image, self.key, payload=signing_payload(image["digest"], "atomic container signature"))
        self.unsigned("bad/payload", "critical.type")

    def test_a_changed_signature(self):
        image = self.image("bad/signature")
        self.registry.sign("bad/signature", image, self.key, change=lambda payload, signature: (payload, signature[:-1] + bytes([signature[-1] ^ 1])))
        self.unsigned("bad/signature", "of no key of images.keys, or it")
        self.registry.sign("bad/signature", image, self.key, change=lambda payload, signature: (payload, b""))
        self.unsigned("bad/signature", "missing or malformed")

    def test_a_changed_manifest_and_a_changed_layer(self):
        image = self.image("bad/manifest")
        self.registry.sign("bad/manifest", image, self.key)
        document = json.loads(self.registry.request("GET", f"/v2/bad/manifest/manifests/{image['digest']}").body)
        layer = self.registry.path_of(document["layers"][0]["digest"])
        before = layer.read_bytes()
        layer.write_bytes(before[:-1] + b"x")
        self.refused(self.reference(image, "bad/manifest"), self.wants(), "layer 1 of 1", "damaged or was changed", status=2)
        layer.write_bytes(before)
        self.pull(self.reference(image, "bad/manifest"), self.wants())
        shutil.rmtree(self.store)
        relay = self.enterContext(Relay(self.registry))
        relay.swap[f"/v2/bad/manifest/manifests/{image['digest']}"] = json.dumps(document).encode() + b"\n"
        self.refused(self.reference(image, "bad/manifest", at="http://" + relay.host), self.wants(), "damaged or was changed", status=2)

    def test_a_good_one_among_others(self):
        image = self.fresh("signed/many")
        self.registry.sign("signed/many", image, self.ed, referrer=True)
        self.registry.sign("signed/many", image, self.key, referrer=True)
        self.registry.artifact("signed/many", [(b"any", "application/x-unknown", {})], image, "application/x-unknown")
        self.assertEqual(self.pull(self.reference(image, "signed/many"), self.wants())["verified"]["key"], self.key.id)

    def test_what_needs_none(self):
        self.image("free/app")
        self.unsigned("free/app", "not signed", unsigned=["registry.example/*"])
        got = self.pull(self.reference(self.images["free/app"], "free/app"), self.wants(unsigned=[f"{self.registry.host}/free/*"]))
        self.assertIsNone(got["verified"]["key"])

    def test_without_a_need(self):
        done = subprocess.run(self.command(self.reference(self.image("free/two"), "free/two"), {"keys": [self.key.public]}),
                              capture_output=True, text=True, timeout=harness.ANSWER_SECONDS)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("note: no signature of the image counts: it is not signed", done.stderr)

    def test_keys(self):
        reference = self.reference(self.app)
        self.refused(reference, {"require_signature": True}, "images.require_signature: needs images.keys", status=2)
        self.refused(reference, {"keys": [self.key.private]}, "is a private key", status=2)
        self.refused(reference, {"keys": ["/nowhere.pub"]}, "images.keys: /nowhere.pub", status=4)


def cyclonedx(*purls):
    return {"bomFormat": "CycloneDX", "specVersion": "1.5", "components": [
        {"type": "library", "name": purl.split("/")[-1].split("@")[0], "version": "0", "purl": purl} for purl in purls]}


def spdx(*purls):
    return {"spdxVersion": "SPDX-2.3", "name": "x", "packages": [
        {"name": "p", "versionInfo": "0", "externalRefs": [{"referenceCategory": "PACKAGE-MANAGER", "referenceType": "purl",
                                                            "referenceLocator": purl}]} for purl in purls]}


OPENSSL = "pkg:deb/debian/libssl3@3.0.11-1~deb12u2?arch=amd64&distro=debian-12&upstream=openssl"
CYCLONEDX, SPDX = "https://cyclonedx.org/bom", "https://spdx.dev/Document"


class Bills(WithRegistry):
    def attested(self, repository, bill=None, kind=CYCLONEDX, key=None, **options):
        """→ the reference of an image with this attestation."""
        image = self.fresh(repository)
        self.registry.attest(repository, image, kind, bill or cyclonedx(OPENSSL), key or self.key, **options)
        return self.reference(image, repository)

    def wants(self, **more):
        return {"keys": [self.key.public], "require_sbom": True, **more}

    def test_attestations(self):
        for name, bill, kind, bundle in (("cyclonedx", cyclonedx(OPENSSL), CYCLONEDX, False), ("spdx", spdx(OPENSSL), SPDX, False),
                                         ("bundle", spdx(OPENSSL), SPDX, True)):
            with self.subTest(name):
                reference = self.attested(f"bills/{name}", bill, kind, bundle=bundle)
                self.assertRegex(self.pull(reference, self.wants())["verified"]["sbom"], "^sha256:")
                self.refused_after_removal(reference)

    def refused_after_removal(self, reference):
        shutil.rmtree(self.store)
        self.refused(reference, self.wants(deny=["libssl*"]), "images.deny refuses the image", "deb/debian/libssl3 3.0.11-1~deb12u2 (libssl*)")

    def test_plain_documents(self):
        image = self.fresh("bills/plain")
        bill = json.dumps(cyclonedx(OPENSSL)).encode()
        pushed = self.registry.artifact("bills/plain", [(bill, "application/vnd.cyclonedx+json", {})], image, "application/vnd.cyclonedx+json")
        reference = self.reference(image, "bills/plain")
        self.refused(reference, self.wants(), "images.require_sbom refuses the image", "is not signed by a key of images.keys")
        self.assertEqual(self.pull(reference, {"require_sbom": True})["verified"]["sbom"], digest_of(bill))
        shutil.rmtree(self.store)
        self.registry.sign("bills/plain", pushed, self.key)
        self.assertEqual(self.pull(reference, self.wants())["verified"]["sbom"], digest_of(bill))
        tagged = self.fresh("bills/tag")
        self.registry.artifact("bills/tag", [(bill, "text/spdx+json", {})], tag=tagged["digest"].replace(":", "-") + ".sbom")
        self.pull(self.reference(tagged, "bills/tag"), {"require_sbom": True})

    def test_what_is_refused(self):
        said = "images.require_sbom refuses the image"
        none = self.fresh("bills/none")
        self.refused(self.reference(none, "bills/none"), self.wants(), said, "it has no bill of materials")
        self.refused(self.reference(none, "bills/none"), {"deny": ["x"]}, "images.deny refuses the image: it has no bill")
        self.refused(self.reference(none, "bills/none"), {"advisories": self.directory}, "images.advisories refuses the image: it has no bill")
        self.refused(self.attested("bills/key", key=self.other), self.wants(), said, "signed by no key of images.keys")
        self.refused(self.attested("bills/changed", change=lambda text: text.replace(b"libssl3", b"libfine")), self.wants(), said, "or was changed")
        self.refused(self.attested("bills/other", of=self.app["digest"]), self.wants(), said, "is of another image")
        self.refused(self.attested("bills/kind", {"bomFormat": "Other"}), self.wants(), said, "neither CycloneDX nor SPDX")
        self.refused(self.attested("bills/empty", cyclonedx()), self.wants(), said, "names no package")
        self.refused(self.attested("bills/predicate", kind="https://example.org/x"), self.wants(), said, "it has no bill of materials")

    def test_the_size(self):
        reference = self.attested("bills/large", {**cyclonedx(OPENSSL), "more": "x" * (2 << 20)})
        self.refused(reference, self.wants(sbom_mb=1), "images.require_sbom refuses the image", "at most")
        self.pull(reference, self.wants(sbom_mb=8))

    def test_deny(self):
        reference = self.attested("bills/deny", cyclonedx(OPENSSL, "pkg:npm/%40scope/inner@1.0.0"))
        for item in ("deb/libssl3", "npm/@scope/*", "@scope/inner"):
            self.refused(reference, {"deny": [item]}, "images.deny refuses the image", f"({item})")
        self.pull(reference, {"deny": ["npm/libssl3", "openssl"]})

    def advisory(self, name, ecosystem, package, fixed, **more):
        (self.directory / "osv").mkdir(exist_ok=True)
        (self.directory / "osv" / f"{name}.json").write_text(json.dumps({
            "id": name, "summary": "bad", "affected": [{"package": {"ecosystem": ecosystem, "name": package}, "ranges": [
                {"type": "ECOSYSTEM", "events": [{"introduced": "0"}, {"fixed": fixed}]}]}], **more}))
        return {"advisories": self.directory / "osv"}

    def test_advisories_of_debian(self):
        reference = self.attested("bills/osv")
        score = "CVSS:3.1/AV:N/AC:L/PR:N/UI:N/S:U/C:H/I:H/A:H"
        images = self.advisory("DSA-1", "Debian:12", "openssl", "3.0.11-1~deb12u3", severity=[{"type": "CVSS_V3", "score": score}])
        self.refused(reference, images, "images.advisories refuses the image",
                     "deb/debian/libssl3 3.0.11-1~deb12u2: DSA-1 (critical, fixed in 3.0.11-1~deb12u3)")
        self.advisory("DSA-1", "Debian:12", "openssl", "3.0.11-1~deb12u2")
        self.pull(reference, images)
        self.advisory("DSA-1", "Debian:11", "openssl", "3.0.11-1~deb12u3")
        self.pull(reference, images, "--replace")

    def test_advisories_of_other_ecosystems(self):
        reference = self.attested("bills/others", cyclonedx("pkg:pypi/Demo_Lib@1.4", "pkg:npm/%40scope/inner@2.0.0", "pkg:golang/x/y@v1"))
        images = self.advisory("PYSEC-1", "PyPI", "demo-lib", "1.5", database_specific={"severity": "HIGH"})
        self.advisory("GHSA-1", "npm", "@scope/inner", "2.0.1", database_specific={"severity": "CRITICAL"})
        self.refused(reference, images, "pypi/Demo_Lib 1.4: PYSEC-1 (high, fixed in 1.5)", "npm/@scope/inner 2.0.0: GHSA-1 (critical")
        (self.directory / "osv/bad.json").write_text("{")
        self.refused(reference, images, "images.advisories: ", "bad.json", status=2)

    def test_severity(self):
        reference = self.attested("bills/severity")
        images = self.advisory("CVE-2", "Debian:12", "openssl", "9", database_specific={"severity": "MODERATE"})
        self.refused(reference, {**images, "severity": "medium"}, "CVE-2 (medium")
        self.pull(reference, images)
        self.advisory("CVE-2", "Debian:12", "openssl", "9")
        self.refused_more(reference, images, "CVE-2 (of unknown severity")
        self.refused_more(reference, {**images, "severity": "worst"}, "images.severity: must be", status=2)

    def refused_more(self, reference, images, *why, status=REFUSED):
        shutil.rmtree(self.store)
        self.refused(reference, images, *why, status=status)

    def test_accepted_advisories(self):
        reference = self.attested("bills/accepted")
        images = self.advisory("DSA-3", "Debian", "openssl", "9", aliases=["CVE-2026-3"])
        self.refused(reference, {**images, "accepted_advisories": ["CVE-2026-4"]}, "images.accepted_advisories")
        self.pull(reference, {**images, "accepted_advisories": ["CVE-2026-3"]})


class Ours(WithRegistry):
    """An image that `./dev images oci --sign` made, as small as it can be."""

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.file = own_images.make(cls.common / "images", cls.key.private)
        cls.ours = own_images.Archive(cls.file)
        cls.pushed = cls.registry.archive("ours/tags", cls.ours)

    def wants(self, key=None, **more):
        return {"keys": [(key or self.key).public], "require_signature": True, "require_sbom": True, **more}

    def attestation(self):
        return self.ours.manifest(self.ours.index[2])["layers"][0]["digest"]

    def test_is_accepted_by_its_tags(self):
        image = self.pull(self.reference(self.pushed, "ours/tags"), self.wants(deny=["deb/bash"]))
        self.assertEqual((image["verified"]["key"], image["verified"]["sbom"]), (self.key.id, self.attestation()))
        imported = subprocess.run([harness.BIN / "cloister", "image", "import", "--json", "--images", self.store, "again", self.file],
                                  capture_output=True, text=True, check=True)
        self.assertEqual(json.loads(imported.stdout)["digest"], image["digest"])

    def test_is_accepted_by_its_referrers(self):
        image = self.registry.archive("ours/referrers", self.ours, referrers=True)
        relay = self.enterContext(Relay(self.registry))
        relay.referrers = True
        pulled = self.pull(self.reference(image, "ours/referrers", at=relay.url), self.wants())
        self.assertEqual((pulled["verified"]["key"], pulled["verified"]["sbom"]), (self.key.id, self.attestation()))

    def test_its_bill_is_judged(self):
        reference = self.reference(self.pushed, "ours/tags")
        self.refused(reference, self.wants(deny=["deb/dash"]), "images.deny refuses the image", "deb/debian/dash ")
        (self.directory / "osv").mkdir()
        (self.directory / "osv" / "DSA-1.json").write_text(json.dumps({
            "id": "DSA-1", "summary": "of a source package", "database_specific": {"severity": "HIGH"}, "affected": [{
                "package": {"ecosystem": "Debian:12", "name": "glibc"},
                "ranges": [{"type": "ECOSYSTEM", "events": [{"introduced": "0"}, {"fixed": "99"}]}]}]}))
        self.refused(reference, self.wants(advisories=self.directory / "osv"), "images.advisories refuses the image", "deb/debian/libc6 ", "DSA-1")

    def test_another_key_is_refused(self):
        reference = self.reference(self.pushed, "ours/tags")
        self.refused(reference, self.wants(self.other), "images.require_signature refuses the image", "of no key of images.keys")
        self.refused(reference, {"keys": [self.other.public], "require_sbom": True}, "images.require_sbom refuses the image",
                     "signed by no key of images.keys")

    def test_a_changed_byte_of_the_bill_is_refused(self):
        def change(kind, data):
            if kind != "application/vnd.dsse.envelope.v1+json":
                return data
            envelope = json.loads(data)
            statement = base64.b64decode(envelope["payload"])
            self.assertIn(b'"name": "dash"', statement)
            envelope["payload"] = base64.b64encode(statement.replace(b'"name": "dash"', b'"name": "bash"', 1)).decode()
            return json.dumps(envelope).encode()

        image = self.registry.archive("ours/changed", self.ours, change=change)
        self.assertEqual(image["digest"], self.pushed["digest"])
        self.refused(self.reference(image, "ours/changed"), self.wants(), "images.require_sbom refuses the image",
                     "signed by no key of images.keys, or was changed")


if __name__ == "__main__":
    unittest.main()
