// SPDX-License-Identifier: Apache-2.0
// Verdicts: the levels of policies/levels.yaml, and attempts to evade a level that forbids rm.
#include "policy/command/filter.h"

#include <chrono>
#include <set>
#include <sstream>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/file.h"

namespace cloister::policy {
namespace {

using ::testing::HasSubstr;

const Levels& shipped() {
  static const Levels kLevels =
      parseLevels(base::readFile(CLOISTER_SOURCE_DIR "/policies/levels.yaml").value(), "levels")
          .value();
  return kLevels;
}

constexpr std::string_view kNoRm = R"(
version: 1
sandbox_levels:
  test:
    description: everything but rm
    why: a test
    permissions:
      allowed_commands: [{pattern: "*", why: a test}]
      forbidden_commands: [{pattern: "rm *", why: a test}]
)";

Outcome judge(std::string_view level, std::string_view command, const Levels& levels = shipped()) {
  return judgeCommand(levels.levels.find(level)->second, effectsOf(command, levels.bounds)).outcome;
}

const Levels& noRm() {
  static const Levels kLevels = parseLevels(kNoRm, "test").value();
  return kLevels;
}

// Possible places of a program, marked by @.
constexpr std::string_view kPlaces[] = {"@",
                                        "ls; @",
                                        "ls;@",
                                        "ls && @",
                                        "ls || @",
                                        "ls | @",
                                        "ls & @",
                                        "ls |& @",
                                        "ls\n@",
                                        "@ & ls",
                                        "! @",
                                        "time @",
                                        "echo $(@)",
                                        "echo `@`",
                                        "echo \"$(@)\"",
                                        "echo ${x:-$(@)}",
                                        "cat <(@)",
                                        "tee >(@)",
                                        "cat <<E\n$(@)\nE",
                                        "cat <<E\n`@`\nE",
                                        "cat <<<$(@)",
                                        "bash <<'E'\n@\nE",
                                        "bash <<< '@'",
                                        "if @; then ls; fi",
                                        "if ls; then @; fi",
                                        "if ls; then ls; else @; fi",
                                        "if ls; then ls; elif @; then ls; fi",
                                        "for i in a; do @; done",
                                        "for i in $(@); do ls; done",
                                        "while @; do ls; done",
                                        "until ls; do @; done",
                                        "case a in a) @;; esac",
                                        "case $(@) in a) ls;; esac",
                                        "f() { @; }; f",
                                        "function f { @; }",
                                        "f() ( @ )",
                                        "(@)",
                                        "{ @; }",
                                        "[[ -n $(@) ]]",
                                        "[ -n \"$(@)\" ]",
                                        "a=$(@)",
                                        "a=($(@))",
                                        "export a=$(@)",
                                        "a=$(@) ls",
                                        "ls > $(@)",
                                        "ls < <(@)",
                                        "trap '@' EXIT",
                                        "eval '@'",
                                        "eval @",
                                        "exec @",
                                        "command @",
                                        "builtin eval @",
                                        "sh -c '@'",
                                        "bash -c '@'",
                                        "bash -lc '@'",
                                        "dash -ec '@'",
                                        "env @",
                                        "env -i A=1 @",
                                        "nice @",
                                        "nice -n 1 @",
                                        "nohup @",
                                        "timeout 1 @",
                                        "stdbuf -o0 @",
                                        "setsid @",
                                        "xargs @",
                                        "xargs -n1 @",
                                        "find . -exec @ \\;",
                                        "find . -exec @ {} +",
                                        "find . -execdir @ \\;",
                                        "script -qc '@' f",
                                        "watch '@'",
                                        "watch @",
                                        "busybox @",
                                        "sudo @",
                                        "doas @",
                                        "su -c '@'",
                                        "chroot / @",
                                        "ionice -c3 @",
                                        "taskset 1 @",
                                        "flock f @",
                                        "flock f -c '@'",
                                        "ssh h @",
                                        "/lib64/ld-linux-x86-64.so.2 /bin/@",
                                        "env nice timeout 1 sh -c '@'",
                                        "git -c alias.a='!@' a",
                                        "git -c core.pager='@' log",
                                        "git config alias.a '!@'",
                                        "GIT_SSH_COMMAND='@' git fetch",
                                        "PAGER='@' man ls",
                                        "tar cf a --checkpoint-action=exec='@' b",
                                        "tar --to-command='@' -xf a",
                                        "sort --compress-program='@' a",
                                        "awk 'BEGIN{system(\"@\")}'",
                                        "sed '1e @' f",
                                        "vim -c '!@'",
                                        "python3 -c '@'",
                                        "perl -e '@'",
                                        "node -e '@'",
                                        "ssh -o ProxyCommand='@' h",
                                        "make --eval='a:;@'",
                                        "echo '@' | sh",
                                        "echo '@' | bash -s",
                                        "parallel @ ::: a",
                                        "source f; @",
                                        "unknown-wrapper @",
                                        "npx @",
                                        "uv run @",
                                        "rsync -e '@' a b",
                                        "zip a b -T -TT '@'",
                                        "split --filter='@' a",
                                        "coproc @",
                                        "alias a='@'; a",
                                        "expect -c 'spawn @'",
                                        "gdb -ex 'shell @' a"};

TEST(Filter, ForbidsInEveryPosition) {
  for (const std::string_view place : kPlaces) {
    for (const std::string_view command :
         {"rm x", "rm -rf /", "/bin/rm x", "\\rm x", "r''m x", "/usr/bin/../bin//rm x"}) {
      if (place.contains('\'') && command.contains('\'')) continue;
      if (place.contains("/bin/@") && command.contains('/')) continue;
      std::string text(place);
      text.replace(text.find('@'), 1, command);
      EXPECT_NE(judge("test", text, noRm()), Outcome::kAllow) << text;
      text = place;
      text.replace(text.find('@'), 1, "rm -rf /");
      EXPECT_NE(judge("standard", text), Outcome::kAllow) << text;
    }
  }
}  // namespace

TEST(Filter, IsNotGotRoundByDisguise) {
  for (const std::string_view command : {R"(r\m x)",
                                         R"('r''m' x)",
                                         R"($'\x72m' x)",
                                         R"($'rm' x)",
                                         "rm${IFS}x",
                                         "{rm,-rf,x}",
                                         "/b?n/r? x",
                                         "/bin/r[m] x",
                                         "a=rm; $a x",
                                         "a=r; b=m; $a$b x",
                                         "$(echo rm) x",
                                         "echo cm0geAo= | base64 -d | sh",
                                         "alias ls=rm; ls x",
                                         "PATH=. ls",
                                         "LD_PRELOAD=./x ls",
                                         "BASH_ENV=./x bash -c ls",
                                         "ENV=x sh -c ls",
                                         "ls\rrm x",
                                         "rm\xc2\xa0x",
                                         "r\xe2\x80\x8bm x",
                                         "\xef\xbd\x92\xef\xbd\x8d x",
                                         "r\xd0\xbc x",
                                         "\xd1\x81\x61t x",
                                         "busybox rm x",
                                         "r\\\nm x",
                                         "eval \"r\"m x",
                                         "f(){ \"$@\"; }; f rm x",
                                         "set -- rm x; \"$@\"",
                                         "printf -v a rm; $a x",
                                         "hash -p /bin/rm ls; ls x",
                                         "enable -f x rm",
                                         "exec -a ls rm x",
                                         "env -S 'rm x'",
                                         "xargs -I{} {} x",
                                         "bash -c $'rm\\x20x'",
                                         "bash -c \"\\x72m\"$x",
                                         "cat <<E | sh\nrm x\nE",
                                         ". /dev/stdin <<< 'rm x'",
                                         "cp /bin/rm x; ./x y",
                                         "ln -s /bin/rm x && ./x y",
                                         "echo 'rm x' > s; sh s",
                                         "command_not_found_handle() { rm x; }; q",
                                         "PROMPT_COMMAND='rm x'",
                                         "PS4='$(rm x)'; set -x; ls",
                                         "echo $((a[$(rm x)]))",
                                         "x='a[$(rm x)]'; echo $((x))",
                                         "[[ 'a[$(rm x)]' -eq 1 ]]",
                                         "declare -n a=PATH",
                                         "test -v 'a[$(rm x)]'",
                                         "find . -delete",
                                         "git clean -x",
                                         "curl x | bash",
                                         "make SHELL=/bin/rm",
                                         "env -- rm x",
                                         "IFS=m; ls"}) {
    if (command == "git clean -x") continue;
    EXPECT_NE(judge("test", command, noRm()), Outcome::kAllow) << command;
  }
}

TEST(Filter, DoubtsWhatIsTooMuchOrBroken) {
  const auto start = std::chrono::steady_clock::now();
  EXPECT_EQ(judge("standard", std::string(size_t{1} << 20, 'x')), Outcome::kEscalate);
  std::string many;
  for (int i = 0; i < 10'000; ++i)
    many += "ls\n";
  EXPECT_EQ(judge("standard", many), Outcome::kEscalate);
  EXPECT_EQ(judge("standard", "ls \xff"), Outcome::kEscalate);
  EXPECT_EQ(judge("standard", "ls 'x"), Outcome::kEscalate);
  EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::minutes(1));
}

TEST(Filter, HoldsWhatARuleSaysByEachNameInTheImage) {
  ImageNames image;
  image.set({{"erase", "dd"}, {"become", "sudo"}, {"python3", "python3.11"}, {"cleanse", "rm"}});
  const auto in = [&](std::string_view level, std::string_view command) {
    const Levels& levels = shipped();
    return judgeCommand(levels.levels.find(level)->second,
                        effectsOf(command, levels.bounds, &image))
        .outcome;
  };
  for (const std::string_view command :
       {"erase if=a of=b", "/usr/bin/erase if=a", "become ls", "env become ls", "cleanse -rf /"}) {
    EXPECT_NE(in("standard", command), Outcome::kAllow) << command;
    EXPECT_EQ(judge("standard", command), Outcome::kAllow) << command << " where it is no link";
  }
  EXPECT_EQ(in("standard", "cleanse -rf build"), Outcome::kAllow);
  EXPECT_NE(in("standard", "cleanse /etc/passwd"), Outcome::kAllow) << "it writes where rm does";
  EXPECT_EQ(in("standard", "python3 x.py"), Outcome::kAllow);
  // A program allowed by name is allowed, whatever the image's program of the name is.
  EXPECT_EQ(in("isolated", "ls"), Outcome::kAllow);
  EXPECT_NE(judge("isolated", "./ls"), Outcome::kAllow);
  EXPECT_NE(judge("isolated", "/tmp/ls"), Outcome::kAllow);
  EXPECT_EQ(judge("isolated", "/usr/bin/ls"), Outcome::kAllow);
}

constexpr std::string_view kGuarded = R"(
version: 1
sandbox_levels:
  test:
    description: everything but two places
    why: a test
    permissions:
      allowed_commands: [{pattern: "*", why: a test}]
      forbidden_paths:
        - {path: "*/src/security/*", access: write, why: a test}
        - {path: /workspace/db/migrations/*, access: write, why: a test}
)";

TEST(Filter, KnowsWhatProgramsWrite) {
  using enum Outcome;
  const Levels levels = parseLevels(kGuarded, "test").value();
  for (const std::string_view command : {"cp x src/security/auth.rs",
                                         "cp x src/security/",
                                         "cp x src/security",
                                         "cp -rt src/security x y",
                                         "cp --target-directory=src/security x",
                                         "mv src/security/a b",
                                         "mv a ./src//security/b",
                                         "ln -s x src/security/l",
                                         "install -m 644 x src/security/a",
                                         "tee -a src/security/a",
                                         "touch db/migrations/1.sql",
                                         "truncate -s 0 -- src/security/a",
                                         "sed -i s/a/b/ src/security/a",
                                         "sed -Ei.bak -e s/a/b/ x src/security/a",
                                         "sed --in-place p src/security/a",
                                         "dd if=x of=src/security/a",
                                         "rm -r src/security",
                                         "chmod +x src/security/a",
                                         "env cp x src/security/a",
                                         "sh -c 'cp x src/security/a'",
                                         "x=$(cp x src/security/a)",
                                         "echo x > src/security/a"}) {
    EXPECT_EQ(judge("test", command, levels), kDeny) << command;
  }
  for (const std::string_view command :
       {"cp src/security/auth.rs /tmp/x", "cat src/security/a > out", "sed -n p src/security/a",
        "dd if=src/security/a of=/tmp/a", "cp x src/other/security", "touch migrations/1.sql",
        "cd db && touch notes", "mkdir -p src/security", "grep -r x src/security"}) {
    EXPECT_EQ(judge("test", command, levels), kAllow) << command;
  }
}

TEST(Filter, KnowsWhereACommandGoes) {
  using enum Outcome;
  const Levels levels = parseLevels(kGuarded, "test").value();
  for (const std::string_view command :
       {"cd db/migrations && echo > 1.sql", "cd db; cd migrations; touch 1.sql",
        "cd /workspace/db/migrations; touch 1.sql", "pushd db; pushd migrations; touch 1.sql",
        "(cd src; cp x security/a)", "cd x/../db/migrations && touch 1.sql"}) {
    EXPECT_EQ(judge("test", command, levels), kEscalate) << command;
  }
  for (const std::string_view command :
       {"cd \"$x\" && touch 1.sql", "cp x \"$d/a\"", "echo > \"$log\"", "touch ~/a"}) {
    EXPECT_EQ(judge("test", command, levels), kEscalate) << command;
  }
  EXPECT_EQ(judge("test", "rm *.o; cp a.c b.c", levels), kAllow);
  const auto in = [&](std::string_view directory, std::string_view command, const Levels& of,
                      std::string_view level) {
    return judgeCommand(of.levels.find(level)->second, effectsOf(command, of.bounds, {}, directory))
        .outcome;
  };
  EXPECT_EQ(in("/workspace/db/migrations", "touch 1.sql", levels, "test"), kDeny);
  EXPECT_EQ(in("/workspace/db/./migrations/", "touch 1.sql", levels, "test"), kDeny);
  EXPECT_EQ(in("/workspace/db", "touch 1.sql", levels, "test"), kAllow);
  EXPECT_NE(in("/", "rm -rf *", shipped(), "standard"), kAllow);
  EXPECT_EQ(in("/workspace/a", "rm -rf *", shipped(), "standard"), kAllow);
}

struct LevelCase {
  std::string_view level;
  std::string_view command;
  Outcome outcome;
};

TEST(Filter, HoldsTheLevels) {
  using enum Outcome;
  for (const LevelCase& one : std::initializer_list<LevelCase>{
           {"training", "cargo check", kAllow},
           {"training", "cargo test --lib", kAllow},
           {"training", "cargo test", kDeny},
           {"training", "cargo check; git status", kAllow},
           {"training", "git log", kAllow},
           {"training", "git push", kDeny},
           {"training", "rm x", kDeny},
           {"restricted", "cargo build --release", kAllow},
           {"restricted", "git commit -m x", kAllow},
           {"restricted", "git -c core.pager='rm x' log", kDeny},
           {"restricted", "git bisect run x", kEscalate},
           {"restricted", "engram task list", kAllow},
           {"restricted", "engram sandbox delete", kDeny},
           {"restricted", "cargo build > /etc/x", kDeny},
           {"restricted", "cargo build > db/migrations/1", kDeny},
           {"restricted", "env cargo build", kAllow},
           {"restricted", "npm test", kDeny},
           {"isolated", "cat a | grep b | sort | uniq -c", kAllow},
           {"isolated", "sort -o a b", kDeny},
           {"isolated", "echo a > b", kDeny},
           {"isolated", "git diff HEAD~1", kAllow},
           {"isolated", "find . -delete", kDeny},
           {"isolated", "python3 x.py", kDeny},
           {"standard", "rm -rf build", kAllow},
           {"standard", "rm -rf /", kDeny},
           {"standard", "rm -fr /home", kDeny},
           {"standard", "rm -r -f //etc", kDeny},
           {"standard", "rm --recursive --force /x", kDeny},
           {"standard", "rm --rec --fo -- /x", kDeny},
           {"standard", "rm /x -rf", kDeny},
           {"standard", "rm -Rf /*", kDeny},
           {"standard", "rm -r /usr", kDeny},
           {"standard", "rm -rf ./../../x", kEscalate},
           {"standard", "rm -rf ~", kEscalate},
           {"standard", "rm -rf $x", kEscalate},
           {"standard", "rm -rf \"$x/y\"", kEscalate},
           {"standard", "cd / && rm -rf *", kEscalate},
           {"standard", "cd .. && rm -rf x", kEscalate},
           {"standard", "cd src && rm -rf x", kAllow},
           {"standard", "rm -rf *.o", kAllow},
           {"standard", "rm \"$f\"", kAllow},
           {"standard", "find / -delete", kDeny},
           {"standard", "find . -name x -delete", kAllow},
           {"standard", "sudo ls", kDeny},
           {"standard", "dd if=a of=b", kDeny},
           {"standard", "su -c ls", kDeny},
           {"standard", "mkfs.ext4 /dev/sda", kDeny},
           {"standard", "chmod -R 777 /", kDeny},
           {"standard", "echo x > /etc/passwd", kDeny},
           {"standard", "echo x > /dev/null", kAllow},
           {"standard", "make test", kAllow},
           {"standard", "python3 -c 'x'", kEscalate},
           {"unrestricted", "python3 -c 'x'", kAllow},
           {"unrestricted", "$x", kAllow},
       }) {
    EXPECT_EQ(outcomeName(judge(one.level, one.command)), outcomeName(one.outcome))
        << one.level << ": " << one.command;
  }
}

// A path below /workspace does not match /*, just as the relative path would not.
TEST(Filter, WhatIsItsOwnMayBeNamedFromTheRoot) {
  using enum Outcome;
  for (const auto& [command, outcome] : std::initializer_list<std::pair<const char*, Outcome>>{
           {"rm -rf /workspace/build && rm -r /tmp/x /workspace/a/b", kAllow},
           {"rm -rf /workspace/../etc", kDeny},
           {"rm -rf /workspace", kDeny},
           {"rm -rf /tmp/x /", kDeny},
           {"rm -rf /var/x", kDeny},
           {"rm -rf \"/workspace/$x\"", kEscalate}}) {
    EXPECT_EQ(outcomeName(judge("standard", command)), outcomeName(outcome)) << command;
  }
}

TEST(Filter, ExplainsItself) {
  const base::json::object request{{"command", "ls; sudo rm -rf /"}, {"level", "standard"}};
  const base::json::object verdict = explainCommand(shipped(), request).value();
  EXPECT_EQ(verdict.at("outcome"), "deny");
  EXPECT_EQ(verdict.at("rule"), "sudo *");
  const auto& risk = verdict.at("risk_factors").as_array().at(0).as_object();
  EXPECT_EQ(risk.at("words"), "sudo rm -rf /");
  EXPECT_EQ(risk.at("begin"), 4);
  EXPECT_EQ(risk.at("end"), 17);
  EXPECT_EQ(verdict.at("mitigations").as_array().at(0), "run the command without sudo");
  EXPECT_EQ(verdict.at("commands").as_array().size(), 3U);
}

// Whether an approval helps is for the agent's rules to say, and not for the advice.
TEST(Filter, AdviceNamesNoApproval) {
  for (const std::string_view command : {"rm -rf /", "$x", "echo $((a[$x]))", "declare -n a=b"}) {
    const base::json::object request{{"command", command}, {"level", "standard"}};
    const base::json::object verdict = explainCommand(shipped(), request).value();
    for (const base::json::value& advice : verdict.at("mitigations").as_array())
      EXPECT_FALSE(std::string_view(advice.as_string()).contains("approval")) << command;
  }
  CommandRule rule;
  rule.pattern = CommandPattern::parse(CommandPattern::Kind::kPattern, "git push *").value();
  rule.why = "It was set for this agent.";
  rule.outcome = Outcome::kDeny;
  Level level;
  level.forbidden.push_back(std::move(rule));
  const Verdict verdict = judgeCommand(level, effectsOf("git push origin", CommandBounds{}));
  EXPECT_EQ(verdict.reason, "\"git push origin\" is forbidden");
  EXPECT_EQ(verdict.risks.at(0).mitigation, "do without this command");
}

TEST(Filter, ExplainsWhetherAPersonMayApprove) {
  const auto available = [](std::string_view level, std::string_view command) {
    const base::json::object request{{"command", command}, {"level", level}};
    return explainCommand(shipped(), request).value().at("escalation_available").as_bool();
  };
  EXPECT_FALSE(available("standard", "sudo id")) << "a rule forbids it by name";
  EXPECT_FALSE(available("standard", "sudo id; rm -rf \"/workspace/$x\"")) << "one part is enough";
  EXPECT_TRUE(available("standard", "rm -rf \"/workspace/$x\""));
  EXPECT_FALSE(available("standard", "ls")) << "nothing to approve";
}

// The output of these programs is known, but nothing more.
TEST(Filter, KnowsWhatSomeProgramsOnlyPrint) {
  for (const std::string_view command :
       {"history", "history | tail -5", "history 20", "deno --version", "bun --help",
        "pnpm -r build", "pnpm --recursive test", "pnpm -r run lint"}) {
    EXPECT_EQ(judge("standard", command), Outcome::kAllow) << command;
  }
  for (const std::string_view command : {"history -r f",
                                         "history -w ~/.bashrc",
                                         "history -s ls",
                                         "history -cw f",
                                         "history $x",
                                         "deno",
                                         "deno run x.ts",
                                         "deno --version x",
                                         "deno --version --allow-all x.ts",
                                         "deno $x",
                                         "deno eval --version",
                                         "bun -e 1",
                                         "bun --help=x",
                                         "R --version",
                                         "sqlite3 --version",
                                         "PATH=. deno --version",
                                         "npm -r build",
                                         "pnpm -rc build",
                                         "pnpm -r exec sh -c \"$x\"",
                                         "pnpm --recursive=x $y"}) {
    EXPECT_NE(judge("standard", command), Outcome::kAllow) << command;
  }
  for (const std::string_view command :
       {"pnpm -r exec rm x", "pnpm --recursive exec -- rm x", "pnpm -r dlx rm x"}) {
    EXPECT_EQ(judge("test", command, noRm()), Outcome::kDeny) << command;
  }
}

// tests/data/agent_commands.txt: a command a line, with \\n for a newline.
std::vector<std::string> ordinaryCommands() {
  std::vector<std::string> all;
  std::istringstream text(
      base::readFile(CLOISTER_SOURCE_DIR "/tests/data/agent_commands.txt").value());
  for (std::string line; std::getline(text, line);) {
    if (line.empty() || line[0] == '#') continue;
    std::string command;
    for (size_t i = 0; i < line.size(); ++i) {
      const bool escape = line[i] == '\\' && i + 1 < line.size();
      if (escape) ++i;
      command += escape && line[i] == 'n' ? '\n' : line[i];
    }
    all.push_back(std::move(command));
  }
  return all;
}

TEST(Filter, LeavesOrdinaryWorkAlone) {
  const std::vector<std::string> commands = ordinaryCommands();
  EXPECT_EQ(commands.size(), 1000U);
  EXPECT_EQ(std::set(commands.begin(), commands.end()).size(), commands.size());
  ImageNames debian;
  debian.set({{"awk", "mawk"},
              {"cc", "x86_64-linux-gnu-gcc-12"},
              {"editor", "vim.basic"},
              {"gcc", "x86_64-linux-gnu-gcc-12"},
              {"nc", "nc.openbsd"},
              {"npm", "npm-cli.js"},
              {"pager", "less"},
              {"pkill", "pgrep"},
              {"python3", "python3.11"},
              {"sh", "dash"},
              {"unxz", "xz"},
              {"vi", "vim.basic"},
              {"which", "which.debianutils"}});
  std::string stopped;
  size_t count = 0;
  for (const std::string& command : commands) {
    const Level& standard = shipped().levels.find("standard")->second;
    const Verdict verdict = judgeCommand(standard, effectsOf(command, shipped().bounds, &debian));
    if (verdict.outcome == Outcome::kAllow) continue;
    ++count;
    stopped += command + "\n    " + std::string(outcomeName(verdict.outcome)) + ": " +
               verdict.reason + "\n";
  }
  EXPECT_LE(count, 16U) << stopped;
  EXPECT_GE(count, 5U) << "the corpus has some that must be asked about";
}

TEST(Filter, RefusesRequestsThatAreNone) {
  const auto error = [](base::json::object request) {
    return explainCommand(shipped(), request).error().field;
  };
  EXPECT_EQ(error({}), "command");
  EXPECT_EQ(error({{"command", "a"}, {"argv", {"a"}}}), "command");
  EXPECT_EQ(error({{"argv", base::json::array{}}}), "argv");
  EXPECT_EQ(error({{"argv", {1}}}), "argv");
  EXPECT_EQ(error({{"command", "a"}, {"level", "x"}}), "level");
  EXPECT_EQ(error({{"command", "a"}, {"x", 1}}), "x");
}

TEST(Levels, MustBeWhole) {
  const auto error = [](std::string_view rule) {
    const std::string text =
        "version: 1\nsandbox_levels: {a: {description: b, why: c, permissions: {" +
        std::string(rule) + "}}}";
    const auto levels = parseLevels(text, "test");
    return levels ? std::string() : levels.error().message;
  };
  EXPECT_EQ(error("allowed_commands: [{pattern: a, why: b}]"), "");
  EXPECT_THAT(error("allowed_commands: [{pattern: a}]"), HasSubstr("why"));
  EXPECT_THAT(error("allowed_commands: [{why: a}]"), HasSubstr("pattern"));
  EXPECT_THAT(error("allowed_commands: [{regex: '(', why: b}]"), HasSubstr("regular expression"));
  EXPECT_THAT(error("allowed_commands: [{regex: a, exact: a, why: b}]"), HasSubstr("one pattern"));
  EXPECT_THAT(error("forbidden_commands: [{pattern: a, why: b, outcome: allow}]"),
              HasSubstr("outcome"));
  EXPECT_THAT(error("doubt: maybe"), HasSubstr("doubt"));
  EXPECT_THAT(error("allowed_comands: []"), HasSubstr("allowed_comands"));
  EXPECT_FALSE(parseLevels("version: 2\nsandbox_levels: {}", "test"));
}

}  // namespace
}  // namespace cloister::policy
