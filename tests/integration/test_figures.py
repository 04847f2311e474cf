# SPDX-License-Identifier: Apache-2.0
"""A notebook typical for agents, with Debian's numpy, pandas, matplotlib and Pillow: each cell's results, over HTTP,
over MCP and with the command line; and of /etc only files of packages."""

import base64
import ctypes
import hashlib
import os
import pathlib
import struct
import tempfile
import unittest

import harness
import mcp_client
from session_case import Session

PNG = b"\x89PNG\r\n\x1a\n"
# Each cell, and its expected result: a part's type, and a text in the part; of a picture the least width and height.
CELLS = (
    ("import numpy as np\nimport pandas as pd\nimport matplotlib.pyplot as plt\nnp.arange(3)", "text/plain", "array([0, 1, 2])"),
    ("frame = pd.DataFrame({'day': range(1, 8), 'visits': [3, 7, 5, 9, 4, 8, 6]})\nframe", "text/html", "<td>9</td>"),
    ("frame", "application/json", 7),
    ("frame.head(2)", "application/json", 2),
    ("frame.describe()", "text/html", "mean"),
    ("frame['visits'].sum()", "text/plain", "42"),
    ("frame.groupby(frame['day'] % 2)['visits'].mean()", "text/plain", "visits"),
    ("frame.plot(x='day', y='visits');", "image/png", 300),
    ("plt.plot(frame['day'], frame['visits'])\nplt.title('Visits')\nplt.show()", "image/png", 300),
    ("figure, axes = plt.subplots(1, 2, figsize=(8, 3))\naxes[0].bar(frame['day'], frame['visits'])\n"
     "axes[1].scatter(frame['day'], frame['visits'])\nfigure", "image/png", 200),
    ("plt.hist(np.random.default_rng(1).normal(size=1000), bins=30)\nNone", "image/png", 300),
    ("plt.imshow(np.eye(8))\nplt.colorbar()\nplt.show()", "image/png", 300),
    ("plt.pie([1, 2, 3], labels=['a', 'b', 'c'])\nplt.show()", "image/png", 300),
    ("plt.plot([1, 2])\nplt.xlabel(r'$\\alpha_i^2$')\nplt.show()", "image/png", 300),
    ("from PIL import Image, ImageDraw\npicture = Image.new('RGB', (320, 200), 'white')\n"
     "ImageDraw.Draw(picture).ellipse((50, 50, 150, 150), fill='red')\npicture", "image/png", 200),
    ("picture.resize((64, 40))", "image/png", 40),
    ("np.linalg.det(np.array([[1.0, 2.0], [3.0, 4.0]])).round(6)", "text/plain", "-2.0"),
    ("from IPython.display import HTML\nHTML('<b>bold</b>')", "text/html", "<b>bold</b>"),
    ("frame.to_csv('visits.csv', index=False)\nopen('visits.csv').readline()", "text/plain", "day,visits"),
    ("pd.read_csv('visits.csv').equals(frame)", "text/plain", "True"),
)
PICTURES = sum(kind == "image/png" for _, kind, _ in CELLS)
TOKEN = "token-of-the-machine"


def size_of(png):
    assert png.startswith(PNG), png[:20]
    return struct.unpack(">II", png[16:24])


class Figures(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.server = cls.enterClassContext(harness.Server())

    def shows(self, parts, kind, wanted):
        self.assertIn(kind, parts)
        if kind == "image/png":
            self.assertGreaterEqual(min(size_of(base64.b64decode(parts[kind]))), wanted)
        elif kind == "application/json":
            self.assertEqual(len(parts[kind]["data"] if isinstance(parts[kind], dict) else parts[kind]), wanted)
        else:
            self.assertIn(wanted, parts[kind])

    def test_over_http(self):
        with Session(self.server, language="python", memory_mb=768) as session:
            for number, (code, kind, wanted) in enumerate(CELLS, 1):
                with self.subTest(number):
                    done = session.exec(code, kernel="python", timeout_seconds=120)
                    self.assertEqual((done["status"], done["exit_code"], done["stderr"]), ("completed", 0, ""), done)
                    self.assertEqual(len(done["results"]), 1, done)
                    self.shows(done["results"][0], kind, wanted)

    def by_mcp(self, era):
        with mcp_client.connect(self.server, era, "http") as client:
            session = client.ok("create_session", language="python", memory_mb=768)["session_id"]
            for number, (code, kind, wanted) in enumerate(CELLS, 1):
                with self.subTest(number):
                    result = client.tool("run", session_id=session, code=code, timeout_seconds=120)
                    self.assertFalse(result.get("isError"), result)
                    pictures = [each for each in result["content"] if each["type"] == "image"]
                    self.assertEqual(len(pictures), kind == "image/png")
                    for each in pictures:
                        self.assertGreaterEqual(min(size_of(base64.b64decode(each["data"]))), wanted)
                    if kind == "text/plain":
                        self.assertIn(wanted, mcp_client.text_of(result))
            client.ok("terminate", session_id=session)

    def test_over_mcp(self):
        self.by_mcp("modern")

    def test_over_mcp_as_it_was(self):
        self.by_mcp("legacy")

    def test_with_the_command_line(self):
        session = self.server.cli("session", "create", "--language", "python", "--memory", "768").stdout.strip()
        said = ""
        folder = pathlib.Path(self.enterContext(tempfile.TemporaryDirectory(prefix="cloister-test-figures.")))
        for number, (code, _, _) in enumerate(CELLS, 1):
            done = self.server.cli("exec", session, "--timeout", "120", "--images", folder, "-c", code)
            self.assertEqual(done.returncode, 0, (number, done.stderr))
            said += done.stdout
        for _, kind, wanted in CELLS:
            if kind == "text/plain":
                self.assertIn(wanted, said)
        pictures = [path.read_bytes() for path in folder.iterdir()]
        self.assertEqual(len(pictures), PICTURES)
        self.assertGreaterEqual(min(min(size_of(each)) for each in pictures), 40)
        self.server.cli("session", "end", session)


@unittest.skipUnless(harness.ROOT, "needs root: it covers /etc")
class Etc(unittest.TestCase):
    """With an /etc of the suite's own, over the machine's."""

    @classmethod
    def setUpClass(cls):
        folder = pathlib.Path(cls.enterClassContext(tempfile.TemporaryDirectory(prefix="cloister-test-etc.")))
        for name in ("upper", "work"):
            (folder / name).mkdir()
        libc = ctypes.CDLL(None, use_errno=True)
        options = f"lowerdir=/etc,upperdir={folder}/upper,workdir={folder}/work".encode()
        if libc.mount(b"overlay", b"/etc", b"overlay", 0, options) != 0:
            raise OSError(ctypes.get_errno(), "mounting over /etc")
        cls.addClassCleanup(libc.umount2, b"/etc", 2)  # MNT_DETACH
        pathlib.Path("/etc/gitconfig").write_text(f"[http]\n\textraHeader = {TOKEN}\n")
        for name in ("services", "fonts/local.conf", "perl/own.conf"):
            path = pathlib.Path("/etc", name)
            path.parent.mkdir(exist_ok=True)
            path.write_text(f"# {TOKEN}\n")
        os.chmod("/etc/protocols", 0o640)
        cls.server = cls.enterClassContext(harness.Server())

    def test_what_the_machine_has_of_its_own_is_not_there(self):
        done = self.server.run(language="bash", code=f"grep -r {TOKEN} /etc; ls /etc/services /etc/protocols")
        self.assertEqual((done["exit_code"], done["stdout"]), (2, ""), done)

    def test_what_packages_ship_is_there(self):
        shipped = ("matplotlibrc", "mime.types", "ssl/openssl.cnf", "fonts/fonts.conf")
        for name in shipped:
            done = self.server.run(language="bash", code=f"sha256sum < /etc/{name}")
            with open(f"/etc/{name}", "rb") as file:
                self.assertEqual(done["stdout"].split()[0], hashlib.sha256(file.read()).hexdigest(), name)
        plan = self.server.request("POST", "/v1/executions?dry_run=true", {"language": "bash", "code": "true"}).json()
        self.assertGreater(plan["files_of_packages"], len(shipped))
        done = self.server.run(language="bash", code="readlink /etc/alternatives/awk")
        self.assertEqual(done["stdout"].strip(), os.readlink("/etc/alternatives/awk"))


if __name__ == "__main__":
    unittest.main()
