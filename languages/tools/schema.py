# SPDX-License-Identifier: Apache-2.0
"""Derives the JSON schema of a tool in Python from the signature and the docstring of its function. Reads the source on
standard input, and only parses it: nothing of the source runs. Prints {"schema": …} or {"error": "…"}."""
import ast
import json
import re
import sys

NAMES = {"str": "string", "int": "integer", "float": "number", "bool": "boolean", "list": "array", "List": "array",
         "dict": "object", "Dict": "object", "Any": "string", "tuple": "array", "Tuple": "array", "set": "array"}
IGNORED = ("self", "agent_state")
SECTION = re.compile(r"^(Args|Arguments|Parameters|Returns?|Yields?|Raises|Examples?|Notes?):\s*$")
PARAMETER = re.compile(r"^(\*{0,2}\w+)\s*(?:\(([^)]*)\))?\s*:\s*(.*)$")


class Refused(Exception):
    pass


def called(node):
    """The name of an annotation: "List" for typing.List[str]."""
    if isinstance(node, ast.Subscript):
        node = node.value
    return node.attr if isinstance(node, ast.Attribute) else getattr(node, "id", "")


def parts(node):
    inner = node.slice
    return list(inner.elts) if isinstance(inner, ast.Tuple) else [inner]


def is_none(node):
    return isinstance(node, ast.Constant) and node.value is None


def schema_of(node):
    """→ the schema of an annotation."""
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        return schema_of(ast.parse(node.value, mode="eval").body)
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.BitOr):
        return schema_of(node.right if is_none(node.left) else node.left)
    name = called(node)
    if isinstance(node, ast.Subscript):
        inner = parts(node)
        if name == "Optional":
            return schema_of(inner[0])
        if name == "Union":
            return schema_of(next((each for each in inner if not is_none(each)), inner[0]))
        if name == "Annotated":
            return schema_of(inner[0])
        if name == "Literal":
            values = [each.value for each in inner if isinstance(each, ast.Constant)]
            kinds = {type(each).__name__ for each in values}
            return {"type": NAMES.get(kinds.pop(), "string") if len(kinds) == 1 else "string", "enum": values}
        if NAMES.get(name) == "array":
            return {"type": "array", "items": schema_of(inner[0])}
    if NAMES.get(name) == "array":
        return {"type": "array", "items": {"type": "string"}}
    return {"type": NAMES.get(name, "object")}


def documented(text):
    """→ (the description, {parameter: its description}) of a docstring in Google's style."""
    summary, described, section, last, indent = [], {}, "", None, 0
    for line in (text or "").splitlines():
        found = SECTION.match(line.strip())
        if found:
            section, last = found.group(1), None
        elif not section:
            summary.append(line.strip())
        elif section in ("Args", "Arguments", "Parameters") and line.strip():
            here = len(line) - len(line.lstrip())
            parameter = PARAMETER.match(line.strip())
            if parameter and (last is None or here <= indent):
                last, indent = parameter.group(1).lstrip("*"), here
                described[last] = parameter.group(3)
            elif last is not None:
                described[last] += " " + line.strip()
    return "\n".join(summary).strip(), described


def derive(source):
    functions = [node for node in ast.parse(source).body
                 if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)) and not node.name.startswith("_")]
    if not functions:
        raise Refused("source_code: has no function at its top level; the tool is a function")
    function = functions[-1]
    summary, described = documented(ast.get_docstring(function))
    given = function.args
    if given.vararg or given.kwarg:
        raise Refused(f"source_code: the function {function.name} must name each parameter, without * and **")
    plain = given.posonlyargs + given.args
    defaults = [None] * (len(plain) - len(given.defaults)) + list(given.defaults)
    properties, required = {}, []
    for argument, default in list(zip(plain, defaults)) + list(zip(given.kwonlyargs, given.kw_defaults)):
        if argument.arg in IGNORED:
            continue
        if argument.annotation is None:
            raise Refused(f"source_code: the parameter {argument.arg} of {function.name} has no type annotation")
        properties[argument.arg] = {**schema_of(argument.annotation), "description": described.get(argument.arg, "")}
        if default is None:
            required.append(argument.arg)
    return {"name": function.name, "description": summary,
            "parameters": {"type": "object", "properties": properties, "required": required}}


def main():
    source = sys.stdin.buffer.read().decode("utf-8")
    try:
        print(json.dumps({"schema": derive(source)}))
    except Refused as why:
        print(json.dumps({"error": str(why)}))
    except SyntaxError as why:
        print(json.dumps({"error": f"source_code: line {why.lineno}: {why.msg}"}))


main()
