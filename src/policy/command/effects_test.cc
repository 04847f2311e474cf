// SPDX-License-Identifier: Apache-2.0
// Programs found by the parser: one line for each case.
#include "policy/command/effects.h"

#include <algorithm>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace cloister::policy {
namespace {

struct Case {
  std::string_view command;
  std::string_view runs;  // programs in the order of the text, followed by ? for doubt, ~ for code
                          // of the project
};

std::string runs(std::string_view command, const CommandBounds& bounds = {}) {
  const Effects effects = effectsOf(command, bounds);
  std::string all;
  for (const Execution& one : effects.executions)
    (all += all.empty() ? "" : " ") += one.program;
  bool doubt = false;
  bool project = false;
  for (const Finding& finding : effects.findings) {
    doubt = doubt || finding.weight == Finding::Weight::kDoubt;
    project = project || finding.weight == Finding::Weight::kProject;
    EXPECT_LE(finding.span.begin, finding.span.end) << command;
    EXPECT_LE(finding.span.end, command.size()) << command;
  }
  if (doubt) return "?";
  return all + (project ? "~" : "");
}

void expectAll(std::initializer_list<Case> cases) {
  for (const Case& one : cases)
    EXPECT_EQ(runs(one.command), one.runs) << one.command;
}

TEST(Effects, ReadsListsAndPipelines) {
  expectAll({
      {"", ""},
      {"ls", "ls"},
      {"ls -l /tmp", "ls"},
      {"ls; rm x", "ls rm"},
      {"ls;rm x", "ls rm"},
      {"ls && rm x || cat y", "ls rm cat"},
      {"ls&rm x", "ls rm"},
      {"ls | rm x", "ls rm"},
      {"ls |& rm x", "ls rm"},
      {"ls\nrm x", "ls rm"},
      {"ls # rm x", "ls"},
      {"ls #; rm x\nrm y", "ls rm"},
      {"ls a#b; rm x", "ls rm"},
      {"! rm x", "rm"},
      {"time rm x", "time rm"},
      {"time -p rm x", "time rm"},
      {"(rm x)", "rm"},
      {"( ( rm x ) )", "rm"},
      {"{ rm x; }", "rm"},
      {"{ rm x; } > f & ls", "rm ls"},
      {"if true; then rm x; fi", "true rm"},
      {"if ls; then cat x; elif wc x; then rm x; else du; fi", "ls cat wc rm du"},
      {"for f in a b; do rm $f; done", "rm"},
      {"for f; do rm $f; done", "rm"},
      {"for f in $(cat list)\ndo rm x\ndone", "cat rm"},
      {"for ((i=0;i<3;i++)); do rm x; done", "rm"},
      {"while cat x; do rm x; done < f", "cat rm"},
      {"until cat x; do rm x; done", "cat rm"},
      {"case x in a) ls;; b|c) rm x;; *) cat y; esac", "ls rm cat"},
      {"case x in (a) ls;& b) rm x;;& esac; du", "ls rm du"},
      {"f() { rm x; }; f", "rm f"},
      {"f () ( rm x ); f", "rm f"},
      {"function f { rm x; }", "rm"},
      {"function f() { rm x; }", "rm"},
      {"[[ -f x && -d y ]] && rm x", "rm"},
      {"[[ $a == b* ]] || rm x", "rm"},
      {"[ -f x ] && rm x", "[ rm"},
      {"if [[ \"$x\" =~ ^[0-9]+$ ]]; then rm x; fi", "rm"},
      {"echo done; echo fi", "echo echo"},
      {"echo if then; rm x", "echo rm"},
      {"> f rm x", "rm"},
      {"2>&1 >f rm x", "rm"},
      {"A=1 B=2 rm x", "rm"},
      {"A=(1 2); rm x", "rm"},
      {"ls &> f; rm x", "ls rm"},
      {"ls 2>/dev/null >&2 | rm x", "ls rm"},
      {"ls >| f; rm x", "ls rm"},
      {"ls <> f; rm x", "ls rm"},
  });
}

TEST(Effects, ReadsQuotesAndEscapes) {
  expectAll({
      {R"(r\m x)", "rm"},
      {R"('r''m' x)", "rm"},
      {R"("r"m x)", "rm"},
      {R"($'\x72m' x)", "rm"},
      {R"($'\162\155' x)", "rm"},
      {R"($"rm" x)", "rm"},
      {"r\\\nm x", "rm"},
      {"r''m x", "rm"},
      {"ls &\\\n& rm x", "ls rm"},
      {R"(echo 'a; rm x')", "echo"},
      {R"(echo "a; rm x")", "echo"},
      {R"(echo a\; rm x)", "echo"},
      {R"(echo "a\"; rm x")", "echo"},
      {R"(echo 'a'"b"'; rm x')", "echo"},
      {R"(echo "it's" ; rm x)", "echo rm"},
      {R"(echo \' ; rm x ; echo \')", "echo rm echo"},
      {R"(echo 'x)", "?"},
      {R"(echo "x)", "?"},
      {R"(echo x\)", "?"},
      {R"(echo $'a\u0041')", "?"},
  });
}

TEST(Effects, ReadsExpansions) {
  expectAll({
      {"echo $(rm x)", "rm echo"},
      {"echo `rm x`", "rm echo"},
      {"echo \"$(rm x)\"", "rm echo"},
      {R"(echo "`rm x`")", "rm echo"},
      {"echo `echo \\`rm x\\``", "rm echo echo"},
      {"echo ${x:-$(rm x)}", "rm echo"},
      {"echo \"${x:-\"$(rm x)\"}\"", "rm echo"},
      {"echo ${x} ${#x} ${x%.*} ${x##*/} ${x//a/b} ${x:1:2} ${x^^}", "echo"},
      {"cat <(rm x)", "rm cat"},
      {"tee >(rm x)", "rm tee"},
      {"a=$(rm x)", "rm"},
      {"a=(1 $(rm x))", "rm"},
      {"echo > $(rm x)", "rm echo"},
      {"i=1; echo $((i+1))", "echo"},
      {"for i in 1 2 3; do echo $((i * 2)); done", "echo"},
      {"echo $((x+1))", "?"},
      {"echo $((a[$(rm x)]))", "?"},
      {"$(echo rm) x", "?"},
      {"$a x", "?"},
      {"a=rm; $a x", "?"},
      {"/b?n/r? x", "?"},
      {"{rm,-rf,x}", "?"},
      {"${IFS}rm x", "?"},
      {"rm${IFS}x", "?"},
      {"echo ${!x}", "?"},
      {"echo ${x@P}", "?"},
      {"echo ${a[$(rm x)]}", "?"},
      {"~/bin/x", "?"},
      {"\"\" x", "?"},
      {"mkdir -p src/{a,b}", "mkdir"},
      {"ls *.c ?.h [a-z]*", "ls"},
      {"echo $[1+1]", "?"},
      {"(( i++ ))", "?"},
      {"((i=1, i+=2)); ls", "ls"},
      {"((PATH=1)); ls", "?"},
      {"(( x=1, PATH = 2 )); ls", "?"},
      {"for ((PATH=1;PATH<1;)); do :; done; ls", "?"},
      {"((HOME=1)); git status", "?"},
      {"((IFS=1)); ls", "?"},
      {"IFS=1; ((IFS<<=1)); ls", "?"},
      {"((PA=1,TH=1)); ((PA\\\nTH=1)); ls", "?"},
      {"x=; ((PA=1,TH=1)); ((PA${x}TH=1)); ls", "?"},
      {"x=1; P=1; ((P$x)); ls", "?"},
      {"f() { (( $1 )); }; f 'a[$(rm x)]'", "?"},
      {"f() { (( ${1} + 1 )); }; f 'a[$(rm x)]'", "?"},
      {"let x=a", "?"},
      {"[[ $x -eq 1 ]]", "?"},
      {"[[ $# -eq 1 ]]", ""},
      {"n=3; [[ $n -gt 1 ]] && ls", "ls"},
      {"test -v 'a[$(rm x)]'", "?"},
      {"printf -v 'a[$(rm x)]' y", "?"},
      {"read 'a[$(rm x)]'", "?"},
      {"unset 'a[$(rm x)]'", "?"},
  });
}

TEST(Effects, ReadsHereDocuments) {
  expectAll({
      {"cat <<E\n$(rm x)\nE", "rm cat"},
      {"cat <<'E'\n$(rm x)\nE", "cat"},
      {"cat <<\"E\"\n`rm x`\nE\nls", "cat ls"},
      {"cat <<E\nrm x\nE\nrm y", "cat rm"},
      {"cat <<-E\n\ta\n\tE\nrm y", "cat rm"},
      {"cat <<E | rm x\na\nE", "cat rm"},
      {"cat <<A <<B\na\nA\nb\nB\nrm x", "cat rm"},
      {"cat <<E\nrm x", "?"},
      {"cat <<E\n a \\\nE\nrm x\nE", "?"},
      {"cat <<< 'rm x'; ls", "cat ls"},
      {"cat <<< $(rm x)", "rm cat"},
      {"bash <<'E'\nrm x\nE", "bash rm"},
      {"sh <<E\nrm $x\nE", "?"},
      {"bash <<< 'rm x'", "bash rm"},
      {"echo rm | sh", "?"},
      {"$(cat <<E\na\nE\n)", "?"},
      {"echo $(cat <<E\na\nE\n); rm x", "cat echo rm"},
  });
}

TEST(Effects, KnowsWrappers) {
  expectAll({
      {"env rm x", "env rm"},
      {"env -i A=1 rm x", "env rm"},
      {"env -u A rm x", "env rm"},
      {"env -S 'rm x'", "?"},
      {"env -u", "env"},
      {"timeout -k", "timeout"},
      {"xargs -n", "xargs"},
      {"ssh -o", "?"},
      {"git -C", "git"},
      {"nice -n 5 rm x", "nice rm"},
      {"nice -5 rm x", "nice rm"},
      {"nohup rm x", "nohup rm"},
      {"timeout 5 rm x", "timeout rm"},
      {"timeout -k 1 -s KILL 5 rm x", "timeout rm"},
      {"timeout --signal=KILL 5 rm x", "timeout rm"},
      {"timeout $t rm x", "?"},
      {"stdbuf -oL rm x", "stdbuf rm"},
      {"setsid -w rm x", "setsid rm"},
      {"sudo rm x", "sudo rm"},
      {"sudo -u root A=1 rm x", "sudo rm"},
      {"sudo -i", "?"},
      {"doas rm x", "doas rm"},
      {"su -c 'rm x'", "su sh rm"},
      {"su root", "?"},
      {"xargs rm", "xargs rm"},
      {"ls | xargs -0 -n 1 rm", "ls xargs rm"},
      {"xargs -I{} rm {}", "xargs rm"},
      {"xargs -I{} {} x", "?"},
      {"xargs -rI% sh -c %", "?"},
      {"xargs --replace rm x", "xargs rm"},
      {"xargs --max-lines rm x", "xargs rm"},
      {"xargs -I{} sh -c 'echo {}'", "?"},
      {"xargs sh -c 'rm x'", "xargs sh rm"},
      {"xargs env", "?"},
      {"find . -exec rm {} \\;", "find rm"},
      {"find . -exec rm {} +", "find rm"},
      {"find . -execdir rm {} ';' -exec ls {} ';'", "find rm ls"},
  });
}

TEST(Effects, KnowsShells) {
  expectAll({
      {"find . -exec {} x \\;", "?"},
      {"find . -exec sh -c 'rm {}' \\;", "?"},
      {"find . -name x -delete", "find rm"},
      {"find ./$x", "?"},
      {"find *$x", "?"},
      {"find \"./$x\" -name y", "find"},
      {"find $x -name y", "?"},
      {"find . -name '*.c' -print", "find"},
      {"sh -c 'rm x'", "sh rm"},
      {"bash -lc 'rm x'", "bash rm"},
      {"bash -e -c 'ls; rm x' a b", "bash ls rm"},
      {"bash -c \"$x\"", "?"},
      {"bash -c 'bash -c \"rm x\"'", "bash bash rm"},
      {"bash -ic ls", "?"},
      {"bash script.sh", "bash~"},
      {"bash --rcfile x -c ls", "?"},
      {"bash +x -c 'rm x'", "?"},
      {"sh -c \"\\$'rm' x\"", "?"},
      {"command rm x", "command rm"},
      {"command -p rm x", "command rm"},
      {"command -v rm", "command"},
      {"builtin eval 'rm x'", "builtin eval rm"},
  });
}

TEST(Effects, KnowsWhatRunsText) {
  expectAll({
      {"exec rm x", "exec rm"},
      {"exec -a y rm x", "exec rm"},
      {"exec > f", "exec"},
      {"eval rm x", "eval rm"},
      {"eval 'r''m' x", "eval rm"},
      {"eval $x", "?"},
      {"trap 'rm x' EXIT", "trap rm"},
      {"trap - INT", "trap"},
      {". ./x", "?"},
      {"source venv/bin/activate", "source~"},
      {"script -qc 'rm x' log", "script sh rm"},
      {"watch -n 1 rm x", "watch sh rm"},
      {"flock f rm x", "flock rm"},
      {"flock f -c 'rm x'", "flock sh rm"},
      {"busybox rm x", "busybox rm"},
      {"busybox sh -c 'rm x'", "busybox sh rm"},
      {"/lib64/ld-linux-x86-64.so.2 /bin/rm x", "ld-linux-x86-64.so.2 rm~"},
      {"/lib64/ld-linux-x86-64.so.2 --preload y /bin/rm x", "?"},
      {"time -v rm x", "?"},
      {"/usr/bin/time -v rm x", "time rm"},
      {"ssh host rm x", "ssh sh rm"},
      {"ssh -o ProxyCommand='rm x' host", "?"},
      {"chroot /x rm y", "chroot rm"},
      {"npx rm x", "npx rm~"},
      {"npm exec -- rm x", "npm rm~"},
      {"poetry run rm x", "poetry rm~"},
      {"ionice -c 3 nice -n 19 timeout 1 env A=b rm x", "ionice nice timeout env rm"},
  });
}

TEST(Effects, KnowsOptionsThatRun) {
  expectAll({
      {"tar cf x.tar --checkpoint=1 --checkpoint-action=exec='rm x' y", "?"},
      {"tar cf x.tar --checkpoint-a=exec='rm x' y", "?"},
      {"tar -I 'rm x' -cf y z", "?"},
      {"tar cIf 'rm x' y z", "?"},
      {"tar -czf x.tgz src", "tar"},
      {"tar xzf x.tgz", "tar"},
      {"sort --compress-program=rm x", "?"},
      {"sort --compress-p=rm x", "?"},
      {"sort a$x", "?"},
      {"sort \"a$x\" *.txt b/{c,d}", "sort"},
      {"cmake -B build -DCMAKE_BUILD_TYPE=Release -DP=E", "cmake~"},
      {"cmake -P x", "?"},
      {"cmake -E rm x", "?"},
      {"sort -k2 x", "sort"},
      {"split --filter='rm x' y", "?"},
      {"rg --pre rm x", "?"},
      {"rsync -e 'rm x' a b", "?"},
      {"rsync -av a b", "rsync"},
      {"zip -T -TT 'rm x' a b", "?"},
      {"git status", "git"},
      {"git commit -m 'rm x; ls'", "git"},
      {"git commit -m \"$msg\"", "git"},
      {"git -c core.pager='rm x' log", "git sh rm"},
      {"git -c alias.x='!rm x' x", "?"},
      {"git x", "?"},
      {"git -c user.name=a commit -m x", "git"},
      {"git config alias.x '!rm x'", "git sh rm"},
      {"git config core.hooksPath x", "?"},
      {"git config user.name x", "git"},
      {"git rebase -x 'rm x' HEAD~1", "?"},
      {"git bisect run rm x", "?"},
      {"git rebase -ix 'rm x' HEAD~1", "?"},
      {"git rebase --ex 'rm x' HEAD~1", "?"},
      {"git rebase -m -x 'rm x' HEAD~1", "?"},
      {"git clone -qu 'rm x' y", "?"},
      {"git clone https://example.com/curious", "git"},
      {"git --exec-path=x status", "?"},
      {"git submodule foreach 'rm x'", "?"},
      {"git clone ext::rm%20x y", "?"},
      {"git fetch --upload-pack='rm x' y", "?"},
      {"git difftool -x 'rm x'", "?"},
      {"git grep -Orm x", "?"},
      {"GIT_PAGER='rm x' git log", "sh rm git"},
      {"PAGER=cat git log", "sh cat git"},
  });
}

TEST(Effects, KnowsInterpreters) {
  expectAll({
      {"awk '{print $1}' x", "awk"},
      {"awk 'BEGIN{system(\"rm x\")}'", "?"},
      {"awk '{print | \"rm x\"}'", "?"},
      {"awk '\"rm x\" | getline'", "?"},
      {"awk -f x", "?"},
      {"awk -F'|' '{print $2}' x", "awk"},
      {"sed 's/a/b/g' x", "sed"},
      {"sed -i 's|a|b|' x", "sed"},
      {"sed -n '1,10p' x", "sed"},
      {"sed -e '/x/d' -e '$d' f", "sed"},
      {"sed '1e rm x' f", "?"},
      {"sed 's/a/rm x/e' f", "?"},
      {"sed 's/a/b/;e' f", "?"},
      {"sed 's/a/b/w f' f", "?"},
      {"sed -f x f", "?"},
      {"sed \"s/a/$x/\" f", "?"},
      {"vim -c '!rm x'", "?"},
      {"less +'!rm x' f", "?"},
      {"man -P 'rm x' ls", "?"},
      {"python3 -c 'import os'", "?"},
      {"python3 x.py", "python3~"},
      {"python3 -u -W ignore x.py -c y", "python3~"},
      {"python3 -m pytest -q", "python3~"},
      {"python3 -m timeit 'x'", "?"},
      {"python3", "?"},
      {"echo x | python3 -", "?"},
      {"python3 --version", "python3"},
      {"python3.11 -c x", "?"},
      {"node -e x", "?"},
      {"node --eval=x", "?"},
      {"node app.js", "node~"},
      {"perl -e 'x'", "?"},
      {"perl -pe 's/a/b/' x", "?"},
      {"ruby -e x", "?"},
      {"php -r x", "?"},
      {"make", "make~"},
      {"make test -j4", "make~"},
      {"make SHELL=/bin/rm", "?"},
      {"make --eval='x:;rm x'", "?"},
      {"make -f -", "?"},
      {"npm test", "npm~"},
      {"npm run build -- --x", "npm~"},
      {"npm --script-shell=rm test", "?"},
      {"parallel rm ::: x", "?"},
      {"crontab x", "?"},
      {"nc -e rm x 1", "?"},
      {"gdb x", "?"},
  });
}

TEST(Effects, DoubtsWhatChangesTheMeaning) {
  expectAll({
      {"alias ls=rm; ls", "?"},
      {"PATH=. ls", "?"},
      {"export PATH=.:$PATH; ls", "?"},
      {"LD_PRELOAD=./x.so ls", "?"},
      {"env LD_PRELOAD=x ls", "?"},
      {"BASH_ENV=x bash -c ls", "?"},
      {"IFS=x; ls", "?"},
      {"read PATH", "?"},
      {"printf -v PATH x", "?"},
      {"for PATH in x; do ls; done", "?"},
      {"echo ${PATH:=x}", "?"},
      {"declare -n x=PATH", "?"},
      {"export -f x", "?"},
      {"set -euo pipefail; ls", "set ls"},
      {"set -k; ls", "?"},
      {"set -- a b; ls", "set ls"},
      {"shopt -s extglob", "?"},
      {"shopt -s nullglob; ls", "shopt ls"},
      {"enable -n ls", "?"},
      {"hash -p rm ls", "?"},
      {"mapfile -C 'rm x' a", "?"},
      {"coproc rm x", "?"},
      {"ls !(x)", "?"},
      {"ls\r", "?"},
      {"ls\xc2\xa0x", "?"},
      {"l\xe2\x80\x8bs", "?"},
      {"\xef\xbd\x92\xef\xbd\x8d x", "?"},
      {"r\xd0\xbc x", "?"},
      {"echo caf\xc3\xa9 \xd0\xbf\xd1\x80\xd0\xb8\xd0\xb2\xd0\xb5\xd1\x82", "echo"},
      {"echo \xff", "?"},
      {std::string_view("ls\0x", 4), "?"},
      {"time -- rm x", "?"},
      {"if ls", "?"},
      {"ls )", "?"},
      {"fi", "?"},
      {"ls ;; rm x", "?"},
      {"{fd}>f rm x", "?"},
      {"a[0]=1 rm x", "?"},
      {"./x", "x~"},
      {"/tmp/ls", "ls~"},
      {"/bin/../bin//./rm x", "rm"},
  });
}

TEST(Effects, AreBounded) {
  EXPECT_EQ(runs(std::string(size_t{1} << 20, 'a')), "?");
  std::string many;
  for (int i = 0; i < 10'000; ++i)
    many += "ls;";
  EXPECT_EQ(runs(many), "?");
  for (const std::string_view open :
       {"(", "$(", "`", "${x:-", "\"$(", "{ ", "if ", "<(", "[[ ", "$((", "f() { "}) {
    std::string deep;
    for (int i = 0; i < 5000; ++i)
      deep += open;
    EXPECT_EQ(runs(deep), "?") << open;
  }
  std::string shells = "ls";
  for (int i = 0; i < 40; ++i)
    shells = "env sh -c " + std::string("ls; ") + shells;
  EXPECT_EQ(runs("env " + std::string(20000, 'x')), "env " + std::string(20000, 'x'));
  std::string wrappers;
  for (int i = 0; i < 1000; ++i)
    wrappers += "env ";
  EXPECT_EQ(runs(wrappers + "ls"), "?");
}

TEST(Effects, SayWhere) {
  const Effects effects = effectsOf("ls; $a x", {});
  ASSERT_EQ(effects.findings.size(), 1U);
  EXPECT_EQ(effects.findings[0].span.begin, 4U);
  EXPECT_EQ(effects.findings[0].span.end, 6U);
}

// Commands in a here-document have the place of their own words in the whole text.
TEST(Effects, SayWhereInHereDocuments) {
  const auto at = [](const std::string& text, std::string_view program) {
    const Effects effects = effectsOf(text, {});
    const auto one = std::ranges::find(effects.executions, program, &Execution::program);
    if (one == effects.executions.end()) return std::string("nowhere");
    return text.substr(one->span.begin, one->span.end - one->span.begin);
  };
  EXPECT_EQ(at("cat <<EOF\n$(sudo id)\nEOF", "sudo"), "sudo id");
  EXPECT_EQ(at("cat <<EOF > /tmp/x\nline one\nline two $(sudo id)\nEOF", "sudo"), "sudo id");
  EXPECT_EQ(at("cat <<A <<B\none\nA\ntwo $(sudo id)\nB\nls x", "sudo"), "sudo id");
  EXPECT_EQ(at("cat <<A <<B\none\nA\ntwo $(sudo id)\nB\nls x", "ls"), "ls x");
  EXPECT_EQ(at("cat <<A\nx $(cat <<B\ny $(sudo id)\nB\n)\nA", "sudo"), "sudo id");
  EXPECT_EQ(at("cat <<A\nx `sudo id`\nA", "sudo"), "`sudo id`");
  EXPECT_EQ(at("ls; cat <<-A\n\t\tx $(sudo id)\n\tA", "sudo"), "\t\tx $(sudo id)\n\tA");
  EXPECT_EQ(at("cat <<A\nx $(sudo id)", "sudo"), "x $(sudo id)");
  const std::string text = "cat <<A\nx $($a x)\nA";
  const Effects effects = effectsOf(text, {});
  const auto doubt = std::ranges::find_if(effects.findings, [&](const auto& one) {
    return text.substr(one.span.begin, one.span.end - one.span.begin) == "$a";
  });
  EXPECT_NE(doubt, effects.findings.end());
}

TEST(Effects, KnowWhatNamesLeadToInTheImage) {
  ImageNames image;
  EXPECT_TRUE(effectsOf("keep x", {}, &image).executions[0].real.empty());
  image.set({{"keep", "rm"}, {"keep", "shred"}, {"run", "env"}});
  EXPECT_THAT(effectsOf("/usr/bin/keep x", {}, &image).executions[0].real,
              testing::UnorderedElementsAre("rm", "shred"));
  EXPECT_TRUE(effectsOf("./keep x", {}, &image).executions[0].real.empty()) << "not the image's";
  const Effects wrapped = effectsOf("run A=1 ls", {}, &image);
  ASSERT_EQ(wrapped.executions.size(), 2U) << "what a wrapper by another name runs";
  EXPECT_EQ(wrapped.executions[1].program, "ls");
  image.set({});
  EXPECT_TRUE(effectsOf("keep x", {}, &image).executions[0].real.empty());
}

}  // namespace
}  // namespace cloister::policy
