# SPDX-License-Identifier: Apache-2.0
"""Bills of materials and signatures of the images that ./dev makes, judged by dpkg, openssl and CycloneDX's own schema."""

import base64
import hashlib
import json
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import unittest
import unittest.mock

REPO = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(REPO / "tests" / "integration"))
import own_images  # noqa: E402
import sbom_schema  # noqa: E402

sys.path.insert(0, str(REPO / "tools"))
import image_bill  # noqa: E402

PYTHON = "/usr/bin/python3"
EC = ("-algorithm", "EC", "-pkeyopt", "ec_paramgen_curve:P-256")
GENERATED = ("etc/", "usr/sbin/", "usr/bin/")  # with files outside packages: links of update-alternatives, ldconfig's cache


def openssl(*arguments, **options):
    return subprocess.run(["openssl", *arguments], check=True, capture_output=True, **options).stdout


class WithKey(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = pathlib.Path(cls.enterClassContext(tempfile.TemporaryDirectory(prefix="cloister-supply.")))
        cls.key = cls.folder / "key.pem"
        openssl("genpkey", *EC, "-out", cls.key)


class Bill(WithKey):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.file = own_images.make(cls.folder / "images")
        cls.bill_file = cls.folder / "images" / "bash.cdx.json"
        cls.bill = json.loads(cls.bill_file.read_text())

    def names(self):
        return [each["name"] for each in self.bill["components"]]

    def test_is_valid_by_the_schema(self):
        self.assertIsNone(sbom_schema.validate(self.bill_file.read_text()))

    def test_names_the_packages_whose_files_are_in_the_image(self):
        """Each file is of a package of the bill, and each of these packages is in the image, unless it has documents alone."""
        tree = self.folder / "images" / "work" / "bash"
        found = {str(path.relative_to(tree)) for path in tree.rglob("*") if path.is_symlink() or path.is_file()}
        owned = {}
        for name in self.names():
            listed = subprocess.run(["dpkg-query", "-L", name], check=True, capture_output=True, text=True).stdout.split("\n")
            owned[name] = {f"{pathlib.Path(path).parent.resolve()}/{pathlib.Path(path).name}".lstrip("/") for path in listed}
        self.assertEqual([path for path in sorted(found - set().union(*owned.values())) if not path.startswith(GENERATED)
                          and path not in ("bin", "sbin", "lib", "lib32", "lib64", "libx32")], [])
        absent = [name for name, files in owned.items() if not files & found]
        self.assertIn("dash", owned)
        self.assertLessEqual(set(absent), {"gcc-12-base"})

    def test_has_what_dpkg_says_of_each(self):
        for each in self.bill["components"]:
            version, architecture = subprocess.run(["dpkg-query", "-W", "-f", "${Version} ${Architecture}", each["name"]], check=True,
                                                   capture_output=True, text=True).stdout.split()
            self.assertEqual((each["version"], each["type"]), (version, "library"))
            self.assertTrue(each["purl"].startswith(f"pkg:deb/debian/{each['name'].replace('+', '%2B')}@"), each["purl"])
            self.assertIn(f"?arch={architecture}&distro=debian-", each["purl"])

    def test_package_urls(self):
        debian = {"ID": "debian", "VERSION_ID": "12"}
        for package, url in ((("dash", "0.5.12-2", "amd64", "dash", "0.5.12-2"), "dash@0.5.12-2?arch=amd64&distro=debian-12"),
                             (("libc6", "2.36-9", "amd64", "glibc", "2.36-9"), "libc6@2.36-9?arch=amd64&distro=debian-12&upstream=glibc"),
                             (("bash", "5.2.15-2+b8", "amd64", "bash", "5.2.15-2"),
                              "bash@5.2.15-2%2Bb8?arch=amd64&distro=debian-12&upstream=bash%405.2.15-2"),
                             (("g++", "4:12.2.0-3", "all", "g++", "4:12.2.0-3"), "g%2B%2B@4%3A12.2.0-3?arch=all&distro=debian-12")):
            self.assertEqual(image_bill.package_url(debian, *package), "pkg:deb/debian/" + url)
        self.assertIn("distro=debian-sid", image_bill.package_url({"ID": "debian"}, "a", "1", "all", "a", "1"))

    def test_names_the_image(self):
        digest = own_images.Archive(self.file).index[0]["digest"]
        image = self.bill["metadata"]["component"]
        self.assertEqual((image["name"], image["version"]), ("localhost/cloister-bash", digest))
        self.assertEqual(image["purl"], "pkg:oci/cloister-bash@" + digest.replace(":", "%3A"))

    def test_the_same_packages_give_the_same_bytes(self):
        again = own_images.make(self.folder / "again")
        self.assertTrue(again.read_bytes() == self.file.read_bytes())
        self.assertEqual((self.folder / "again" / "bash.cdx.json").read_bytes(), self.bill_file.read_bytes())

    def test_an_unsigned_image_comes_back_after_a_signed_one(self):
        folder = self.folder / "both"
        own_images.make(folder, self.key)
        self.assertEqual((folder / "bash.cdx.json").read_bytes(), self.bill_file.read_bytes())
        self.assertTrue(own_images.make(folder).read_bytes() == self.file.read_bytes())

    def test_a_missing_bill_is_made_again(self):
        folder = self.folder / "missing"
        own_images.make(folder)
        (folder / "bash.cdx.json").unlink()
        own_images.make(folder)
        self.assertEqual((folder / "bash.cdx.json").read_bytes(), self.bill_file.read_bytes())


class Signed(WithKey):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.archive = own_images.Archive(own_images.make(cls.folder / "images", cls.key))
        cls.image, cls.signature, cls.attestation = cls.archive.index
        cls.public = cls.folder / "key.pub"
        openssl("pkey", "-in", cls.key, "-pubout", "-out", cls.public)

    def layer(self, entry):
        """→ (its descriptor, its bytes)."""
        (layer,) = self.archive.manifest(entry)["layers"]
        return layer, self.archive.blobs[layer["digest"]]

    def verify(self, signature, data):
        (self.folder / "signature").write_bytes(base64.b64decode(signature, validate=True))
        openssl("dgst", "-sha256", "-verify", self.public, "-signature", self.folder / "signature", input=data)

    def test_each_blob_has_its_digest(self):
        for digest, data in self.archive.blobs.items():
            self.assertEqual("sha256:" + hashlib.sha256(data).hexdigest(), digest)

    def test_both_belong_to_the_image(self):
        tag = self.image["digest"].replace(":", "-")
        for entry, suffix, kind in ((self.signature, ".sig", "application/vnd.dev.cosign.artifact.sig.v1+json"),
                                    (self.attestation, ".att", "application/vnd.in-toto+json")):
            document = self.archive.manifest(entry)
            self.assertEqual(document["subject"], {name: self.image[name] for name in ("mediaType", "digest", "size")})
            self.assertEqual((document["artifactType"], entry["artifactType"]), (kind, kind))
            self.assertEqual(self.archive.tag(entry), tag + suffix)
            self.assertEqual(entry["platform"], {"os": "unknown", "architecture": "unknown"})
            config = json.loads(self.archive.blobs[document["config"]["digest"]])
            self.assertEqual(config["rootfs"]["diff_ids"], [document["layers"][0]["digest"]])

    def test_the_signature(self):
        layer, payload = self.layer(self.signature)
        self.assertEqual(layer["mediaType"], "application/vnd.dev.cosign.simplesigning.v1+json")
        self.verify(layer["annotations"]["dev.cosignproject.cosign/signature"], payload)
        critical = json.loads(payload)["critical"]
        self.assertEqual(critical, {"type": "cosign container image signature", "identity": {"docker-reference": "localhost/cloister-bash"},
                                    "image": {"docker-manifest-digest": self.image["digest"]}})

    def test_the_attestation(self):
        layer, data = self.layer(self.attestation)
        self.assertEqual((layer["mediaType"], layer["annotations"]["predicateType"]),
                         ("application/vnd.dsse.envelope.v1+json", "https://cyclonedx.org/bom"))
        envelope = json.loads(data)
        statement = base64.b64decode(envelope["payload"], validate=True)
        kind = envelope["payloadType"]
        self.verify(envelope["signatures"][0]["sig"], f"DSSEv1 {len(kind)} {kind} {len(statement)} ".encode() + statement)
        statement = json.loads(statement)
        self.assertEqual(statement["subject"], [{"name": "localhost/cloister-bash", "digest": {"sha256": self.image["digest"][7:]}}])
        self.assertEqual(statement["predicate"], json.loads((self.folder / "images" / "bash.cdx.json").read_text()))


class WrongKeys(WithKey):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        files = {name: cls.folder / f"{name}.pem" for name in ("rsa", "ed25519", "p384", "encrypted", "old", "public", "text", "cosign", "broken")}
        openssl("genpkey", "-algorithm", "RSA", "-out", files["rsa"])
        openssl("genpkey", "-algorithm", "ED25519", "-out", files["ed25519"])
        openssl("genpkey", *EC[:3], "ec_paramgen_curve:P-384", "-out", files["p384"])
        openssl("pkey", "-in", cls.key, "-aes256", "-passout", "pass:word", "-out", files["encrypted"])
        openssl("pkey", "-in", cls.key, "-traditional", "-aes256", "-passout", "pass:word", "-out", files["old"])
        openssl("pkey", "-in", cls.key, "-pubout", "-out", files["public"])
        files["text"].write_text("no key\n")
        files["cosign"].write_text("-----BEGIN ENCRYPTED SIGSTORE PRIVATE KEY-----\n")
        files["broken"].write_text("-----BEGIN PRIVATE KEY-----\nAAAA\n-----END PRIVATE KEY-----\n")
        cls.wrong = {
            cls.folder / "nosuch.pem": "reading it: No such file or directory",
            cls.folder: "reading it: Is a directory",
            files["rsa"]: "must be a key of ECDSA on P-256; make one with: openssl genpkey ",
            files["ed25519"]: "must be a key of ECDSA on P-256",
            files["p384"]: "must be a key of ECDSA on P-256",
            files["encrypted"]: f"is encrypted; decrypt it with: openssl pkey -in {files['encrypted']} -out ",
            files["old"]: "is encrypted; decrypt it with: ",
            files["public"]: "has no private key in PEM",
            files["text"]: "has no private key in PEM",
            files["cosign"]: "is encrypted by cosign, which openssl cannot read; make one with: ",
            files["broken"]: "has a private key that openssl cannot read",
        }

    def tool(self, name, *arguments, **env):
        return subprocess.run([PYTHON, REPO / "tools" / name, *arguments], capture_output=True, text=True, stdin=subprocess.DEVNULL,
                              cwd=self.folder, env={**os.environ, **env})

    def test_are_refused_with_the_reason(self):
        for key, words in self.wrong.items():
            with self.subTest(key.name):
                done = self.tool("image_signature.py", key)
                self.assertEqual((done.returncode, done.stdout), (1, ""))
                self.assertIn(f"image_signature: --sign: {key}: {words}", done.stderr)

    def test_are_refused_before_anything_is_made(self):
        out, package = self.folder / "out", self.folder / "none.deb"
        for tool, arguments in (("language_images.py", ["--sign", "nosuch.pem", out, "bash"]),
                                ("language_images.py", [out, "bash", "--sign", "rsa.pem"]),
                                ("package_oci.py", ["--sign", "nosuch.pem", package, out])):
            with self.subTest(tool):
                done = self.tool(tool, *arguments)
                self.assertEqual(done.returncode, 1)
                self.assertIn(f"{tool.removesuffix('.py')}: --sign: {self.folder}/", done.stderr)
                self.assertFalse(out.exists())

    def test_a_key_as_the_value_is_refused_and_not_shown(self):
        done = self.tool("image_signature.py", self.key.read_text())
        self.assertEqual((done.returncode, done.stderr), (1, "image_signature: --sign takes the path of a file, not the key itself\n"))

    def test_without_openssl(self):
        done = self.tool("image_signature.py", self.key, PATH=str(self.folder))
        self.assertEqual((done.returncode, done.stderr), (1, "image_signature: --sign needs openssl: apt-get install openssl\n"))

    def test_openssl_gets_the_path_alone(self):
        (self.folder / "bin").mkdir()
        calls, program = self.folder / "calls", self.folder / "bin" / "openssl"
        program.write_text(f'#!/bin/sh\nprintf "%s\\n" "$*" >>{calls}\nexec {shutil.which("openssl")} "$@"\n')
        program.chmod(0o755)
        with unittest.mock.patch.dict(os.environ, PATH=f"{self.folder}/bin:{os.environ['PATH']}"):
            own_images.make(self.folder / "watched", self.key)
        said = calls.read_text()
        self.assertEqual(said.count(f"-sign {self.key}"), 2, said)
        for line in self.key.read_text().splitlines()[1:-1]:
            self.assertNotIn(line, said)

    def test_other_forms_of_a_key_are_good(self):
        sec1 = self.folder / "sec1.pem"
        openssl("pkey", "-in", self.key, "-traditional", "-out", sec1)
        self.assertIn("BEGIN EC PRIVATE KEY", sec1.read_text())
        done = self.tool("image_signature.py", "sec1.pem")
        self.assertEqual((done.returncode, done.stdout, done.stderr), (0, f"{sec1.resolve()}\n", ""))


if __name__ == "__main__":
    unittest.main()
