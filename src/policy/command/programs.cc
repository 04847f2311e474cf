// SPDX-License-Identifier: Apache-2.0
#include "policy/command/programs.h"

#include <algorithm>
#include <array>
#include <string>
#include <unordered_map>

namespace cloister::policy {
namespace {

using enum Program::Kind;

constexpr Program kUnknownProgram;

constexpr auto kPrograms = std::to_array<Program>({
    // Builtins.
    {"command builtin", kCommand, "shell", "-p -v -V"},
    {"exec", kExec, "shell", "-c -l -a:"},
    {"eval", kEval, "shell"},
    {"source .", kSource, "shell"},
    {"trap", kTrap, "shell"},
    {"cd pushd popd chdir", kCd, "shell"},
    {"set", kSet, "shell"},
    {"shopt", kShopt, "shell"},
    {"declare typeset local export readonly", kDeclare, "shell"},
    {"let", kArithmetic, "shell"},
    {"read mapfile readarray getopts", kAssigns, "shell", "", "-C -c"},
    {"unset", kAssigns, "shell"},
    {"wait", kWait, "shell"},
    {"test [", kTestBuiltin, "shell"},
    {"printf", kAssigns, "shell", "", ""},
    {"echo true false : pwd exit return break continue shift kill times umask ulimit type help "
     "caller "
     "dirs disown fg bg suspend logout sleep",
     kPlain, "shell"},
    {"jobs", kPlain, "shell", "", "-x"},
    {"hash", kOpaque, "shell", "-r"},
    {"fc", kOpaque, "shell", "-l"},
    {"alias unalias enable bind complete compgen compopt coproc select function [[ if then else "
     "elif "
     "fi do done while until for case esac in { } ! noglob nocorrect",
     kOpaque, "shell"},
    {"history", kPlain, "shell", "", "-a -c -d -n -p -r -s -w"},
    // What reads; what some of them write is in writes.cc.
    {"ls cat head tail wc cut tr uniq comm join paste fold fmt nl od xxd hexdump strings file stat "
     "du "
     "df tree realpath readlink basename dirname which whereis seq factor expr date cal id whoami "
     "groups hostname uname arch nproc uptime free ps pgrep lsof lscpu lsblk printenv locale tty "
     "cmp "
     "diff md5sum sha1sum sha256sum sha512sum b2sum cksum sum base64 base32 jq column rev tac shuf "
     "tsort zcat zgrep bzcat xzcat expand unexpand look numfmt pr ptx egrep fgrep grep tokei "
     "pathchk "
     "lsmod vmstat iostat getent",
     kPlain, "read_only"},
    {"nm objdump readelf size", kPlain, "read_only", "", "--plugin"},
    {"getconf", kPlain, "read_only", "", "-v"},
    {"cloc", kPlain, "read_only", "",
     "--extract-with --vcs --config --read-lang-def --force-lang-def"},
    // They run the file that they are given.
    {"ldd test2json", kProject, "read_only"},
    {"sort", kPlain, "read_only", "", "--compress-program"},
    {"rg", kPlain, "read_only", "", "--pre --hostname-bin"},
    {"ag ack", kPlain, "read_only", "", "--pager --rc --ackrc"},
    {"bat", kPlain, "read_only", "", "--pager"},
    {"less more most", kPlain, "read_only", "",
     "-k -K -t -T --lesskey-file --lesskey-src --tag-file"},
    {"man", kPlain, "read_only", "",
     "-P -H -C -X -p --pager --html --config-file --gxditview --preprocessor"},
    {"sdiff diff3", kPlain, "read_only", "", "--diff-program"},
    {"yq", kPlain, "read_only", "", "--from-file"},
    // What writes files.
    {"cp mv mkdir rmdir touch ln tee chmod chown chgrp truncate mktemp gzip gunzip bzip2 bunzip2 "
     "xz unxz "
     "zstd unzip iconv dos2unix unix2dos csplit sync mkfifo mknod sponge 7z 7za 7zr",
     kPlain, "write"},
    {"patch", kPlain, "write", "", "-e --ed"},
    {"rm unlink shred", kPlain, "destructive"},
    {"dd mkfs fdisk parted wipefs", kPlain, "destructive"},
    {"install", kPlain, "write", "", "-s --strip-program --strip"},
    {"split", kPlain, "write", "", "--filter"},
    {"zip", kPlain, "write", "", "-T -TT --unzip-command --test"},
    {"tar gtar bsdtar", kPlain, "write", "",
     "-I -F --to-command --use-compress-program --checkpoint-action --info-script "
     "--new-volume-script "
     "--rsh-command --rmt-command"},
    {"cpio", kPlain, "write", "", "-F --rsh-command --file"},
    // The network.
    {"curl", kPlain, "network", "", "-K --config"},
    {"wget", kPlain, "network", "", "--use-askpass --config -e --execute"},
    {"ping dig host nslookup traceroute whois netstat ss ip ifconfig", kPlain, "network", "",
     "-b -batch -force"},
    {"rsync", kPlain, "network", "", "-e --rsh --rsync-path -M --remote-option --daemon --config"},
    {"scp sftp", kPlain, "network", "", "-S -o -F -D -b"},
    {"ssh slogin autossh", kSsh, "network"},
    // What runs the command behind it.
    {"env", kEnv, "wrapper"},
    {"nice", kPrefix, "wrapper", "-n: --adjustment="},
    {"nohup", kPrefix, "wrapper"},
    {"setsid", kPrefix, "wrapper", "-c -f -w --ctty --fork --wait"},
    {"stdbuf", kPrefix, "wrapper", "-i: -o: -e: --input= --output= --error="},
    {"timeout", kPrefix, "wrapper",
     "-k: -s: -v --kill-after= --signal= --foreground --preserve-status --verbose", "", 1},
    {"ionice", kPrefix, "wrapper", "-c: -n: -t --class= --classdata= --ignore"},
    {"chrt", kPrefix, "wrapper", "-b -f -i -o -r -v --batch --fifo --idle --other --rr", "", 1},
    {"taskset", kPrefix, "wrapper", "-a -c --all-tasks --cpu-list", "", 1},
    {"time", kPrefix, "wrapper",
     "-p -v -q -a -o: -f: --output= --format= --append --portability --verbose"},
    {"flock", kPrefix, "wrapper",
     "-e -x -n -s -u -o -F -w: -E: --nonblock --exclusive --shared --wait= --timeout= --close", "",
     1},
    {"xvfb-run", kPrefix, "wrapper", "-a --auto-servernum"},
    {"unbuffer catchsegv", kPrefix, "wrapper", "-p"},
    {"chronic", kPrefix, "wrapper", "-v -e"},
    {"eatmydata dumb-init", kPrefix, "wrapper"},
    {"sudo", kPrefix, "privileged",
     "-u: -g: -E -H -n -k -S -b -P -p: --user= --group= --preserve-env --non-interactive "
     "--set-home"},
    {"doas", kPrefix, "privileged", "-n -u:"},
    {"chroot", kPrefix, "privileged", "--userspec= --groups= --skip-chdir", "", 1},
    {"su runuser", kSu, "privileged"},
    {"busybox toybox", kPrefix, "wrapper"},
    {"xargs", kXargs, "wrapper"},
    {"find gfind", kFind, "read_only"},
    {"fd fdfind", kPlain, "read_only", "", "-x -X --exec --exec-batch"},
    {"watch", kWatch, "wrapper"},
    {"script", kScript, "wrapper"},
    {"bash sh dash zsh ksh mksh ash rbash fish", kShell, "wrapper"},
    {"sed gsed", kSed, "write"},
    {"awk gawk mawk nawk original-awk", kAwk, "read_only"},
    {"git", kGit, "vcs"},
    {"hg", kPlain, "vcs", "", "--config --tool --debugger --ssh -e --remotecmd"},
    {"svn", kPlain, "vcs", "",
     "--diff-cmd --diff3-cmd --editor-cmd --merge-cmd --config-option --config-dir"},
    // Code of the project.
    {"make gmake remake", kMake, "build"},
    {"ninja cmake cpack meson scons bazel buck gradle gradlew mvn mvnw ant sbt "
     "autoreconf "
     "configure msbuild dotnet",
     kProject, "build", "", "-P -E --eval --run_under --init-script"},
    {"ctest", kProject, "build", "", "-S --test-command"},
    {"rake", kProject, "build", "",
     "-e -E -p -I -r --execute --execute-print --execute-continue --require"},
    {"cargo rustc", kProject, "build", "", "--config -Clinker --codegen"},
    {"go", kProject, "build", "",
     "-exec -toolexec -vettool -overlay --exec --toolexec --vettool --overlay"},
    {"gcc g++ cc c++ clang clang++ ld", kPlain, "build", "",
     "-wrapper -fplugin -specs -B -load -fuse-ld --wrapper --specs --prefix --plugin --ld-path"},
    {"javac", kPlain, "build", "", "-J"},
    {"rustfmt gofmt clang-format", kPlain, "build"},
    {"ar ranlib strip", kPlain, "build", "", "--plugin"},
    {"pytest py.test tox nox pre-commit mypy pyright ruff black isort flake8 pylint bandit "
     "coverage sphinx-build "
     "mkdocs alembic django-admin gunicorn uvicorn flask celery jupyter cython f2py",
     kProject, "build"},
    {"jest vitest mocha ava tsc eslint prettier webpack vite rollup esbuild next ng "
     "vue-cli-service turbo nx lerna "
     "playwright cypress swc babel stylelint biome",
     kProject, "build"},
    {"tsx ts-node nodemon", kProject, "build", "", "-e -p -x --eval --print --exec"},
    {"pip pip3 pipx gem bundle composer phpunit rspec rubocop conan vcpkg stack cabal mix rebar3",
     kProject, "package"},
    {"npm npx yarn pnpm pnpx bunx corepack", kNode, "package"},
    {"poetry pipenv uv rye hatch pdm conda mamba micromamba", kRunner, "package"},
    // Interpreters.
    {"python pypy", kInterpreter, "interpreter",
     "-u -B -O -OO -s -S -E -I -v -q -d -b -bb -x -i -W: -X: -V -VV --version -h --help", "-c"},
    {"node nodejs", kInterpreter, "interpreter",
     "-v --version -h --help -c --check --test --watch --inspect --inspect-brk --trace-warnings "
     "--no-warnings "
     "--enable-source-maps --test-reporter --max-old-space-size --experimental-vm-modules "
     "--env-file "
     "--experimental-strip-types --expose-gc",
     "-e -p -pe --eval --print -i --interactive"},
    {"perl", kInterpreter, "interpreter", "-v -V --version -c -w -W -T -t",
     "-e -E -n -p -i -M -m -x -d -I -s"},
    {"ruby", kInterpreter, "interpreter", "-v --version -c -w -W", "-e -n -p -i -r -I -x -s -C"},
    {"php", kInterpreter, "interpreter", "-v --version -l -i -m", "-r -B -R -F -E -S -a -d -c"},
    {"lua luajit", kInterpreter, "interpreter", "-v", "-e -l -i"},
    {"Rscript", kInterpreter, "interpreter", "--version --vanilla --no-save", "-e"},
    {"java", kProject, "interpreter", "",
     "-agentlib -agentpath -javaagent -XX:OnError -XX:OnOutOfMemoryError"},
    {"deno bun", kOpaque, "interpreter", "--version --help"},
    {"R ghci irb", kOpaque, "interpreter"},
    {"julia elixir erl iex octave groovy scala kotlin clojure clj guile racket sbcl ocaml crystal "
     "nim "
     "raku jshell gnuplot",
     kInterpreter, "interpreter", "-v -V --version -h --help",
     "-e -E -c -i -l -p --eval --exec --print"},
    // What runs commands in a language of its own, or out of sight.
    {"rename prename file-rename hyperfine sshpass firejail gosu su-exec nix-shell proxychains "
     "proxychains4 torsocks numactl cgexec pee ifne vipe dotenv direnv",
     kOpaque, "opaque"},
    {"vi vim nvim view vimdiff rvim emacs emacsclient ed ex nano pico joe mc tclsh wish expect m4 "
     "dc gdb lldb "
     "strace ltrace valgrind perf screen tmux parallel rush at batch crontab systemd-run "
     "start-stop-daemon unshare nsenter "
     "nc ncat netcat socat telnet ftp psql mysql sqlite3 csh tcsh pwsh powershell osascript entr "
     "inotifywait "
     "logrotate run-parts dbus-run-session setpriv capsh bwrap proot fakeroot faketime pkexec "
     "tcpdump openssl gpg rlwrap sg newgrp login cpulimit prlimit setarch linux32 linux64 i386 "
     "x86_64 "
     "daemonize ssh-agent ssh-keygen xdg-open w3m lynx links install-info "
     "update-alternatives",
     kOpaque, "opaque"},
});

using Index = std::unordered_map<std::string_view, const Program*>;

const Index& index() {
  static const Index kIndex = [] {
    Index all;
    for (const Program& program : kPrograms) {
      anyWord(program.names, [&](std::string_view name) {
        all.emplace(name, &program);
        return false;
      });
    }
    return all;
  }();
  return kIndex;
}

}  // namespace

const Program& programNamed(std::string_view name) {
  const Index& all = index();
  if (const auto found = all.find(name); found != all.end()) return *found->second;
  const size_t end = name.find_last_not_of("0123456789.-");
  if (end == std::string_view::npos) return kUnknownProgram;
  const std::string_view stem = name.substr(0, end + 1);
  if (stem.starts_with("mkfs")) return *all.at("mkfs");
  if (const auto found = all.find(stem); found != all.end()) return *found->second;
  const size_t dot = name.find('.');
  if (dot != std::string_view::npos && name.substr(0, dot) == "mkfs") return *all.at("mkfs");
  return kUnknownProgram;
}

std::vector<std::string> programsOf(std::string_view group) {
  std::vector<std::string> names;
  for (const Program& program : kPrograms) {
    if (program.group != group) continue;
    anyWord(program.names, [&](std::string_view name) {
      names.emplace_back(name);
      return false;
    });
  }
  return names;
}

Option findOption(std::string_view list, std::string_view option) {
  Option result = Option::kAbsent;
  anyWord(list, [&](std::string_view entry) {
    const bool value = entry.ends_with(':') || entry.ends_with('=');
    if (value) entry.remove_suffix(1);
    if (entry != option) return false;
    result = value ? Option::kValue : Option::kFlag;
    return true;
  });
  return result;
}

bool mayBeOption(std::string_view list, std::string_view word) {
  if (word.size() < 2 || word[0] != '-') return false;
  const bool lengthy = word.starts_with("--");
  const std::string_view given = word.substr(0, word.find('='));
  return anyWord(list, [&](std::string_view option) {
    if (lengthy) return option.starts_with("--") && given.size() > 2 && option.starts_with(given);
    if (option.starts_with("--")) return false;
    if (option.size() == 2) return word.contains(option[1]);
    return word.starts_with(option);
  });
}

}  // namespace cloister::policy
