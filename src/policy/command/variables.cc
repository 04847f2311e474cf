// SPDX-License-Identifier: Apache-2.0
// What is known of environment variables and of the shell's own.
// Source: the manual pages of Debian 12, sections ENVIRONMENT; bash 5.2 for those that it
// evaluates.
#include <algorithm>
#include <array>

#include "policy/command/programs.h"

namespace cloister::policy {
namespace {

struct Variables {
  Variable what;
  std::string_view names;  // a final * matches any rest of a name
};

// The first row with the name counts.
constexpr auto kVariables = std::to_array<Variables>({
    // An option or a file of options determines the executed program.
    {Variable::kFlags, "RUSTFLAGS RUSTDOCFLAGS CFLAGS CXXFLAGS CPPFLAGS LDFLAGS FFLAGS GOFLAGS"},
    // The shell.
    {Variable::kChanges,
     "PATH BASH_* ENV SHELLOPTS BASHOPTS IFS PS0 PS1 PS2 PS4 PROMPT_COMMAND SHELL CDPATH "
     "GLOBIGNORE "
     "EXECIGNORE FPATH ZDOTDIR INPUTRC POSIXLY_CORRECT _POSIX2_VERSION"},
    {Variable::kNumber, "RANDOM SRANDOM OPTIND HISTCMD"},
    // The loader and the C library.
    {Variable::kChanges, "LD_* DYLD_* GCONV_PATH NLSPATH LOCPATH GETCONF_DIR"},
    {Variable::kFile, "MALLOC_TRACE GCOV_PREFIX LLVM_PROFILE_FILE KRB5_TRACE SSLKEYLOGFILE"},
    {Variable::kFlags, "ASAN_OPTIONS UBSAN_OPTIONS TSAN_OPTIONS MSAN_OPTIONS LSAN_OPTIONS"},
    // Interpreters.
    {Variable::kChanges,
     "PERL5OPT PERL5LIB PERLLIB PERL5DB RUBYOPT RUBYLIB NODE_OPTIONS NODE_PATH PYTHONSTARTUP "
     "PYTHONHOME PYTHONINSPECT PYTHONBREAKPOINT PYTHONWARNINGS PYTHONUSERBASE JAVA_TOOL_OPTIONS "
     "_JAVA_OPTIONS JDK_JAVA_OPTIONS LUA_INIT* LUA_PATH* LUA_CPATH* R_PROFILE* R_ENVIRON* R_LIBS* "
     "PHPRC PHP_INI_SCAN_DIR GUILE_LOAD_PATH JULIA_LOAD_PATH DOTNET_STARTUP_HOOKS CORECLR_* COR_* "
     "ERL_FLAGS ERL_AFLAGS ERL_ZFLAGS ELIXIR_ERL_OPTIONS TCLLIBPATH AWKPATH AWKLIBPATH GAWK_*"},
    {Variable::kCode,
     "PYTHONPATH PYTHONPYCACHEPREFIX CLASSPATH GEM_PATH GEM_HOME BUNDLE_GEMFILE GOPATH "
     "PYTEST_ADDOPTS PYTEST_PLUGINS COVERAGE_PROCESS_START DJANGO_SETTINGS_MODULE FLASK_APP"},
    {Variable::kFile,
     "NODE_V8_COVERAGE NODE_COMPILE_CACHE NODE_REDIRECT_WARNINGS NODE_REPL_HISTORY PYTHON_HISTORY "
     "COVERAGE_FILE PIP_LOG"},
    // Building.
    {Variable::kChanges,
     "MAVEN_OPTS GRADLE_OPTS RUSTC_* RUSTC CARGO_* RUSTDOC* MAKEFLAGS GNUMAKEFLAGS MFLAGS "
     "MAKEFILES "
     "COMPILER_PATH GCC_EXEC_PREFIX npm_config_* NPM_CONFIG_* CMAKE_C_COMPILER_LAUNCHER "
     "CMAKE_CXX_COMPILER_LAUNCHER CMAKE_C_LINKER_LAUNCHER CMAKE_CXX_LINKER_LAUNCHER "
     "CMAKE_TOOLCHAIN_FILE CCACHE_PREFIX* CCACHE_CONFIGPATH"},
    {Variable::kCommand, "CC CXX LD AR CPP FC RANLIB STRIP OBJCOPY PKG_CONFIG YACC"},
    // Git and its kin.
    {Variable::kTrace, "GIT_TRACE*"},
    {Variable::kChanges,
     "GIT_CONFIG* GIT_EXEC_PATH GIT_TEMPLATE_DIR GIT_PROXY_COMMAND GIT_ASKPASS GIT_DIR "
     "GIT_COMMON_DIR GIT_ATTR_SOURCE GIT_ALLOW_PROTOCOL GIT_PROTOCOL_FROM_USER GIT_TEST_* "
     "GIT_OBJECT_DIRECTORY GIT_ALTERNATE_OBJECT_DIRECTORIES GIT_WORK_TREE SSH_ASKPASS* HGRCPATH"},
    {Variable::kFile, "GIT_INDEX_FILE GIT_REDIRECT_*"},
    {Variable::kCommand,
     "GIT_PAGER GIT_EDITOR GIT_SEQUENCE_EDITOR GIT_SSH GIT_SSH_COMMAND GIT_EXTERNAL_DIFF HGEDITOR "
     "HGMERGE SVN_EDITOR SVN_SSH CVS_RSH CVSEDITOR"},
    // Programs that start a pager, an editor or a shell.
    {Variable::kCommand,
     "EDITOR VISUAL PAGER MANPAGER BROWSER FCEDIT SYSTEMD_PAGER SYSTEMD_EDITOR BAT_PAGER "
     "DELTA_PAGER "
     "GH_PAGER GH_EDITOR ACK_PAGER* PSQL_PAGER PSQL_EDITOR KUBE_EDITOR FZF_DEFAULT_COMMAND"},
    {Variable::kChanges,
     "LESS LESSOPEN LESSCLOSE LESSKEY* MANPATH MANOPT MANROFFOPT MANLESS FZF_DEFAULT_OPTS* "
     "RIPGREP_CONFIG_PATH BAT_CONFIG_* BAT_OPTS ACKRC ACK_OPTIONS VIMINIT EXINIT MYVIMRC TERMINFO* "
     "TERMCAP"},
    {Variable::kFile, "HISTFILE LESSHISTFILE MYSQL_HISTFILE SQLITE_HISTORY PSQL_HISTORY"},
    // Archives and the network.
    {Variable::kChanges,
     "TAR_OPTIONS TAPE RSH ZIPOPT ZIP RSYNC_* SUDO_* OPENSSL_* GREP_OPTIONS WGETRC CURL_HOME "
     "PSQLRC "
     "SASL_PATH KRB5_CONFIG"},
    // Directories of a program's settings and plugins.
    {Variable::kChanges,
     "HOME XDG_CONFIG_HOME XDG_CONFIG_DIRS XDG_DATA_DIRS GTK_MODULES QT_PLUGIN_PATH "
     "GIO_EXTRA_MODULES GST_PLUGIN_* GI_TYPELIB_PATH EMACSLOADPATH"},
    // Directories for new files of programs.
    {Variable::kFile, "TMPDIR TMP TEMP TEMPDIR XDG_CACHE_HOME XDG_DATA_HOME XDG_STATE_HOME"},
});

}  // namespace

Variable variableNamed(std::string_view name) {
  for (const Variables& row : kVariables) {
    const bool found = anyWord(row.names, [&](std::string_view entry) {
      if (entry.ends_with('*')) return name.starts_with(entry.substr(0, entry.size() - 1));
      return name == entry;
    });
    if (found) return row.what;
  }
  return Variable::kPlain;
}

}  // namespace cloister::policy
