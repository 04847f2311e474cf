#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Signs images with a private key in a file: a signature as `cosign sign --key` makes it, and the bill of materials as an
attestation as `cosign attest --key` makes it. Checks a key, and prints the absolute path of its file:

    tools/image_signature.py KEY.pem
"""

import base64
import json
import pathlib
import subprocess
import sys

SIGNATURE_KIND = "application/vnd.dev.cosign.artifact.sig.v1+json"
PAYLOAD_TYPE = "application/vnd.dev.cosign.simplesigning.v1+json"
STATEMENT_TYPE = "application/vnd.in-toto+json"
ENVELOPE_TYPE = "application/vnd.dsse.envelope.v1+json"
PREDICATE = "https://cyclonedx.org/bom"
SIGNATURE = "dev.cosignproject.cosign/signature"
MOST_KEY_BYTES = 64 << 10
REMEDY = "make one with: openssl genpkey -algorithm EC -pkeyopt ec_paramgen_curve:P-256 -out KEY.pem"


class Unusable(Exception):
    """The key cannot sign; the message has the reason and the remedy."""


def openssl(*arguments, data=b""):
    """→ (whether it succeeded, its output)."""
    try:
        done = subprocess.run(["openssl", *arguments], input=data, capture_output=True)
    except FileNotFoundError:
        raise Unusable("--sign needs openssl: apt-get install openssl") from None
    return done.returncode == 0, done.stdout


class Key:
    """A private key of ECDSA on P-256, which only openssl reads: the key itself is on no command line."""

    def __init__(self, argument):
        if "\n" in argument or "PRIVATE KEY-" in argument:
            raise Unusable("--sign takes the path of a file, not the key itself")
        self.path = pathlib.Path(argument).resolve()
        self._check(self._text())

    def _text(self):
        try:
            with open(self.path, "rb") as file:
                return file.read(MOST_KEY_BYTES)
        except OSError as error:
            raise self._unusable(f"reading it: {error.strerror}") from None

    def _unusable(self, why):
        return Unusable(f"--sign: {self.path}: {why}")

    def _check(self, text):
        if b"-BEGIN ENCRYPTED COSIGN" in text or b"-BEGIN ENCRYPTED SIGSTORE" in text:
            raise self._unusable(f"is encrypted by cosign, which openssl cannot read; {REMEDY}, and cosign takes it by: "
                                 "cosign import-key-pair --key KEY.pem")
        if b"-BEGIN ENCRYPTED" in text or b"Proc-Type: 4,ENCRYPTED" in text:
            raise self._unusable(f"is encrypted; decrypt it with: openssl pkey -in {self.path} -out PLAIN.pem")
        if b"PRIVATE KEY-" not in text:
            raise self._unusable(f"has no private key in PEM; {REMEDY}")
        good, described = openssl("pkey", "-in", str(self.path), "-noout", "-text_pub", "-passin", "pass:")
        if not good:
            raise self._unusable(f"has a private key that openssl cannot read; {REMEDY}")
        if b"ASN1 OID: prime256v1" not in described:
            raise self._unusable(f"must be a key of ECDSA on P-256; {REMEDY}")

    def sign(self, data):
        """→ the signature, in base64."""
        good, signature = openssl("dgst", "-sha256", "-sign", str(self.path), data=data)
        if not good:
            raise self._unusable("openssl did not sign with it")
        return base64.b64encode(signature).decode()


def payload(repository, digest):
    """What a signature signs: the format "simple signing"."""
    return json.dumps({"critical": {"identity": {"docker-reference": repository}, "image": {"docker-manifest-digest": digest},
                                    "type": "cosign container image signature"}, "optional": None}).encode()


def envelope(repository, digest, bill, key):
    """The bill as a signed statement of in-toto, in an envelope of DSSE."""
    statement = json.dumps({"_type": "https://in-toto.io/Statement/v0.1", "predicateType": PREDICATE,
                            "subject": [{"name": repository, "digest": {"sha256": digest.removeprefix("sha256:")}}],
                            "predicate": json.loads(bill)}).encode()
    signature = key.sign(f"DSSEv1 {len(STATEMENT_TYPE)} {STATEMENT_TYPE} {len(statement)} ".encode() + statement)
    return json.dumps({"payloadType": STATEMENT_TYPE, "payload": base64.b64encode(statement).decode(),
                       "signatures": [{"keyid": "", "sig": signature}]}).encode()


def attach(layout, image, repository, bill, key):
    """Adds to a layout (oci_archive.Layout) the signature of its image and the attestation of the bill."""
    digest = image["digest"]
    tag = digest.replace(":", "-")
    signed = payload(repository, digest)
    layout.artifact(image, SIGNATURE_KIND, {**layout.blob(PAYLOAD_TYPE, signed), "annotations": {SIGNATURE: key.sign(signed)}},
                    f"{tag}.sig")
    attested = layout.blob(ENVELOPE_TYPE, envelope(repository, digest, bill, key))
    layout.artifact(image, STATEMENT_TYPE, {**attested, "annotations": {SIGNATURE: "", "predicateType": PREDICATE}}, f"{tag}.att")


def main():
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    print(Key(sys.argv[1]).path)


if __name__ == "__main__":
    try:
        main()
    except Unusable as reason:
        sys.exit(f"image_signature: {reason}")
