// SPDX-License-Identifier: Apache-2.0
// Findings of the audit of builtins, programs and variables (tests/data/command_escapes.tsv), at
// the levels that forbid the effect. Also checks that ordinary work is allowed.
#include <gtest/gtest.h>

#include "base/file.h"
#include "policy/command/filter.h"
#include "policy/command/programs.h"
#include "policy/command/writes.h"

namespace cloister::policy {
namespace {

struct Escape {
  std::string effect;
  std::string command;
};

// The lines of a file of tests/data; in a command \n is a newline and \\ a backslash.
std::vector<std::string> linesOf(std::string_view name) {
  const std::string text =
      base::readFile(CLOISTER_SOURCE_DIR "/tests/data/" + std::string(name)).value();
  std::vector<std::string> lines;
  std::string line;
  for (size_t i = 0; i < text.size(); ++i) {
    if (text[i] == '\n') {
      if (!line.empty() && line[0] != '#') lines.push_back(line);
      line.clear();
    } else if (text[i] == '\\' && i + 1 < text.size() && text[i + 1] != '\n') {
      ++i;
      line += text[i] == 'n' ? '\n' : text[i];
    } else {
      line += text[i];
    }
  }
  return lines;
}

const std::vector<Escape>& escapes() {
  static const std::vector<Escape> kAll = [] {
    std::vector<Escape> all;
    for (const std::string& line : linesOf("command_escapes.tsv")) {
      const size_t tab = line.find('\t');
      if (tab != std::string::npos)
        all.push_back({.effect = line.substr(0, tab), .command = line.substr(tab + 1)});
    }
    return all;
  }();
  return kAll;
}

constexpr std::string_view kOwnLevels = R"(
version: 1
sandbox_levels:
  no_rm:
    description: everything but rm
    why: a test
    permissions:
      allowed_commands: [{pattern: "*", why: a test}]
      forbidden_commands: [{pattern: "rm *", why: a test}]
  guarded:
    description: everything but one place
    why: a test
    permissions:
      allowed_commands: [{pattern: "*", why: a test}]
      forbidden_paths: [{path: "*/src/security/*", access: write, why: a test}]
)";

const Levels& auditLevels() {
  static const Levels kLevels = [] {
    Levels all =
        parseLevels(base::readFile(CLOISTER_SOURCE_DIR "/policies/levels.yaml").value(), "levels")
            .value();
    for (auto& [name, level] : parseLevels(kOwnLevels, "test").value().levels)
      all.levels.emplace(name, level);
    return all;
  }();
  return kLevels;
}

Verdict verdictAt(std::string_view level, std::string_view command) {
  const Levels& levels = auditLevels();
  return judgeCommand(levels.levels.find(level)->second, effectsOf(command, levels.bounds));
}

std::string with(std::string text, std::string_view what) {
  for (size_t at = text.find('@'); at != std::string::npos; at = text.find('@', at + what.size()))
    text.replace(at, 1, what);
  for (size_t at = text.find("{at}"); at != std::string::npos; at = text.find("{at}", at))
    text.replace(at, 4, "@");
  return text;
}

// Each command must be stopped at each level; the message names all exceptions.
void expectHeld(std::string_view effect, std::string_view put,
                std::initializer_list<std::string_view> levels, bool all) {
  size_t count = 0;
  std::string missed;
  for (const Escape& one : escapes()) {
    if (one.effect != effect || (!all && !one.command.contains('@'))) continue;
    ++count;
    const std::string command = with(one.command, put);
    for (const std::string_view level : levels) {
      if (verdictAt(level, command).outcome == Outcome::kAllow)
        missed += "\n  " + std::string(level) + ": " + command;
    }
  }
  EXPECT_EQ(missed, "") << count << " escapes";
}

TEST(CommandAudit, HoldsWhatRunsItsWords) {
  EXPECT_GE(escapes().size(), 300U);
  expectHeld("run", "rm x", {"isolated", "training"}, true);
  expectHeld("run", "rm x", {"no_rm"}, false);
  expectHeld("run", "sudo x", {"standard", "restricted"}, false);
}

TEST(CommandAudit, HoldsWhatWrites) {
  expectHeld("write", "f", {"isolated", "training"}, true);
  expectHeld("write", "/etc/x", {"isolated"}, true);
  expectHeld("write", "src/security/f", {"guarded"}, false);
  for (const std::string_view command :
       {"git diff --output=db/migrations/1", "git log --output Cargo.toml", "git mv a Cargo.toml",
        "git restore Cargo.toml", "git checkout -- Cargo.toml", "git -C db mv a migrations/1",
        "git archive -o db/migrations/x HEAD", "cargo add serde", "cargo rm serde", "cargo init",
        "cargo add --manifest-path a/Cargo.toml x",
        "GIT_TRACE=/workspace/db/migrations/1 git status"}) {
    EXPECT_NE(verdictAt("restricted", command).outcome, Outcome::kAllow) << command;
  }
  for (const std::string_view command :
       {"curl -o /etc/x u", "curl -sSLo /etc/x u", "wget -O /etc/x u", "tar xf a -C /etc",
        "tar cf /etc/a.tar f", "zip -r /etc/a.zip .", "sort -o /etc/x f", "gcc -o /etc/x a.c",
        "sed -i -es/a/b/ /etc/hosts", "awk '{print > \"/etc/x\"}' f", "script -qc ls /etc/x",
        "split f /etc/x", "rsync -a x /etc/ --exclude y", "unzip a -d /etc", "gzip /etc/hosts",
        "TMPDIR=/etc sort f", "find . -fprintf /etc/x a", "patch -o /etc/x a b"}) {
    EXPECT_EQ(verdictAt("standard", command).outcome, Outcome::kDeny) << command;
  }
}

// tests/data/command_findings.tsv: findings in the traces of docs/COMMAND_AUDIT.md.
TEST(CommandAudit, HoldsWhatTheTracesSaw) {
  size_t count = 0;
  for (const std::string& line : linesOf("command_findings.tsv")) {
    const size_t last = line.rfind('\t');
    const size_t before = line.rfind('\t', last - 1);
    const std::string command = line.substr(before + 1, last - before - 1);
    const std::string saw = line.substr(last + 1);
    if (saw.starts_with("runs ") && !saw.contains(';')) continue;  // judged by the executed program
    ++count;
    EXPECT_NE(verdictAt("isolated", command).outcome, Outcome::kAllow) << command << ": " << saw;
  }
  EXPECT_GT(count, 30U);
}

TEST(CommandAudit, HoldsWhatConnects) {
  expectHeld("net", "", {"isolated", "training"}, true);
  EXPECT_EQ(verdictAt("standard", "echo > /dev/tcp/localhost/80").outcome, Outcome::kAllow);
}

TEST(CommandAudit, KnowsWhereAProgramIsSent) {
  for (const std::string_view command :
       {"env -C / rm -rf usr", "env --chdir=/ rm -rf usr", "sh -c 'chdir /; rm -rf usr'",
        "find / -maxdepth 1 -execdir rm -rf usr \\;"}) {
    EXPECT_NE(verdictAt("standard", command).outcome, Outcome::kAllow) << command;
  }
}

// The same programs and words in harmless uses.
TEST(CommandAudit, LeavesTheHarmlessAlone) {
  for (const std::string_view command : {"uniq -c a",
                                         "sort a | uniq",
                                         "sort -k2 -t, a",
                                         "shuf -n 3 f",
                                         "xxd f",
                                         "awk '$3 > 10' f",
                                         "awk '{if ($1 > 2) print $1}' f",
                                         "awk '{print ($1 > $2)}' f",
                                         "ls > /dev/null",
                                         "ls 2>/dev/null",
                                         "awk '{print > \"/dev/stderr\"}' f",
                                         "jobs -l",
                                         "wait",
                                         "wait %1",
                                         "true & wait $!",
                                         "p=$!; wait $p",
                                         "wait $(jobs -p)",
                                         "file f",
                                         "tree -L 2",
                                         "date +%s",
                                         "date -d yesterday",
                                         "GIT_TRACE=1 git status",
                                         "git diff --stat",
                                         "git log --oneline -3",
                                         "hostname",
                                         "less f",
                                         "find . -name x",
                                         "help wait",
                                         "printf '%s\\n' x",
                                         "OPTIND=1",
                                         "declare -a x=(1 2)",
                                         "fc -l",
                                         "hash -r",
                                         "man ls"}) {
    const Verdict verdict = verdictAt("isolated", command);
    EXPECT_EQ(verdict.outcome, Outcome::kAllow) << command << ": " << verdict.reason;
  }
  for (const std::string_view command :
       {"pids=(); for i in 1 2; do ls & pids+=($!); done; for p in \"${pids[@]}\"; do wait $p; "
        "done",
        "export OPTIND=1", "f() { local x=$1; }; f a", "local x=\"$1\"", "declare -r y=$x",
        "curl -sSLo a u", "tar xzf a.tgz -C build", "RUSTFLAGS='-D warnings' cargo check",
        "TMP=$(mktemp -d)", "cargo add serde", "env -C build make", "gcc -std=c++17 -o a a.c",
        "ip netns list", "nohup ./x > log 2>&1 &"}) {
    const Verdict verdict = verdictAt("standard", command);
    EXPECT_EQ(verdict.outcome, Outcome::kAllow) << command << ": " << verdict.reason;
  }
  EXPECT_EQ(verdictAt("training", "git status > /tmp/x").outcome, Outcome::kAllow);
}

// tests/data/agent_commands_fresh.txt, written without knowledge of the table.
TEST(CommandAudit, StopsAtMostTwoPercentOfFreshWork) {
  const std::vector<std::string> commands = linesOf("agent_commands_fresh.txt");
  EXPECT_EQ(commands.size(), 1000U);
  size_t stopped = 0;
  std::string which;
  for (const std::string& command : commands) {
    const Verdict verdict = verdictAt("standard", command);
    if (verdict.outcome == Outcome::kAllow) continue;
    ++stopped;
    which += "\n  " + command + "\n      " + verdict.reason;
  }
  RecordProperty("stopped", static_cast<int>(stopped));
  EXPECT_LE(stopped, 20U) << which;
}

TEST(CommandAudit, KnowsVariablesByTheirEffect) {
  using enum Variable;
  for (const auto& [name, what] : std::initializer_list<std::pair<std::string_view, Variable>>{
           {"GIT_TRACE2_EVENT", kTrace},
           {"GIT_PAGER", kCommand},
           {"LD_AUDIT", kChanges},
           {"BASH_ENV", kChanges},
           {"PYTHONPATH", kCode},
           {"TMPDIR", kFile},
           {"RANDOM", kNumber},
           {"RUSTFLAGS", kFlags},
           {"FOO", kPlain},
           {"GIT_AUTHOR_NAME", kPlain},
           {"CPATH", kCode},
           {"CMAKE_PREFIX_PATH", kCode},
           {"CMAKE_TOOLCHAIN_FILE", kChanges},
           {"PKG_CONFIG_PATH", kCode},
           {"GOROOT", kCode},
           {"UV_PYTHON", kCode},
           {"R_HOME", kCode},
           {"GREP", kChanges},
           {"GREP_COLORS", kPlain}}) {
    EXPECT_EQ(variableNamed(name), what) << name;
  }
}

}  // namespace
}  // namespace cloister::policy
