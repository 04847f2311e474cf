# SPDX-License-Identifier: Apache-2.0
"""The web interface in a browser, against what sandboxes make: pages on ports, HTML, SVG, names and output."""

import socket
import unittest

from session_case import Session
from web_case import WebCase

SERVER = r'''
import http.server
class Handler(http.server.BaseHTTPRequestHandler):
    def log_message(self, *args): pass
    def do_GET(self):
        script = self.path.startswith("/sw.js")
        body = b"onfetch = () => 0" if script else b"<!doctype html><title>h</title><p>a hostile page</p>"
        self.send_response(200)
        self.send_header("Content-Type", "text/javascript" if script else "text/html")
        self.send_header("Service-Worker-Allowed", "/")
        for name in ("cloister_ui", "__Host-cloister", "CLOISTER_UI", "=cloister_ui", "__Host-cloister-login"):
            self.send_header("Set-Cookie", name + "=planted; Path=/")
            self.send_header("Set-Cookie", name + "=planted; Path=/; Domain=boxes.test")
            self.send_header("Set-Cookie", name + "=planted; Path=/; Domain=127.0.0.1")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)
server = http.server.ThreadingHTTPServer(("127.0.0.1", 8000), Handler)
print("ready", flush=True)
server.serve_forever()
'''
# Each form ends in its number, which is looked for on the page.
FORMS = [
    "<script>hit=1</script>F01", "<img src=x onerror=hit=2>F02", "<svg onload=hit=3>F03", "<iframe src=javascript:hit=4>F04",
    "\"><body onload=hit=5>F05", "'><input autofocus onfocus=hit=6>F06", "<a href=javascript:hit=7>F07</a>", "<base href=//evil.test/>F08",
    "<meta http-equiv=refresh content=0;//evil.test>F09", "<link rel=stylesheet href=//evil.test/>F10", "<style>*{display:none}</style>F11",
    "<object data=//evil.test/>F12", "<form action=//evil.test><button>F13", "<details open ontoggle=hit=14>F14", "{{constructor.constructor('hit=15')()}}F15",
    "<math><mtext></form><form><mglyph><style></math><img src onerror=hit=16>F16", "<!--><img src=//evil.test/a onerror=hit=17>F17",
    "&lt;img src=x onerror=hit=18&gt;F18", "</textarea></pre></title><script>hit=19</script>F19", "javascript:hit=20//F20",
    "\u202eF21\u2066", "\x1b]0;F22\x07", "\x1b[2J\x1b[31mF23", "<img src=//evil.test/b.png>F24",
]
LITERAL = [form for form in FORMS if form.isprintable() and "\u202e" not in form]
DRAWN = """
class Rich:
    def __init__(self, **forms): self.forms = forms
    def _repr_mimebundle_(self, **_): return {k.replace("_", "/", 1).replace("svg", "svg+xml"): v for k, v in self.forms.items()}
from_html = ['<script>top.hit=1;parent.hit=1;hit=1</script>', '<img src=//evil.test/x onerror=hit=1>', '<svg onload=parent.hit=1></svg>',
             '<a target=_top href="javascript:hit=1" id=a>x</a><meta http-equiv=refresh content="0;url=//evil.test/">',
             '</body></html><iframe srcdoc="<script>top.hit=1</script>"></iframe><form action=//evil.test/ id=f></form>',
             '<link rel=stylesheet href=//evil.test/s.css><div><template shadowrootmode=open><link rel=dns-prefetch href=//evil.test></template></div>'
             '<svg><a id=b xlink:href=//evil.test/><set attributeName=href to=//evil.test/ /></a></svg><a href=#b>down</a><style>@import url(//evil.test/t.css);body{background:url(//evil.test/u)}</style>']
"""


class Pages(WebCase):
    file = "hostile.mjs"
    config = "ports:\n  domain: boxes.test\n"
    args = ("--host-resolver-rules=MAP *.boxes.test 127.0.0.1",)

    def setUp(self):
        self.person, _ = self.key(role="agent", user="ann")
        self.session = self.enterContext(Session(self.server, key=self.person, language="python", memory_mb=256))
        self.session.wait_output(self.session.start(SERVER, timeout_seconds=600), "ready")
        self.execution = self.server.run("print(1)")["id"]

    def attacked(self, story):
        results = story["results"]
        self.assertEqual({name: said for name, said in results.items() if said.startswith("got")}, {})
        for name in ("whoami", "session", "executions", "make a key", "sign out", "socket"):
            self.assertRegex(results[name], "^(refused|nothing)", name)
        self.assertEqual((story["planted"], story["lost"]), ([], []))
        before, after = story["state"]
        self.assertEqual(before, after)
        self.assertFalse(after["keys"])

    def test_a_page_on_a_port(self):
        made = self.session.call("POST", "/ports/8000/tokens", {}, status=201).json()
        for name, address in (("path", self.server.url + made["path"]), ("host", made["url"])):
            with self.subTest(name):
                story = self.story("page", address=address, person=self.person, execution=self.execution, allowed=("csp", "errors", "foreign"))
                self.attacked(story)
                self.assertIn("acme", story["still in"])
                self.assertEqual(story["interface in frames"], 0)

    def test_a_page_in_the_preview(self):
        story = self.story("preview", session=self.session.id, person=self.person, execution=self.execution,
                           allowed=("csp", "errors", "foreign"))
        self.attacked(story)
        self.assertNotIn("allow-same-origin", story["sandbox"])
        self.assertNotIn("allow-top-navigation", story["sandbox"])
        self.assertIn(f"/ui/sessions/{self.session.id}", story["place"])


class Forms(WebCase):
    file = "hostile.mjs"

    @classmethod
    def setUpClass(cls):
        cls.outside = cls.enterClassContext(socket.create_server(("127.0.0.1", 0)))  # where evil.test is
        cls.outside.setblocking(False)
        cls.args = (f"--host-resolver-rules=MAP evil.test 127.0.0.1:{cls.outside.getsockname()[1]}",)
        super().setUpClass()

    def nobody_came(self):
        with self.assertRaises(BlockingIOError):
            self.outside.accept()

    def test_names_and_output_are_text(self):
        person, _ = self.key(role="tenant-admin", user="ann")
        agent, _ = self.key(role="agent", agent="<img src=x onerror=hit=30>A01")
        self.key(role="viewer", name=FORMS[1], agent="a")
        output = self.server.submit(f"import sys\nforms = {FORMS!r}\nprint(*forms, sep='\\n')\nprint(*forms, sep='\\n', file=sys.stderr)",
                                    key=agent, metadata={"note": FORMS[0]}).json()
        with Session(self.server, key=agent, language="python") as session:
            for name in ("<img src=x onerror=hit=31>N01.txt", "<script>hit=32<\u2044script>N02", "javascript:hit=33N03", "\u202eN04.txt"):
                session.exec(f"open({name!r}, 'w').write({FORMS[2]!r})")
            screens = {"execution": f"executions/{output['id']}", "executions": "executions", "sessions": "sessions",
                       "files": f"sessions/{session.id}?tab=files", "programs": f"sessions/{session.id}?tab=executions", "keys": "admin/keys", "audit": "audit"}
            expected = {"execution": LITERAL, "files": ["<img src=x onerror=hit=31>N01.txt", "javascript:hit=33N03"],
                        "keys": [FORMS[1]], "executions": ["A01"], "sessions": ["A01"], "audit": ["A01"]}
            story = self.story("text", person=person, screens=screens, expected=expected)
        for screen, found in story["shown"].items():
            with self.subTest(screen):
                self.assertIsNone(found["hit"])
                self.assertEqual(found["elements"], [])
                for sandbox, closed in found["frames"]:
                    self.assertEqual((sandbox, closed), ("", True))
                self.assertIn("Cloister", found["title"])
        self.assertEqual(story["dialogs"], 0)
        self.nobody_came()

    def test_drawings_have_neither_script_nor_network(self):
        person, _ = self.key(role="agent", user="ann")
        with Session(self.server, key=person, language="python", memory_mb=512) as session:
            code = DRAWN + ("for each in from_html:\n    display(Rich(text_html=each))\n"
                            "display(Rich(image_svg='<svg xmlns=\"http://www.w3.org/2000/svg\" onload=\"top.hit=1\"><script>top.hit=1</script>"
                            "<image href=\"//evil.test/i.png\"/></svg>'))\n")
            story = self.story("drawn", session=session.id, person=person, code=code, frames=7)
        self.assertEqual(set(story["sandbox"]), {""})
        self.assertEqual(story["away"], [])
        self.assertEqual(story["kept"], 2, "a link within the result, and its style")
        self.assertEqual(set(story["hits"]) - {None, "no script"}, set())
        self.assertEqual(story["dialogs"], 0)
        self.nobody_came()


if __name__ == "__main__":
    unittest.main()
