# SPDX-License-Identifier: Apache-2.0
"""Tokens of a real OpenID Connect provider (npm oidc-provider), good ones and every kind of bad."""

import base64
import hashlib
import hmac
import json
import signal
import socket
import threading
import time
import unittest

import harness
import openapi
from held import Held
from oidc_provider import Oidc

DOCUMENT = openapi.Document()


def encode(value):
    raw = value if isinstance(value, bytes) else json.dumps(value).encode()
    return base64.urlsafe_b64encode(raw).rstrip(b"=").decode()


def decode(part):
    return json.loads(base64.urlsafe_b64decode(part + "=" * (-len(part) % 4)))


class Trap:
    """A listener on loopback that counts connections."""

    def __enter__(self):
        self.socket = socket.create_server(("127.0.0.1", 0))
        self.url = f"http://127.0.0.1:{self.socket.getsockname()[1]}/jwks"
        self.visits = 0
        threading.Thread(target=self._count, daemon=True).start()
        return self

    def _count(self):
        while True:
            try:
                peer, _ = self.socket.accept()
            except OSError:
                return
            self.visits += 1
            peer.close()

    def __exit__(self, *_):
        self.socket.shutdown(socket.SHUT_RDWR)
        self.socket.close()


class OidcCase(unittest.TestCase):
    def whoami(self, token, server=None):
        answer = (server or self.server).request("GET", "/v1/whoami", key=token)
        DOCUMENT.check("GET", "/v1/whoami", answer)
        return answer

    def good(self, **more):
        """Claims accepted by this service."""
        now = int(time.time())
        claims = {"iss": self.oidc.issuer, "aud": Oidc.RESOURCE, "sub": "s", "iat": now,
                  "exp": now + 60, "tenant": "acme", "roles": ["runner"], **more}
        return {name: value for name, value in claims.items() if value is not None}


class Tokens(OidcCase):
    @classmethod
    def setUpClass(cls):
        cls.oidc = cls.enterClassContext(Oidc())
        cls.oidc.do("claims", {"agent": {"tenant": "acme", "roles": ["runner"], "agent": "bot"},
                               "keeper": {"tenant": "acme", "roles": ["keys"]},
                               "boss": {"tenant": "ops", "roles": ["root"]}})
        cls.server = cls.enterClassContext(harness.Server(config=cls.oidc.config()))

    def test_a_token_is_a_principal(self):
        token = self.oidc.token()
        who = self.whoami(token).json()
        self.assertEqual((who["tenant"], who["app"], who["agent"], who["user"], who["roles"]),
                         ("acme", "agent", "bot", "agent", ["agent"]))
        self.assertEqual(who["credential"], "jwt_" + hashlib.sha256(token.encode()).hexdigest()[:16])
        done = self.server.submit("print(6*7)", key=token).json()
        self.assertEqual((done["stdout"], done["principal"]["tenant"]), ("42\n", "acme"))
        self.assertEqual(self.server.request("GET", "/v1/keys", key=token).status, 403)

    def test_roles_are_those_that_are_mapped(self):
        self.assertEqual(self.whoami(self.oidc.token("keeper")).json()["roles"], ["tenant-admin"])
        self.assertEqual(self.whoami(self.oidc.token("boss")).json()["roles"], ["admin"])
        for roles in (["admin"], [], ["root "], "admin", None, 7, [["root"]]):
            with self.subTest(roles):
                answer = self.whoami(self.oidc.sign(self.good(roles=roles)))
                self.assertEqual(answer.status, 403, answer.text)
                self.assertIn("role", answer.json()["detail"])
        answer = self.whoami(self.oidc.sign(self.good(roles=["runner", "keys"])))
        self.assertEqual(answer.status, 403)
        self.assertIn("do not go together", answer.json()["detail"])

    def test_a_tenant_sees_its_own(self):
        done = self.server.submit("print('mine')", key=self.oidc.token()).json()
        other = self.oidc.sign(self.good(tenant="rival"))
        self.assertEqual(self.server.request("GET", f"/v1/executions/{done['id']}", key=other).status, 404)
        self.assertEqual(self.whoami(self.oidc.sign(self.good(tenant=None))).status, 403)
        for tenant in (7, "a\nb", "x" * 200, ["acme"]):
            self.assertEqual(self.whoami(self.oidc.sign(self.good(tenant=tenant))).status, 403)

    def test_each_algorithm(self):
        for key in ("rsa", "ec", "ed"):
            with self.subTest(key):
                self.assertEqual(self.whoami(self.oidc.sign(self.good(), key=key)).status, 200)

    def test_claims(self):
        now = int(time.time())
        wrong = {
            "another audience": {"aud": "https://other.test/"}, "no audience": {"aud": None},
            "audience in part": {"aud": Oidc.RESOURCE[:-1]}, "audience of objects": {"aud": [{}]},
            "another issuer": {"iss": "https://evil.test"}, "no issuer": {"iss": None},
            "issuer with a slash": {"iss": self.oidc.issuer + "/"}, "issuer list": {"iss": [self.oidc.issuer]},
            "expired": {"exp": now - 1, "iat": now - 60}, "no exp": {"exp": None}, "no iat": {"iat": None},
            "exp as text": {"exp": str(now + 60)}, "exp beyond time": {"exp": 1e300},
            "negative": {"exp": -1}, "of the future": {"iat": now + 600, "exp": now + 900},
            "not yet": {"nbf": now + 600}, "nbf as text": {"nbf": "0"},
            "too long a life": {"exp": now + 10 * 86400}, "exp before iat": {"exp": now + 1, "iat": now + 1},
        }
        for what, claims in wrong.items():
            with self.subTest(what):
                self.refused(self.oidc.sign(self.good(**claims)))
        self.assertEqual(self.whoami(self.oidc.sign(self.good(aud=["x", Oidc.RESOURCE], nbf=now))).status, 200)
        self.refused(self.oidc.token(resource="https://other.test/"))

    def test_time_ends_a_token(self):
        self.oidc.do("ttl", 2)
        token = self.oidc.token()
        self.oidc.do("ttl", 300)
        self.assertEqual(self.whoami(token).status, 200)
        harness.wait_for("the token to expire", lambda: self.whoami(token).status == 401, 20)

    def refused(self, token):
        answer = self.whoami(token)
        self.assertEqual(answer.status, 401, answer.text)
        self.assertEqual(answer.headers["www-authenticate"].split("=")[0], "Bearer resource_metadata")
        shape = {**answer.json()}
        self.assertEqual(shape, self.whoami("clo_" + "0" * 64).json(), "as for a key that is unknown")

    def test_forged(self):
        """Whatever the header says, nothing is fetched from its addresses."""
        claims, keys = encode(self.good()), {k["name"]: k for k in self.oidc.do("keys")}
        rsa = keys["rsa"]
        token = self.oidc.token()
        head, body, signature = token.split(".")

        def none(alg):
            return f"{encode({'alg': alg, 'kid': rsa['kid']})}.{claims}."

        def hs256(secret):
            text = f"{encode({'alg': 'HS256', 'kid': rsa['kid']})}.{claims}"
            return f"{text}.{encode(hmac.new(secret, text.encode(), 'sha256').digest())}"

        with Trap() as trap:
            before = self.oidc.do("hits").get("/jwks", 0)
            forged = {
                "none": none("none"), "None": none("None"), "NONE": none("nOnE"), "no alg": none(""),
                "none, with a signature": none("none") + signature,
                "HS256 with the public key": hs256(rsa["pem"].encode()),
                "HS256 with its JWK": hs256(json.dumps(rsa["jwk"]).encode()),
                "another's claims": f"{head}.{claims}.{signature}",
                "no signature": f"{head}.{body}.", "half a signature": f"{head}.{body}.{signature[:-40]}",
                "one bit": f"{head}.{body}.{'A' if signature[0] != 'A' else 'B'}{signature[1:]}",
                "padding": token + "=", "two parts": f"{head}.{body}", "four parts": token + ".x",
                "ES256 by the RSA key": self.oidc.sign(self.good(), {"alg": "ES256"}),
                "RS256 by the EC key": self.oidc.sign(self.good(), {"alg": "RS256"}, "ec"),
                "the EC key's name": self.oidc.sign(self.good(), {"kid": keys["ec"]["kid"]}),
                "RS512": self.oidc.sign(self.good(), {"alg": "RS512"}),
                "no kid": self.oidc.sign(self.good(), {"kid": ""}),
                "jku": self.oidc.sign(self.good(), {"jku": trap.url}),
                "x5u": self.oidc.sign(self.good(), {"x5u": trap.url}),
                "jwk": self.oidc.sign(self.good(), {"jwk": rsa["jwk"]}),
                "x5c": self.oidc.sign(self.good(), {"x5c": ["AAAA"]}),
                "crit": self.oidc.sign(self.good(), {"crit": ["exp"]}),
                "b64": self.oidc.sign(self.good(), {"b64": False}),
                "zip": self.oidc.sign(self.good(), {"zip": "DEF"}),
                "another type": self.oidc.sign(self.good(), {"typ": "logout+jwt"}),
                "kid as a URL": self.oidc.sign(self.good(), {"kid": trap.url}),
                "kid as a path": self.oidc.sign(self.good(), {"kid": "../../../../dev/null"}),
                "kid as SQL": self.oidc.sign(self.good(), {"kid": "x' UNION SELECT 'k' --"}),
                "kid as a number": self.oidc.sign(self.good(), {"kid": 1}),
                "long kid": self.oidc.sign(self.good(), {"kid": "k" * 300}),
            }
            for what, bad in forged.items():
                with self.subTest(what):
                    self.refused(bad)
            self.assertEqual(trap.visits, 0)
            self.assertEqual(self.oidc.do("hits").get("/jwks", 0), before, "nothing was fetched")
        self.assertEqual(self.whoami(token).status, 200)

    def test_members_given_twice(self):
        claims = json.dumps(self.good())
        header = json.dumps({"alg": "RS256", "kid": self.oidc.do("keys")[0]["kid"]})
        self.assertEqual(self.whoami(self.oidc.sign_text(header, claims)).status, 200)
        for member in ('"alg":"none"', '"alg":"RS256"', '"kid":"x"', '"crit":[],"crit":[]'):
            self.refused(self.oidc.sign_text(f"{header[:-1]},{member}}}", claims))
        for member in ('"tenant":"rival"', '"tenant":"acme"', '"exp":9999999999', '"roles":["root"]', '"x":1,"x":1'):
            self.refused(self.oidc.sign_text(header, f"{claims[:-1]},{member}}}"))

    def test_size(self):
        self.refused(self.oidc.sign(self.good(padding="x" * 5000), {"kid": "unknown"}))
        self.refused(self.oidc.sign(self.good(deep=json.loads("[" * 20 + "]" * 20))))
        big = self.oidc.sign(self.good(padding="x" * 1_000_000))
        self.refused(big)
        self.assertEqual(self.server.request("GET", "/healthz", key=big).status, 431, "nobody is asked who they are")
        answer = self.server.request("GET", "/v1/whoami", headers={"Cookie": "x" * 100_000})
        self.assertEqual(answer.status, 431, "the credential is not what is large")

    def test_metadata(self):
        for suffix in ("", "/mcp"):
            path = "/.well-known/oauth-protected-resource" + suffix
            answer = self.server.request("GET", path, key=False)
            DOCUMENT.check("GET", path, answer)
            self.assertEqual(answer.json()["authorization_servers"], [self.oidc.issuer])
        refused = self.server.request("GET", "/v1/whoami", key=False)
        self.assertIn('/.well-known/oauth-protected-resource"', refused.headers["www-authenticate"])

    def test_the_log_has_no_token(self):
        token = self.oidc.token()
        self.whoami(token)
        self.refused(token[:-10] + "AAAAAAAAAA")
        log = self.server.log.read_text(errors="replace")
        self.assertNotIn(token.split(".")[2][:40], log)


class Life(OidcCase):
    def test_keys_are_rotated(self):
        with Oidc() as self.oidc, harness.Server(config=self.oidc.config()) as self.server:
            old = self.oidc.sign(self.good(), key="rsa")
            self.assertEqual(self.whoami(old).status, 200)
            self.oidc.do("rotate")
            fresh = self.oidc.sign(self.good())
            harness.wait_for("the new key", lambda: self.whoami(fresh).status == 200, 10)
            self.assertEqual(self.whoami(old).status, 401, "its key is no longer the provider's")
            hits = self.oidc.do("hits")["/jwks"]
            begin = time.monotonic()
            for i in range(300):
                unknown = self.oidc.sign(self.good(), {"kid": f"unknown-{i}"})
                self.assertEqual(self.whoami(unknown).status, 401)
            asked = self.oidc.do("hits")["/jwks"] - hits
            self.assertLessEqual(asked, 2 + (time.monotonic() - begin), "once a second at most")

    def test_what_it_began_ends_with_a_token(self):
        """Its streams, its links and its terminals; its other programs go on, and so does a stream that another
        token opens anew."""
        with Oidc() as self.oidc, harness.Server(config=self.oidc.config()) as self.server:
            before = self.oidc.sign(self.good())
            session = self.server.request("POST", "/v1/sessions", {}, key=before).json()["id"]
            # From now on the seconds of its life count.
            token = self.oidc.sign(self.good(exp=int(time.time()) + 10))
            made = self.server.request("POST", "/v1/executions", {"language": "bash", "code": "sleep 60"}, key=token)
            self.assertEqual(made.status, 201, made.body)
            events = f"/v1/executions/{made.json()['id']}/events"
            stream = Held(self.server, "GET", events, token, until=b"event: ")
            artifact = self.server.request("POST", "/v1/artifacts?path=a", b"x", key=token).json()["id"]
            link = self.server.request("GET", f"/v1/artifacts/{artifact}/url?expires_seconds=600", key=token).json()
            self.assertEqual(self.server.request("GET", link["url"], key=False).status, 200)
            terminal = self.server.request("POST", f"/v1/sessions/{session}/exec",
                                           {"command": ["cat"], "background": True, "tty": {"cols": 80, "rows": 24}},
                                           key=token)
            self.assertIn(terminal.status, (201, 202), terminal.body)
            stream.ends_by(time.monotonic() + 11 * harness.PATIENCE)
            ended = self.server.wait_end(terminal.json()["id"], 1)
            self.assertEqual(ended["error"]["details"]["reason"], "credential_revoked")
            self.assertEqual(self.whoami(token).status, 401)
            self.assertEqual(self.server.request("GET", link["url"], key=False).status, 401)
            again = Held(self.server, "GET", events, self.oidc.sign(self.good()), until=b"event: ")
            self.assertTrue(again.goes_on())
            self.assertEqual(self.server.get(made.json()["id"])["status"], "running")

    def test_the_provider_is_down(self):
        with Oidc() as self.oidc, harness.Server(config=self.oidc.config()) as self.server:
            token = self.oidc.sign(self.good())
            unknown = self.oidc.sign(self.good(), {"kid": "unknown"})
            self.assertEqual(self.whoami(token).status, 200)
            self.oidc.stop()
            self.assertEqual(self.whoami(unknown).status, 401)
            self.assertEqual(self.whoami(token).status, 200, "its key is known")
            self.server.stop()
            self.server.start()
            answer = self.whoami(token)
            self.assertEqual(answer.status, 503, "no key is known now")
            self.assertIn("retry-after", answer.headers)
            self.assertEqual(self.server.request("GET", "/v1/whoami").status, 200, "keys are not affected")

    def test_another_issuer(self):
        """The same claims, signed by a real but foreign provider."""
        with Oidc() as self.oidc, Oidc() as other, \
                harness.Server(config=self.oidc.config()) as self.server:
            self.assertEqual(self.whoami(self.oidc.sign(self.good())).status, 200)
            self.assertEqual(self.whoami(other.sign(self.good())).status, 401)
            self.assertEqual(self.whoami(other.token()).status, 401)

    def test_its_certificate_is_verified(self):
        with Oidc() as self.oidc, Oidc() as other:
            with harness.Server(config=self.oidc.config(ca_file=str(other.ca))) as self.server:
                self.assertEqual(self.whoami(self.oidc.sign(self.good())).status, 503)
                self.assertIn("certificate verify failed", self.server.log.read_text())
            name = self.oidc.issuer.replace("127.0.0.1", "localhost")  # differs from the certificate's name
            with harness.Server(config=self.oidc.config(issuer=name)) as self.server:
                self.assertEqual(self.whoami(self.oidc.sign(self.good(iss=name))).status, 503)
                self.assertIn("it is not for localhost", self.server.log.read_text())

    def test_attribute_rules(self):
        config = {"require": ["email_verified = true", "groups contains eng"], "default_roles": ["viewer"],
                  "tenant_claim": "org.name", "roles_claim": "realm.roles", "tenant": "fallback"}
        with Oidc() as self.oidc, harness.Server(config=self.oidc.config(**config)) as self.server:
            def status(**more):
                return self.whoami(self.oidc.sign(self.good(**more)))

            both = {"email_verified": True, "groups": ["ops", "eng"]}
            who = status(**both, org={"name": "acme"}, realm={"roles": ["runner"]}).json()
            self.assertEqual((who["tenant"], who["roles"]), ("acme", ["agent"]))
            who = status(**both).json()
            self.assertEqual((who["tenant"], who["roles"]), ("fallback", ["viewer"]))
            for more in ({"groups": ["eng"]}, {**both, "email_verified": "yes"}, {**both, "groups": "engine"},
                         {**both, "groups": ["engine"]}, {**both, "groups": {"eng": 1}}):
                self.assertEqual(status(**more).status, 403, more)
            self.assertEqual(status(**{**both, "groups": "ops eng"}).status, 200, "words of a text")


class Settings(OidcCase):
    """Each setting by its effect."""

    def serve(self, **config):
        self.oidc = self.enterContext(Oidc())
        self.server = self.enterContext(harness.Server(self.oidc.config(**config)))

    def test_names_of_claims(self):
        self.serve(app_claim="by", agent_claim="machine", user_claim="person")
        who = self.whoami(self.oidc.sign(self.good(by="tool", machine="bot", person="ann"))).json()
        self.assertEqual((who["app"], who["agent"], who["user"]), ("tool", "bot", "ann"))

    def test_times_of_tokens(self):
        self.serve(max_life_seconds=120, leeway_seconds=300)
        now = int(time.time())
        self.assertEqual(self.whoami(self.oidc.sign(self.good(exp=now + 110))).status, 200)
        self.assertEqual(self.whoami(self.oidc.sign(self.good(exp=now + 130))).status, 401)
        late = self.good(iat=now - 160, exp=now - 100)
        self.assertEqual(self.whoami(self.oidc.sign(late)).status, 200, "its clock may be behind")

    def test_where_this_service_is(self):
        self.serve(resource="https://cloister.example")
        told = self.server.request("GET", "/.well-known/oauth-protected-resource", key=False).json()
        self.assertEqual(told["resource"], "https://cloister.example")

    def test_keys_are_asked_for_again(self):
        self.serve(keys_seconds=1)
        token = self.oidc.sign(self.good())
        hits = lambda: self.whoami(token).status == 200 and self.oidc.do("hits")["/jwks"]
        first = hits()
        harness.wait_for("another question", lambda: hits() > first, 10)

    def test_old_keys_are_given_up(self):
        self.serve(keys_seconds=1, stale_seconds=1)
        token = self.oidc.sign(self.good())
        self.assertEqual(self.whoami(token).status, 200)
        self.oidc.stop()
        harness.wait_for("its keys to be too old", lambda: self.whoami(token).status == 503, 10)

    def test_a_provider_that_says_nothing(self):
        self.serve(fetch_timeout_ms=200)
        token = self.oidc.sign(self.good())
        self.oidc.process.send_signal(signal.SIGSTOP)
        answer = self.server.request("GET", "/v1/whoami", key=token, timeout=4)  # the default waits for five seconds
        self.assertEqual(answer.status, 503)


class Configuration(unittest.TestCase):
    def test_what_is_wrong_is_named(self):
        good = {"issuer": "https://login.test", "audience": ["a"]}
        for field, more in {"auth.oidc.issuer": {"issuer": "http://login.test"},
                            "auth.oidc.audience": {"audience": []},
                            "auth.oidc.algorithms": {"algorithms": ["HS256"]},
                            "auth.oidc.roles": {"roles": ["x = root"]},
                            "auth.oidc.default_roles": {"default_roles": ["admin"]},
                            "auth.oidc.require": {"require": ["nothing"]},
                            "auth.oidc.ca_file": {"ca_file": "/nonexistent"}}.items():
            with self.subTest(field):
                server = harness.Server(config="auth:\n  oidc: " + json.dumps({**good, **more}), ready=False)
                with server:
                    server.process.wait(30)
                    self.assertNotEqual(server.process.returncode, 0)
                    self.assertIn(field, server.log.read_text())


if __name__ == "__main__":
    unittest.main()
