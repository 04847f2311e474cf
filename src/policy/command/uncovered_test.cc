// SPDX-License-Identifier: Apache-2.0
#include "policy/command/uncovered.h"

#include <gtest/gtest.h>

namespace cloister::policy {
namespace {

TEST(Uncovered, PlacesThatProgramsOfTheSessionWrite) {
  for (const char* path : {"/tmp",
                           "/tmp/",
                           "//tmp//x",
                           "/./tmp/x",
                           "/dev/shm/x",
                           "/dev",
                           "/dev/fd/3",
                           "/dev/tcp/a/1",
                           "/var/tmp/x",
                           "/var",
                           "/var/run/x",
                           "/var/lock",
                           "/proc/self/cwd",
                           "/run/x",
                           "/sys",
                           "/",
                           "/usr",
                           "/usr/tmp/x",
                           "/usr/bin/../../tmp",
                           "/workspace/../tmp"})
    EXPECT_TRUE(isUncovered(path)) << path;
  for (const char* path : {"/workspace", "/workspace/tmp/x", "/usr/bin", "/usr/local/tmp", "/tmpx",
                           "/var/lib/x", "/dev/null", "/bin", "/opt/tmp"})
    EXPECT_FALSE(isUncovered(path)) << path;
}

std::string nameIn(const std::string& variable) {
  const auto found = uncoveredVariable({"A=tmp", "HOME=/workspace", "TMPDIR=/tmp", variable});
  return found ? found->name : "";
}

TEST(Uncovered, VariablesThatNameSuchAPlace) {
  for (const char* variable :
       {"PATH=/tmp/bin:/usr/bin:/bin", "PATH=/usr/bin:/dev/shm", "PATH=bin:../tmp",
        "PATH=/workspace/bin:/", "BASH_ENV=/tmp/e", "ENV=/var/tmp/e", "PYTHONPATH=/tmp/p",
        "PYTHONPATH=lib:/proc/self/cwd", "NODE_OPTIONS=--require=/tmp/x.js",
        "NODE_OPTIONS=--require /tmp/x.js", "PERL5OPT=-I/tmp/p", "RUBYOPT=-r/tmp/x",
        "LD_PRELOAD=/tmp/x.so", "GIT_SSH_COMMAND=sh /tmp/x", "CFLAGS=-B/tmp/x", "HOME=/tmp",
        "GOPATH=/tmp/.cloister-go", "GIT_CONFIG_GLOBAL=/tmp/c", "MAKEFILES=/run/m",
        "LESSOPEN=|/tmp/x %s", "RUSTFLAGS=-Clinker=/tmp/x", "CC=@/tmp/x", "BASH_FUNC_a%%=/tmp/x",
        // Values computed by the program that reads the variable.
        "BASH_ENV=$A/e", "BASH_ENV=`x`", "PATH=~-/bin", "PROMPT_COMMAND=. /t''mp/e",
        "GIT_PAGER=sh /t?p/x", "GIT_PAGER=sh /t\\mp/x", "GIT_PAGER=sh /{t,}mp/x"})
    EXPECT_EQ(nameIn(variable), std::string(variable).substr(0, std::string(variable).find('=')))
        << variable;
}

// No list has every variable by which a program loads code.
TEST(Uncovered, VariablesOfAnyName) {
  for (const char* variable : {"CPATH=/tmp/x",
                               "C_INCLUDE_PATH=/tmp/x",
                               "LIBRARY_PATH=/usr/lib:/tmp/x",
                               "GOROOT=/tmp/x",
                               "UV_PYTHON=/tmp/x",
                               "VIRTUAL_ENV=/tmp/x",
                               "DENO_DIR=/tmp/x",
                               "PKG_CONFIG_PATH=/tmp/x",
                               "CMAKE_PREFIX_PATH=/tmp/x",
                               "R_HOME=/tmp/x",
                               "XDG_DATA_HOME=/tmp/x",
                               "SSL_CERT_FILE=/dev/shm/x",
                               "GLIBC_TUNABLES=/var/tmp/x",
                               "MYTOOL_PLUGIN=/tmp/x",
                               "MYTOOL_PLUGIN=file:///tmp/x",
                               "MYTOOL_FLAGS=-I/proc/self/cwd",
                               "MYTOOL_PLUGIN=../x",
                               "MYTOOL_PLUGIN=..",
                               "TMPDIRS=/tmp",
                               "NODE_COMPILE_CACHE=/tmp/x"})
    EXPECT_EQ(nameIn(variable), std::string(variable).substr(0, std::string(variable).find('=')))
        << variable;
  for (const char* variable : {"TMPDIR=/tmp/x", "TMP=/tmp", "TEMP=/var/tmp", "TEMPDIR=/tmp",
                               "XDG_CACHE_HOME=/tmp/c", "XDG_STATE_HOME=/tmp/s"})
    EXPECT_EQ(nameIn(variable), "") << variable;
}

// Variables that the table knows are judged in full, and others as text.
TEST(Uncovered, DirectoriesAboveAreForKnownVariables) {
  EXPECT_EQ(nameIn("CPATH=/usr"), "CPATH");
  EXPECT_EQ(nameIn("CPATH=$A/x"), "CPATH");
  EXPECT_EQ(nameIn("MYTOOL_PREFIX=/usr"), "");
  EXPECT_EQ(nameIn("MESSAGE=it costs $5 / month ..."), "");
  EXPECT_EQ(nameIn("MESSAGE=from 1 .. 3"), "");
  EXPECT_EQ(nameIn("URL=https://example.org/tmp/x"), "");
}

TEST(Uncovered, OthersAreNoMatter) {
  for (const char* variable :
       {"PATH=/workspace/bin:/usr/local/bin:/usr/bin:/bin:bin:.", "PYTHONPATH=lib", "CFLAGS=-O2",
        "PYTHONPATH=", "HOME=/workspace", "GIT_CONFIG_GLOBAL=/dev/null",
        "NODE_OPTIONS=--no-warnings", "MAKEFLAGS=-j4", "TMPDIR=/tmp", "XDG_CACHE_HOME=/tmp/c",
        "MESSAGE=tmp/x", "PERL5OPT=-Mlib=tmp/x", "CC=gcc -DX='a'"})
    EXPECT_EQ(nameIn(variable), "") << variable;
  EXPECT_FALSE(uncoveredVariable({}));
  EXPECT_FALSE(uncoveredVariable({"PATH"}));
}

TEST(Uncovered, SaysWhat) {
  EXPECT_EQ(uncoveredVariable({"PATH=/usr/bin:/tmp/bin"})->why,
            "names /tmp/bin, which an approval does not cover");
}

}  // namespace
}  // namespace cloister::policy
