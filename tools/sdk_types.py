#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Writes the types of the SDKs from spec/openapi.yaml.

    tools/sdk_types.py             writes sdk/python/cloister/types.py and sdk/typescript/src/types.ts
    tools/sdk_types.py --check     writes nothing; ends with 1 if a file is not fresh

The types are the schemas that the operations of OPERATIONS name, directly or through other schemas: exactly the members
that the service sends and takes. tests/style/check_sdk.py holds the files fresh.
"""

import keyword
import pathlib
import re
import sys

import yaml

REPO = pathlib.Path(__file__).resolve().parents[1]
PYTHON = REPO / "sdk/python/cloister/types.py"
TYPESCRIPT = REPO / "sdk/typescript/src/types.ts"
LIMIT = 118  # columns
# The operations of the SDKs. Each must be in the document.
OPERATIONS = (
    "createExecution", "listExecutions", "getExecution", "cancelExecution", "watchExecution", "readLogs", "sendInput",
    "signalExecution", "createSession", "listSessions", "getSession", "endSession", "renewSession", "moveSession",
    "execInSession", "listKernels", "restartKernel", "watchSession", "createPortToken", "listFiles", "readFile",
    "writeFile", "removeFile", "moveFile", "makeDirectory", "watchFiles", "packFiles", "unpackFiles", "uploadArtifact",
    "getArtifact", "deleteArtifact", "downloadArtifact", "listMemory", "getMemory", "setMemory", "deleteMemory",
    "takeSnapshot", "listSnapshots", "getSnapshot", "deleteSnapshot", "getEscalation", "whoami", "listLanguages")
# The data of events, which no operation names.
EVENTS = ("Output", "Heartbeat", "FileChange", "SessionExecution", "Problem", "Artifact", "ExecutionSummary")
REFERENCE = re.compile(r"^#/components/schemas/(\w+)$")


class Document:
    def __init__(self, text):
        self.all = yaml.safe_load(text)
        self.schemas = self.all["components"]["schemas"]

    def operations(self):
        """{operationId: operation}"""
        return {operation["operationId"]: operation for methods in self.all["paths"].values()
                for method, operation in methods.items() if method != "parameters"}

    def resolved(self, node):
        """The node, with a reference to another part than a schema replaced."""
        reference = node.get("$ref", "") if isinstance(node, dict) else ""
        while reference and not REFERENCE.match(reference):
            node = self.all
            for part in reference[2:].split("/"):
                node = node[part]
            reference = node.get("$ref", "")
        return node

    def named(self, node, found):
        """Adds to `found` each schema that the node names, directly or through others."""
        node = self.resolved(node)
        if isinstance(node, dict):
            name = REFERENCE.match(str(node.get("$ref", "")))
            if name and name[1] not in found:
                found.add(name[1])
                self.named(self.schemas[name[1]], found)
            for key, inner in node.items():
                if key not in ("$ref", "examples"):
                    self.named(inner, found)
        elif isinstance(node, list):
            for inner in node:
                self.named(inner, found)

    def wanted(self):
        """The names of the schemas, in the order of the document."""
        operations, found = self.operations(), set(EVENTS)
        missing = [name for name in (*OPERATIONS,) if name not in operations]
        if missing:
            sys.exit(f"sdk_types: spec/openapi.yaml has no operation {missing[0]}")
        for name in OPERATIONS:
            self.named(operations[name], found)
        for name in EVENTS:
            self.named(self.schemas[name], found)
        ordered = []
        for name in self.schemas:
            if name in found:
                self._after_its_bases(name, ordered)
        return ordered

    def _after_its_bases(self, name, ordered):
        for base in self.members(self.schemas[name])[2]:
            self._after_its_bases(base, ordered)
        if name not in ordered:
            ordered.append(name)

    def is_object(self, schema):
        """Whether the schema has members, of its own or by `allOf`."""
        if "$ref" in schema:
            return self.is_object(self.schemas[REFERENCE.match(schema["$ref"])[1]])
        return bool(schema.get("properties")) or any(map(self.is_object, schema.get("allOf", ())))

    def members(self, schema):
        """(its own members, the required ones, the names of the schemas whose members it has too)"""
        properties, required, bases = dict(schema.get("properties", {})), set(schema.get("required", ())), []
        for part in schema.get("allOf", ()):
            if "$ref" in part:
                bases.append(REFERENCE.match(part["$ref"])[1])
            else:
                more, needed, further = self.members(part)
                properties.update(more)
                required |= needed
                bases += further
        return properties, required, bases


class Writer:
    """The text of types in one language. A subclass has the language's words."""

    def __init__(self, document):
        self.document = document

    def type_of(self, schema, owner=""):
        """The type of a schema that has no name. `owner` names the types of objects within."""
        if "$ref" in schema:
            return REFERENCE.match(schema["$ref"])[1]
        for key in ("anyOf", "oneOf"):
            if key in schema and all(set(one) - {"required"} for one in schema[key]):
                return self.union([self.type_of(one, owner) for one in schema[key]])
        if "const" in schema:
            return self.literal([schema["const"]])
        if "enum" in schema:
            return self.literal(schema["enum"])
        kinds = schema.get("type", "object" if "properties" in schema or "allOf" in schema else None)
        kinds = kinds if isinstance(kinds, list) else [kinds]
        return self.union([self.simple(kind, schema, owner) for kind in kinds])

    def simple(self, kind, schema, owner):
        if kind == "array":
            return self.array(self.type_of(schema.get("items", {}), owner))
        if kind == "object" and self.document.is_object(schema):
            return self.inner(schema, owner)
        if kind == "object":
            more = schema.get("additionalProperties")
            return self.map(self.type_of(more, owner) if isinstance(more, dict) and more else self.ANY)
        return self.WORDS[kind]

    def union(self, parts):
        parts = list(dict.fromkeys(parts))
        return parts[0] if len(parts) == 1 else self.joined(parts)

    def inner(self, schema, owner):
        """An object without a name of its own becomes a type named after its owner and member."""
        if owner not in self.seen:
            self.seen.add(owner)
            self.out.append(self.object(owner, schema, None))
        return owner

    def text(self):
        self.out, self.seen = [], set()
        for name in self.document.wanted():
            schema = self.document.schemas[name]
            about = " ".join(str(schema.get("description", "")).split())
            made = self.object if self.document.is_object(schema) else self.alias
            self.out.append(made(name, schema, about))
        return self.HEAD + "\n".join(self.out)

    def members(self, name, schema):
        """([(member, type, whether it is required)], [type with further members])"""
        properties, required, bases = self.document.members(schema)
        return [(member, self.type_of(inner, name + "".join(word.title() for word in member.split("_"))), member in required)
                for member, inner in properties.items()], bases


class Python(Writer):
    ANY = "Any"
    WORDS = {"string": "str", "integer": "int", "number": "float", "boolean": "bool", "null": "None", None: "Any"}
    HEAD = '''# SPDX-License-Identifier: Apache-2.0
"""The values of the API, as JSON has them. Generated from spec/openapi.yaml by tools/sdk_types.py: do not edit."""

from __future__ import annotations

from typing import Any, Dict, List, Literal, TypedDict, Union

'''

    def array(self, of):
        return f"List[{of}]"

    def map(self, of):
        return f"Dict[str, {of}]"

    def joined(self, parts):
        return f"Union[{', '.join(parts)}]"

    def literal(self, values):
        return f"Literal[{', '.join(repr(value) for value in values)}]".replace("'", '"')

    def alias(self, name, schema, about):
        text = self.type_of(schema, name + "Object")
        for other in sorted(self.document.schemas, key=len, reverse=True):  # a name that may come later
            text = re.sub(rf'(?<!["\w]){other}(?!["\w])', f'"{other}"', text)
        return f"{_comment('# ', about)}{name} = {text}\n"

    def object(self, name, schema, about):
        members, bases = self.members(name, schema)
        if any(keyword.iskeyword(member) for member, _, _ in members):
            return _comment("# ", about) + self.functional(name, members)
        required = "".join(f"    {member}: {text}\n" for member, text, needed in members if needed)
        optional = "".join(f"    {member}: {text}\n" for member, text, needed in members if not needed)
        above, before = ", ".join(bases) or "TypedDict", ""
        if required and optional:
            above, before = f"_{name}", f"class _{name}({above}):\n{required}\n"
        total = ", total=False" if optional else ""
        return f"{before}{_comment('# ', about)}class {name}({above}{total}):\n{optional or required or '    pass' + chr(10)}"

    @staticmethod
    def functional(name, members):
        """The type of members of which one is a keyword, and so no name of a class's member."""
        def table(wanted):
            return "{\n" + "".join(f"    {_quoted(member)}: {_quoted(text)},\n" for member, text, needed in members
                                   if needed == wanted) + "}"

        if all(needed for _, _, needed in members):
            return f"{name} = TypedDict({_quoted(name)}, {table(True)})\n"
        if not any(needed for _, _, needed in members):
            return f"{name} = TypedDict({_quoted(name)}, {table(False)}, total=False)\n"
        return (f"_{name} = TypedDict({_quoted('_' + name)}, {table(True)})\n"
                f"_{name}Optional = TypedDict({_quoted(f'_{name}Optional')}, {table(False)}, total=False)\n\n"
                f"class {name}(_{name}, _{name}Optional):\n    pass\n")


class TypeScript(Writer):
    ANY = "unknown"
    WORDS = {"string": "string", "integer": "number", "number": "number", "boolean": "boolean", "null": "null", None: "unknown"}
    HEAD = """// SPDX-License-Identifier: Apache-2.0
// The values of the API, as JSON has them. Generated from spec/openapi.yaml by tools/sdk_types.py: do not edit.

"""

    def array(self, of):
        return f"({of})[]" if " " in of else f"{of}[]"

    def map(self, of):
        return f"Record<string, {of}>"

    def joined(self, parts):
        return " | ".join(parts)

    def literal(self, values):
        words = {None: "null", True: "true", False: "false"}
        return " | ".join(words[value] if value in words else f'"{value}"' for value in values)

    def alias(self, name, schema, about):
        return f"{_comment('// ', about)}export type {name} = {self.type_of(schema, f'{name}Object')};\n"

    def object(self, name, schema, about):
        members, bases = self.members(name, schema)
        inner = "".join(f"  {member}{'' if needed else '?'}: {text};\n" for member, text, needed in members)
        above = f" extends {', '.join(bases)}" if bases else ""
        return f"{_comment('// ', about)}export interface {name}{above} {{\n{inner}}}\n"


def _quoted(text):
    """A string of Python; double quotes within stay as they are."""
    return f"'{text}'" if '"' in text else f'"{text}"'


def _comment(mark, text):
    """The first sentence of a description."""
    text = re.split(r"(?<=[.:])\s", text or "", maxsplit=1)[0]
    lines, line = [], mark.rstrip()
    for word in text.split():
        if len(line) + len(word) + 1 > LIMIT:
            lines.append(line)
            line = mark.rstrip()
        line += " " + word
    return "".join(each + "\n" for each in (*lines, line)) if text else ""


def texts():
    """{file: its fresh text}"""
    document = Document((REPO / "spec/openapi.yaml").read_text(encoding="utf-8"))
    return {PYTHON: Python(document).text(), TYPESCRIPT: TypeScript(document).text()}


def main():
    stale = [path for path, text in texts().items() if not path.exists() or path.read_text(encoding="utf-8") != text]
    if sys.argv[1:] == ["--check"]:
        for path in stale:
            print(f"{path.relative_to(REPO)} is not fresh: run tools/sdk_types.py", file=sys.stderr)
        return 1 if stale else 0
    if sys.argv[1:]:
        print(__doc__, file=sys.stderr)
        return 2
    for path in stale:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(texts()[path], encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
