// SPDX-License-Identifier: Apache-2.0
// Whether a script of sed or a program of awk runs anything. What is not understood does.
// Source: the manuals of GNU sed 4.9, gawk 5.2 and mawk 1.3.4.
#include "policy/command/reader.h"

namespace cloister::policy {
namespace {

// A cursor over a sed script; every step says whether it went well.
class Sed {
 public:
  explicit Sed(std::string_view script) : script_(script) {}

  bool plain() {
    while (true) {
      skip(" \t\n;");
      if (done()) return true;
      if (!addresses() || !command()) return false;
    }
  }

 private:
  [[nodiscard]] bool done() const { return at_ >= script_.size(); }
  [[nodiscard]] char now() const { return done() ? '\0' : script_[at_]; }
  void skip(std::string_view what) {
    while (!done() && what.contains(now()))
      ++at_;
  }
  bool line() {  // the rest of it is text
    while (!done() && now() != '\n')
      at_ += now() == '\\' ? 2 : 1;
    return true;
  }

  // Up to an unescaped delimiter, and past it.
  bool upTo(char delimiter) {
    bool set = false;  // in [ ] a delimiter may stand for itself
    while (!done()) {
      const char c = now();
      ++at_;
      if (c == '\\') {
        if (done()) return false;
        ++at_;
      } else if (c == delimiter) {
        return !set;  // shells of sed disagree about one in brackets
      } else if (c == '[' && !set) {
        set = script_.find(']', at_ + 1) != std::string_view::npos;
        if (set && now() == '^') ++at_;
        if (set && now() == ']') ++at_;
      } else if (c == ']') {
        set = false;
      } else if (c == '\n') {
        return false;
      }
    }
    return false;
  }

  bool address() {
    if (now() == '/') {
      ++at_;
      if (!upTo('/')) return false;
      skip("IM");
    } else if (now() == '\\') {
      return false;
    } else if (now() == '$') {
      ++at_;
    } else {
      skip("0123456789~+");
    }
    return true;
  }

  bool addresses() {
    if (!address()) return false;
    skip(" \t");
    if (now() == ',') {
      ++at_;
      skip(" \t");
      if (!address()) return false;
    }
    skip(" \t!");
    return true;
  }

  bool end() {
    skip(" \t");
    return done() || std::string_view("\n;}#").contains(now());
  }

  bool command() {
    const char c = now();
    ++at_;
    if (std::string_view("=dDgGhHnNpPxzlF{}").contains(c)) return c == '{' || end();
    if (c == '#') return line();
    if (std::string_view("aic").contains(c)) return line();
    if (std::string_view("btT:").contains(c)) {
      skip(" \t");
      while (!done() && !std::string_view("\n; \t").contains(now()))
        ++at_;
      return true;
    }
    if (c == 'q' || c == 'Q') {
      skip(" 0123456789");
      return end();
    }
    if (c != 's' && c != 'y') return false;
    const char delimiter = now();
    if (delimiter == '\0' || delimiter == '\\' || delimiter == '\n') return false;
    ++at_;
    if (!upTo(delimiter) || !replacement(delimiter)) return false;
    if (c == 's') skip("gpiIM0123456789");
    return end();
  }

  bool replacement(char delimiter) {
    while (!done()) {
      const char c = now();
      at_ += c == '\\' ? 2 : 1;
      if (c == delimiter) return true;
    }
    return false;
  }

  const std::string_view script_;
  size_t at_ = 0;
};

}  // namespace

bool plainSed(std::string_view script) {
  return !script.contains('\r') && Sed(script).plain();
}

// Commands are run by system(), by a pipe, and by what is indirect or loaded (@). A | stands also
// in || and in regular expressions; the latter are taken for pipes unless in a string.
bool plainAwk(std::string_view program) {
  for (const std::string_view word : {"system", "getline", "popen", "close(", "@", "extension"}) {
    if (program.contains(word)) return false;
  }
  char quote = '\0';
  for (size_t at = 0; at < program.size(); ++at) {
    const char c = program[at];
    if (c == '\\') {
      ++at;
    } else if (c == '"' && quote == '\0') {
      quote = c;
    } else if (c == '"' || c == '\n') {
      quote = '\0';
    } else if (c == '|') {
      // In a string a | is text; but where strings begin is not certain with a / or # about.
      const bool certain = quote != '\0' && program.find_first_of("/#") == std::string_view::npos;
      const bool either = at + 1 < program.size() && program[at + 1] == '|';
      if (!certain && !either) return false;
      if (either) ++at;
    }
  }
  // Files that it writes are not followed.
  return program.find("print >") == std::string_view::npos &&
         program.find("/dev/tcp") == std::string_view::npos &&
         program.find("/inet/") == std::string_view::npos;
}

}  // namespace cloister::policy
