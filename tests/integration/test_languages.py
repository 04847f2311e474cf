# SPDX-License-Identifier: Apache-2.0
"""Every language of languages/*.yaml, for real: input, arguments, files, a failure and its exit code."""

import unittest

import harness

# Prints its input line and its first argument; and a program with a mistake, with a word expected in the message.
PROGRAMS = {
    "python": ("import sys\nprint(input(), sys.argv[1])", "raise ValueError('oops')", "oops"),
    "node": ("console.log(require('fs').readFileSync(0, 'utf8').trim(), process.argv[2])",
             "throw new Error('oops')", "main.js:1"),
    "typescript": ("import * as fs from 'fs';\nimport { same } from './lib';\n"
                   "const line: string = await Promise.resolve(fs.readFileSync(0, 'utf8'));\n"
                   "console.log(same(line.trim()), process.argv[2]);",
                   "let x: number = ;", "main.ts:1"),
    "bash": ("read line; echo \"$line $1\"", "echo oops >&2; exit 1", "oops"),
    "c": ("#include <stdio.h>\nint main(int n, char **v) {\n  char line[9];\n"
          "  scanf(\"%8s\", line);\n  printf(\"%s %s\\n\", line, v[1]);\n}",
          "int main() { return x; }", "main.c:1"),
    "cpp": ("#include <iostream>\nint main(int n, char **v) {\n  std::string line;\n"
            "  std::cin >> line;\n  std::cout << line << ' ' << v[1] << '\\n';\n}",
            "int main() { return x; }", "main.cpp:1"),
    "go": ("package main\nimport (\"fmt\"; \"os\")\nfunc main() {\n  var line string\n"
           "  fmt.Scan(&line)\n  fmt.Println(line, os.Args[1])\n}",
           "package main\nfunc main() { x }", "main.go:2"),
    "rust": ("fn main() {\n  let mut line = String::new();\n"
             "  std::io::stdin().read_line(&mut line).unwrap();\n"
             "  println!(\"{} {}\", line.trim(), std::env::args().nth(1).unwrap());\n}",
             "fn main() { x }", "main.rs:1"),
    "java": ("import java.util.Scanner;\npublic class Main {\n"
             "  public static void main(String[] args) {\n"
             "    System.out.println(new Scanner(System.in).next() + \" \" + args[0]);\n  }\n}",
             "public class Main { x }", "Main.java:1"),
    "r": ("cat(readLines('stdin'), commandArgs(TRUE)[1], sep = ' ')\ncat('\\n')",
          "stop('oops')", "oops"),
}
COMPILED = {"typescript", "c", "cpp", "go", "rust", "java"}
FILES = {"typescript": [{"path": "lib.ts", "content": "export const same = (s: string) => s;"}]}


def setUpModule():
    global SERVER
    SERVER = harness.Server()
    unittest.enterModuleContext(SERVER)


class Languages(unittest.TestCase):
    def check_runs(self, name, code):
        done = SERVER.run(code, language=name, input="hello\n", args=["world"], memory_mb=512,
                          timeout_seconds=60, files=FILES.get(name, []), wait=180)
        self.assertEqual((done["status"], done["exit_code"], done["stdout"], done["error"]),
                         ("completed", 0, "hello world\n", None), done)
        self.assertEqual(done["artifacts"], [], "the language left files in /workspace")
        self.assertEqual("compile" in done, name in COMPILED)

    def check_fails(self, name, code, word):
        done = SERVER.run(code, language=name, memory_mb=512, timeout_seconds=60, wait=180)
        self.assertEqual((done["status"], done["error"]), ("completed", None), done)
        self.assertNotEqual(done["exit_code"], 0)
        self.assertIn(word, done["stderr"])
        if name in COMPILED:
            self.assertEqual(done["compile"]["exit_code"], done["exit_code"])
            self.assertIn(word, done["compile"]["stderr"])

    def test_each_runs_and_fails_as_itself(self):
        for name, (code, mistake, word) in PROGRAMS.items():
            with self.subTest(language=name):
                if not harness.have_language(SERVER, name):
                    self.skipTest(f"the toolchain of {name} is not on this machine")
                self.check_runs(name, code)
                self.check_fails(name, mistake, word)

    def test_every_file_is_tried(self):
        names = {path.stem for path in (harness.REPO / "languages").glob("*.yaml")}
        self.assertEqual(names, set(PROGRAMS))


if __name__ == "__main__":
    unittest.main()
