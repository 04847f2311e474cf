# SPDX-License-Identifier: Apache-2.0
"""The SDKs: generated files are fresh, Python 3.9 reads the sources and has what they use, and everything public is typed."""

import ast
import json
import re
import sys
import unittest

import tree

sys.path.insert(0, str(tree.REPO / "tools"))
import sdk_sync  # noqa: E402
import sdk_types  # noqa: E402

PYTHON = tree.REPO / "sdk/python/cloister"
TYPESCRIPT = tree.REPO / "sdk/typescript"
OLDEST = (3, 9)
# What later versions of Python added, as names of modules, functions, classes and arguments.
NEWER = {
    "modules": {"tomllib"},
    "names": {"aclosing", "aiter", "anext", "pairwise", "batched", "TaskGroup", "Runner", "ExceptionGroup", "BaseExceptionGroup",
              "Self", "TypeAlias", "ParamSpec", "Concatenate", "NotRequired", "Required", "Unpack", "TypeVarTuple", "Never",
              "assert_never", "override", "LiteralString", "TypeGuard", "StrEnum", "UTC", "EllipsisType", "NoneType",
              "bit_count", "add_note", "file_digest", "getencoding"},
    "arguments": {"slots", "kw_only", "strict", "weakref_slot"},
}


def sources():
    return sorted(PYTHON.rglob("*.py"))


def newer(module):
    """What an old Python would not have, with its line."""
    for node in ast.walk(module):
        if isinstance(node, (ast.Import, ast.ImportFrom)):
            names = {alias.name for alias in node.names}
            names |= {node.module} if isinstance(node, ast.ImportFrom) else set()
            found = names & (NEWER["modules"] | NEWER["names"])
        elif isinstance(node, ast.Attribute):
            found = {node.attr} & NEWER["names"] | ({"asyncio.timeout"} if ast.unparse(node) == "asyncio.timeout" else set())
        elif isinstance(node, ast.Call):
            found = {keyword.arg for keyword in node.keywords} & NEWER["arguments"]
        elif isinstance(node, ast.Name):
            found = {node.id} & NEWER["names"]
        else:
            continue
        yield from ((each, node.lineno) for each in found)


def untyped(module):
    """Functions with a parameter or a result that has no type."""
    for node in ast.walk(module):
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
            given = [*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs, node.args.vararg, node.args.kwarg]
            bare = [each.arg for each in given if each is not None and each.annotation is None and each.arg not in ("self", "cls")]
            if bare or (node.returns is None):
                yield node.name, node.lineno


class Sdk(unittest.TestCase):
    def test_generated_files_are_fresh(self):
        for module, name in ((sdk_types, "tools/sdk_types.py"), (sdk_sync, "tools/sdk_sync.py")):
            for path, text in module.texts().items():
                with self.subTest(path=str(path)):
                    self.assertEqual(path.read_text(encoding="utf-8"), text, f"run {name}")
        made = {path.name for path in (PYTHON / "_async").glob("*.py")}
        self.assertEqual({path.name for path in (PYTHON / "_sync").glob("*.py")}, made, "run tools/sdk_sync.py")

    def test_an_old_python_reads_it(self):
        self.assertGreater(len(sources()), 20)
        for path in sources():
            with self.subTest(path=str(path)):
                module = ast.parse(path.read_text(encoding="utf-8"), feature_version=OLDEST)
                self.assertEqual(list(newer(module)), [])

    def test_everything_is_typed(self):
        for path in sources():
            with self.subTest(path=str(path)):
                self.assertEqual(list(untyped(ast.parse(path.read_text(encoding="utf-8")))), [])
        self.assertTrue((PYTHON / "py.typed").exists())

    def test_the_rules_themselves(self):
        for text in ("import tomllib", "from typing import Self", "import asyncio\nasyncio.timeout(1)", "zip(a, b, strict=True)", "anext(x)"):
            self.assertTrue(list(newer(ast.parse(text))), text)
        with self.assertRaises(SyntaxError):
            ast.parse("match x:\n    case 1: pass", feature_version=OLDEST)
        self.assertEqual([name for name, _ in untyped(ast.parse("def f(a) -> int: ...\ndef g(a: int): ...\ndef h(a: int) -> int: ..."))],
                         ["f", "g"])

    def test_the_words_of_the_blocking_half(self):
        made = sdk_sync.sync("async def f() -> AsyncIterator[int]:\n    # sync: g()\n    await h()  # async only\n    await k()\n", "x.py")
        self.assertEqual(made.split("\n", 1)[1].split("\n", 1)[1], "def f() -> Iterator[int]:\n    g()\n    k()\n")
        for path in (PYTHON / "_sync").glob("*.py"):
            self.assertNotRegex(path.read_text(encoding="utf-8").split("\n", 2)[2], r"\b(async|await|asyncio)\b|Async", str(path))

    def test_one_version_and_no_dependency(self):
        version = re.search(r"project\(cloister VERSION ([\d.]+)", tree.text("CMakeLists.txt"))[1]
        package = json.loads((TYPESCRIPT / "package.json").read_text())
        found = {package["version"], json.loads((TYPESCRIPT / "package-lock.json").read_text())["version"]}
        for path, pattern in ((PYTHON.parent / "pyproject.toml", r'^version = "(.+)"'), (PYTHON / "_async/client.py", r'^VERSION = "(.+)"'),
                              (TYPESCRIPT / "src/client.ts", r'VERSION = "(.+)"')):
            found.add(re.search(pattern, path.read_text(), re.MULTILINE)[1])
        self.assertEqual(found, {version})
        self.assertNotIn("dependencies", package)
        for path in (TYPESCRIPT / "src").glob("*.ts"):
            for name in re.findall(r'^(?:import|export)\b[^;]*? from "(.+?)"', path.read_text(), re.MULTILINE):
                self.assertRegex(name, r"^\./\w+\.js$", str(path))


if __name__ == "__main__":
    unittest.main()
