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
    {"cd pushd popd", kCd, "shell"},
    {"set", kSet, "shell"},
    {"shopt", kShopt, "shell"},
    {"declare typeset local export readonly", kDeclare, "shell"},
    {"let", kArithmetic, "shell"},
    {"read mapfile readarray getopts", kAssigns, "shell", "", "-C -c"},
    {"unset", kAssigns, "shell"},
    {"test [", kTestBuiltin, "shell"},
    {"printf", kAssigns, "shell", "", ""},
    {"echo true false : pwd exit return break continue shift wait jobs kill times umask ulimit "
     "type "
     "dirs disown fg bg suspend logout sleep",
     kPlain, "shell"},
    {"alias unalias hash enable bind complete compgen compopt fc coproc select function [[ "
     "if then else elif fi do done while until for case esac in { } ! caller noglob nocorrect",
     kOpaque, "shell"},
    {"history", kPlain, "shell", "", "-a -c -d -n -p -r -s -w"},
    // What reads.
    {"ls cat head tail wc cut tr uniq comm join paste fold fmt nl od xxd hexdump strings file stat "
     "du "
     "df tree realpath readlink basename dirname which whereis seq factor expr date cal id whoami "
     "groups "
     "hostname uname arch nproc uptime free ps pgrep lsof lscpu lsblk printenv locale tty cmp diff "
     "md5sum sha1sum sha256sum sha512sum b2sum cksum sum base64 base32 jq column rev tac shuf "
     "tsort "
     "zcat zgrep bzcat xzcat expand unexpand look numfmt pr ptx getconf egrep fgrep grep cloc "
     "tokei "
     "ldd nm objdump readelf size pathchk test2json lsmod vmstat iostat getent mount-list dot-list",
     kPlain, "read_only"},
    {"sort", kPlain, "read_only", "", "--compress-program"},
    {"rg", kPlain, "read_only", "", "--pre --hostname-bin"},
    {"ag ack", kPlain, "read_only", "", "--pager --rc"},
    {"bat", kPlain, "read_only", "", "--pager"},
    {"less more most", kPlain, "read_only", "", "-k -K -t -T --lesskey-file --tag-file"},
    {"man", kPlain, "read_only", "", "-P -H -C --pager --html --config-file --preprocessor -p"},
    {"sdiff diff3", kPlain, "read_only", "", "--diff-program"},
    {"yq", kPlain, "read_only", "", "--from-file"},
    // What writes files.
    {"cp mv mkdir rmdir touch ln tee chmod chown chgrp truncate mktemp gzip gunzip bzip2 bunzip2 "
     "xz unxz "
     "zstd unzip patch iconv dos2unix unix2dos csplit sync mkfifo rename",
     kPlain, "write"},
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
     "-b -batch"},
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
    {"unbuffer catchsegv firejail-none", kPrefix, "wrapper", "-p"},
    {"sudo", kPrefix, "privileged",
     "-u: -g: -E -H -n -k -S -b -P -p: --user= --group= --preserve-env --non-interactive "
     "--set-home --login-none"},
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
    // Code of the project.
    {"make gmake remake", kMake, "build"},
    {"ninja cmake ctest cpack meson scons bazel buck gradle gradlew mvn mvnw ant sbt rake "
     "autoreconf "
     "configure msbuild dotnet",
     kProject, "build", "", "-P -E --eval"},
    {"cargo rustc", kProject, "build", "", "--config -Clinker --codegen"},
    {"go", kProject, "build", "", "-exec -toolexec -vettool -overlay"},
    {"gcc g++ cc c++ clang clang++ ld", kPlain, "build", "",
     "-wrapper -fplugin -specs -B -load -fuse-ld"},
    {"javac rustfmt gofmt clang-format ar ranlib strip", kPlain, "build"},
    {"pytest py.test tox nox pre-commit mypy pyright ruff black isort flake8 pylint bandit "
     "coverage sphinx-build "
     "mkdocs alembic django-admin gunicorn uvicorn flask celery jupyter ipython-none cython f2py",
     kProject, "build"},
    {"jest vitest mocha ava tsc eslint prettier webpack vite rollup esbuild next ng "
     "vue-cli-service turbo nx lerna "
     "playwright cypress tsx ts-node nodemon swc babel stylelint biome",
     kProject, "build"},
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
    // What runs commands in a language of its own, or out of sight.
    {"vi vim nvim view vimdiff rvim emacs emacsclient ed ex nano pico joe mc tclsh wish expect m4 "
     "dc gdb lldb "
     "strace ltrace valgrind perf screen tmux parallel rush at batch crontab systemd-run "
     "start-stop-daemon unshare nsenter "
     "nc ncat netcat socat telnet ftp psql mysql sqlite3 csh tcsh pwsh powershell osascript entr "
     "inotifywait "
     "logrotate run-parts dbus-run-session setpriv capsh bwrap proot fakeroot faketime pkexec "
     "unzip-none "
     "tcpdump openssl gpg rlwrap sg newgrp login cpulimit prlimit setarch linux32 linux64 i386 "
     "x86_64 "
     "daemonize ssh-agent ssh-keygen ip-netns xdg-open w3m lynx links gawk-debug install-info "
     "update-alternatives",
     kOpaque, "opaque"},
});

struct Names {
  std::string_view names;
  Variable what;
};

// A name that ends in * stands for all that begin so.
constexpr auto kVariables = std::to_array<Names>({
    {"PATH LD_* BASH_* ENV SHELLOPTS BASHOPTS IFS PS0 PS1 PS2 PS4 PROMPT_COMMAND SHELL CDPATH "
     "GLOBIGNORE EXECIGNORE "
     "PERL5OPT PERL5LIB PERLLIB PERL5DB RUBYOPT RUBYLIB NODE_OPTIONS NODE_PATH PYTHONSTARTUP "
     "PYTHONHOME PYTHONINSPECT "
     "PYTHONBREAKPOINT PYTHONWARNINGS PYTHONUSERBASE JAVA_TOOL_OPTIONS _JAVA_OPTIONS "
     "JDK_JAVA_OPTIONS MAVEN_OPTS "
     "GRADLE_OPTS RUSTC_* RUSTC CARGO_* RUSTDOC* GOFLAGS TAR_OPTIONS MAKEFLAGS GNUMAKEFLAGS MFLAGS "
     "MAKEFILES "
     "RSYNC_* GIT_CONFIG* GIT_EXEC_PATH GIT_TEMPLATE_DIR GIT_PROXY_COMMAND GIT_ASKPASS GIT_DIR "
     "GIT_COMMON_DIR "
     "GIT_ATTR_SOURCE SSH_ASKPASS SUDO_* npm_config_* NPM_CONFIG_* LESS LESSOPEN LESSCLOSE "
     "LESSKEY* GCONV_PATH "
     "NLSPATH MANPATH OPENSSL_* GREP_OPTIONS HOME XDG_CONFIG_HOME XDG_CONFIG_DIRS AWKPATH "
     "AWKLIBPATH GAWK_* "
     "COMPILER_PATH GCC_EXEC_PREFIX TMOUT_NONE DYLD_* FPATH ZDOTDIR VIMINIT EXINIT MYVIMRC INPUTRC "
     "TERMINFO* TERMCAP "
     "GTK_MODULES QT_PLUGIN_PATH POSIXLY_CORRECT _POSIX2_VERSION XARGS_NONE",
     Variable::kChanges},
    {"EDITOR VISUAL PAGER GIT_PAGER GIT_EDITOR GIT_SEQUENCE_EDITOR GIT_SSH GIT_SSH_COMMAND "
     "GIT_EXTERNAL_DIFF MANPAGER "
     "BROWSER FCEDIT SYSTEMD_PAGER SYSTEMD_EDITOR BAT_PAGER DELTA_PAGER GH_PAGER CC CXX LD AR CPP",
     Variable::kCommand},
    {"PYTHONPATH PYTHONPYCACHEPREFIX CLASSPATH GOPATH GEM_PATH GEM_HOME BUNDLE_GEMFILE",
     Variable::kCode},
});

// f(name) for each of a list parted by spaces; true from it ends the walk.
template <class Fn>
bool anyOf(std::string_view list, Fn&& f) {
  while (!list.empty()) {
    const size_t end = std::min(list.find(' '), list.size());
    if (end > 0 && f(list.substr(0, end))) return true;
    list.remove_prefix(std::min(end + 1, list.size()));
  }
  return false;
}

using Index = std::unordered_map<std::string_view, const Program*>;

const Index& index() {
  static const Index kIndex = [] {
    Index all;
    for (const Program& program : kPrograms) {
      anyOf(program.names, [&](std::string_view name) {
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
    anyOf(program.names, [&](std::string_view name) {
      names.emplace_back(name);
      return false;
    });
  }
  return names;
}

Variable variableNamed(std::string_view name) {
  for (const Names& row : kVariables) {
    const bool found = anyOf(row.names, [&](std::string_view entry) {
      if (entry.ends_with('*')) return name.starts_with(entry.substr(0, entry.size() - 1));
      return name == entry;
    });
    if (found) return row.what;
  }
  return Variable::kPlain;
}

Option findOption(std::string_view list, std::string_view option) {
  Option result = Option::kAbsent;
  anyOf(list, [&](std::string_view entry) {
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
  return anyOf(list, [&](std::string_view option) {
    if (lengthy) return option.starts_with("--") && given.size() > 2 && option.starts_with(given);
    if (option.starts_with("--")) return false;
    if (option.size() == 2) return word.contains(option[1]);
    return word.starts_with(option);
  });
}

}  // namespace cloister::policy
