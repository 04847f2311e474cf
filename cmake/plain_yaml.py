# SPDX-License-Identifier: Apache-2.0
"""Reads the data files of which a build makes tables. They are YAML, but only its plainest part, so that a build needs no
package for it and a reader no rule of YAML that surprises: maps and lists by indentation, lists of scalars in brackets,
scalars that are plain text, whole numbers or in double quotes. Whatever else a line says is an error. A style test holds that
a YAML library reads the shipped files to the same value."""

import re

KEY = re.compile(r"([a-z_]+):(?: (.*))?")
PLAIN = re.compile(r"[A-Za-z0-9_+./-](?:[^\s,\[\]{}:#\"&*!|>%@`]|:(?=[^\s,\]]))*\*?")  # within brackets
NUMBER = re.compile(r"[1-9][0-9]*|0")
# What YAML 1.1 or 1.2 takes for something else than text.
TYPED = re.compile(r"(?i)y|n|yes|no|on|off|true|false|null|~|[-+]?[.0-9][0-9_.:]*(?:e[-+]?[0-9]+)?|0[xob].*|"
                   r"[-+]?\.(?:inf|nan)|[-=.]|<<|---|\.\.\.")


class Broken(Exception):
    """The text is not of this part of YAML, or says what it must not."""


class Reader:
    def __init__(self, text, name):
        self.name, self.at = name, 0
        self.lines = []  # (number, indentation, content) of each that is not empty or a comment
        for number, line in enumerate(text.split("\n"), 1):
            content = line.strip(" ")
            if not content.isprintable() or line != line.rstrip():
                raise Broken(f"{name}:{number}: a character that is not printed, or a blank at the end")
            if content and not content.startswith("#"):
                self.lines.append((number, len(line) - len(content), content))

    def broken(self, what):
        number = self.lines[min(self.at, len(self.lines) - 1)][0] if self.lines else 0
        return Broken(f"{self.name}:{number}: {what}")

    def document(self):
        if not self.lines or self.lines[0][1] != 0:
            raise self.broken("begins with no map")
        value = self.map(0)
        if self.at < len(self.lines):
            raise self.broken("is indented in another way than the lines before it")
        return value

    def map(self, indent):
        found = {}
        while self.at < len(self.lines) and self.lines[self.at][1] == indent and not self.lines[self.at][2].startswith("- "):
            match = KEY.fullmatch(self.lines[self.at][2])
            if match is None:
                raise self.broken("is no key with a value")
            key, rest = match.groups()
            if key in found:
                raise self.broken(f"{key} is there twice")
            found[key] = self.list(indent + 2) if rest is None else self.value(rest, indent)
        return found

    def list(self, indent):
        """Maps behind dashes, at `indent` or where the key is."""
        self.at += 1
        if self.at == len(self.lines) or not self.lines[self.at][2].startswith("- "):
            raise self.broken("has no list where one is expected")
        if self.lines[self.at][1] != indent:
            raise self.broken(f"is not indented by {indent}")
        found = []
        while self.at < len(self.lines) and self.lines[self.at][1] == indent and self.lines[self.at][2].startswith("- "):
            number, _, content = self.lines[self.at]
            self.lines[self.at] = (number, indent + 2, content[2:])
            found.append(self.map(indent + 2))
        return found

    def value(self, text, indent):
        if not text.startswith("["):
            self.at += 1
            return self.scalar(text, r"(?! )(?!.*: )(?!.* #)[A-Za-z0-9_+./-].*(?<![ :])")
        while not text.endswith("]"):
            self.at += 1
            if self.at == len(self.lines) or self.lines[self.at][1] <= indent:
                raise self.broken("has no closing bracket")
            text += " " + self.lines[self.at][2]
        value = self.items(text[1:-1])
        self.at += 1
        return value

    def items(self, text):
        found = []
        for item in re.split(r",(?: |$)", text) if text else []:
            found.append(self.scalar(item, PLAIN))
        if not found or "" in found:
            raise self.broken("has an empty list or item")
        return found

    def scalar(self, text, plain):
        if re.fullmatch(r'"[^"\\]+"', text):
            return text[1:-1]
        if NUMBER.fullmatch(text):
            return int(text)
        if not re.fullmatch(plain, text) or TYPED.fullmatch(text) or re.match(r"[-?](?: |$)", text):
            raise self.broken(f"{text}: is no plain text; quote it")
        return text


def load(text, name):
    return Reader(text, name).document()
