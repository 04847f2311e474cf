# SPDX-License-Identifier: Apache-2.0
"""Plain English: few sentences that begin with a noun clause, few words that only point at a noun.

    tests/style/check_english.py            checks
    tests/style/check_english.py --report   prints the figures of every page and folder
    tests/style/check_english.py --lower    lowers the ceilings in english.json to the present figures
    tests/style/check_english.py --list P   prints the sentences of page or folder P that the figures count
"""

import functools
import json
import re
import sys
import unittest

import yaml

import tree

CLAUSE = re.compile(r"(What|Who|Whoever|Whatever|Of|Those|Where)\b")
POINTERS = frozenset("it that this those what who which one they them".split())
LIMITS = {"clauses": 2.0, "pointers": 5.0}  # per cent of the sentences, and of the words
SLACK = 0.3  # above a ceiling: a file that moves to another folder takes its figures along
CEILINGS = tree.REPO / "tests/style/english.json"

FENCE = re.compile(r"^[ \t]*(```|~~~).*?^[ \t]*\1[ \t]*$", re.MULTILINE | re.DOTALL)
HIDDEN = re.compile(r"<!--.*?-->", re.DOTALL)
SPAN = re.compile(r"(`+)(?!`).+?(?<!`)\1(?!`)", re.DOTALL)
URL = re.compile(r"<?\b[a-z]+://[^\s)>\]]+>?")
LINK = re.compile(r"!?\[([^\]]*)\]\([^)\s]*\)")
HEADING = re.compile(r"^#+[ \t]+(.*)$", re.MULTILINE)
BLOCK = re.compile(r"^[ \t]*(?:[-*+]|\d+\.)[ \t]+|^>[ \t]*", re.MULTILINE)
RULE = re.compile(r"^[ \t]*\|?[ \t:|-]+\|?[ \t]*$", re.MULTILINE)
END = re.compile(r"(?<!\be\.g)(?<!\bi\.e)(?<!\bcf)([.!?])[)\"'*_]*\s+(?=[^a-z\s])")
WORD = re.compile(r"[A-Za-z]+(?:['’][a-z]+)?")
COMMENT = re.compile(r"(?:^|\s)///?<?(?: (.*)|$)")


def sentences(markdown):
    """The sentences of prose; code, addresses and questions are left out, a cell of a table is a sentence."""
    text = HIDDEN.sub(" ", FENCE.sub("\n\n", markdown))
    text = SPAN.sub("Code", text)
    text = URL.sub("Address", LINK.sub(r"\1", text))
    text = RULE.sub("\n\n", text)
    text = BLOCK.sub("\n\n", HEADING.sub(r"\n\n\1\n\n", text))
    blocks = []
    for line in text.split("\n"):
        cells = [cell.strip() for cell in line.strip().strip("|").split("|")] if line.lstrip().startswith("|") else None
        blocks += ["", *(part for cell in cells for part in (cell, "")), ""] if cells else [line.strip()]
    for block in "\n".join(blocks).split("\n\n"):
        flat = " ".join(block.split()).replace("**", "")
        for sentence in END.sub(r"\1\n", flat).split("\n"):
            sentence = sentence.strip(" *_(\"'")
            if sentence and not sentence.endswith("?") and WORD.search(sentence):
                yield sentence


def comments(source):
    """The prose of a C++ source's comments: lines that follow each other are one paragraph."""
    lines = []
    for line in source.split("\n"):
        found = COMMENT.search(line)
        if found and "SPDX-License-Identifier" not in line:
            if line[:found.start()].strip():
                lines.append("")  # beside code: a paragraph of its own, unless the next line goes on
            lines.append(found.group(1) or "")
        else:
            lines.append("")
    return re.sub(r" -{4,}$", "", "\n".join(lines), flags=re.MULTILINE)


def described(value):
    """The texts of an OpenAPI document."""
    if isinstance(value, dict):
        for key, inner in value.items():
            if key in ("description", "summary") and isinstance(inner, str):
                yield inner
            else:
                yield from described(inner)
    elif isinstance(value, list):
        for inner in value:
            yield from described(inner)


@functools.cache
def prose():
    """{page or folder: its prose as Markdown}"""
    found = {}
    for path in tree.files():
        if path.parts[0] == "src" and path.suffix in (".cc", ".h"):
            name, text = str(path.parent) + "/", comments(tree.text(path))
        elif path.parts[:2] == ("docs", "adr"):
            name, text = "docs/adr/", tree.text(path)
        elif path.suffix == ".md" and path.name != "CHANGELOG.md":
            name, text = str(path), tree.text(path)
        elif path.parts[0] == "spec" and path.suffix == ".yaml":
            name, text = str(path), "\n\n".join(described(yaml.safe_load(tree.text(path))))
        else:
            continue
        found[name] = found.get(name, "") + "\n\n" + text
    return found


def pointers(text):
    words = WORD.findall(text)
    return sum(word.lower() in POINTERS for word in words), len(words)


@functools.cache
def figures():
    """{page or folder: {"clauses": per cent of sentences, "pointers": per cent of words}}"""
    found = {}
    for name, text in prose().items():
        all_of_it = list(sentences(text))
        clauses = sum(bool(CLAUSE.match(sentence)) for sentence in all_of_it)
        pointing, words = pointers(" ".join(all_of_it))
        found[name] = {"clauses": round(100 * clauses / max(1, len(all_of_it)), 1),
                       "pointers": round(100 * pointing / max(1, words), 1)}
    return found


def ceiling(name, kind):
    kept = json.loads(CEILINGS.read_text()).get(name, {}).get(kind)
    return LIMITS[kind] if kept is None else max(LIMITS[kind], kept + SLACK)


class English(unittest.TestCase):
    def test_sentences_are_split_sensibly(self):
        text = ("# What it is\nCode runs, e.g. `What.` here. See [this](x.md).\nWhat is wrong? Of course.\n\n"
                "```sh\nWhat a mess\n```\n\n| key | Where code runs |\n| --- | --- |\n- One item\n  goes on.\n- **Who** may")
        self.assertEqual(list(sentences(text)), [
            "What it is", "Code runs, e.g. Code here.", "See this.", "Of course.", "key", "Where code runs",
            "One item goes on.", "Who may"])

    def test_comments_are_found(self):
        source = '// SPDX-License-Identifier: Apache-2.0\n// One thing.\n// Two\nint a;  // beside\nauto b = "http://x";\n'
        self.assertEqual(comments(source).split("\n"), ["", "One thing.", "Two", "", "beside", "", ""])

    def test_every_page_and_folder_keeps_its_ceiling(self):
        over = [f"{name}: {kind} {value} % > {ceiling(name, kind)} %" for name, both in figures().items()
                for kind, value in both.items() if value > ceiling(name, kind)]
        self.assertEqual(over, [], "see CONTRIBUTING.md, English; --list NAME prints the sentences")

    def test_ceilings_are_of_this_tree(self):
        self.assertEqual([name for name in json.loads(CEILINGS.read_text()) if name not in figures()], [])


def report():
    print("clauses %  pointers %  page or folder")
    for name, both in sorted(figures().items()):
        print(f"{both['clauses']:9}  {both['pointers']:10}  {name}")


def lower():
    """Writes the figures over the limits; an existing ceiling never rises."""
    old = json.loads(CEILINGS.read_text()) if CEILINGS.exists() else None
    kept = {}
    for name, both in sorted(figures().items()):
        over = {kind: value if old is None else min(value, old.get(name, {}).get(kind, value))
                for kind, value in both.items() if value > LIMITS[kind]}
        if over:
            kept[name] = over
    rows = ",\n".join(f"  {json.dumps(name)}: {json.dumps(over)}" for name, over in kept.items())
    CEILINGS.write_text("{\n" + rows + "\n}\n")


def listed(name):
    for sentence in sentences(prose()[name]):
        pointing, words = pointers(sentence)
        if CLAUSE.match(sentence) or pointing > 0.08 * words:
            print("C" if CLAUSE.match(sentence) else " ", pointing, sentence)


if __name__ == "__main__":
    if sys.argv[1:] == ["--report"]:
        report()
    elif sys.argv[1:] == ["--lower"]:
        lower()
    elif len(sys.argv) == 3 and sys.argv[1] == "--list":
        listed(sys.argv[2])
    else:
        unittest.main()
