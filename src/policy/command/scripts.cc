// SPDX-License-Identifier: Apache-2.0
// Finds sed scripts and awk programs that may run commands. Unrecognized text counts as running.
// Source: the manuals of GNU sed 4.9, gawk 5.2 and mawk 1.3.4.
#include "policy/command/reader.h"

namespace cloister::policy {
namespace {

// A cursor over a sed script; each step returns whether it succeeded.
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
  bool line() {  // the rest of the line is text
    while (!done() && now() != '\n')
      at_ += now() == '\\' ? 2 : 1;
    return true;
  }

  // Moves past the next unescaped delimiter.
  bool upTo(char delimiter) {
    bool set = false;  // in [ ] a delimiter may stand for itself
    while (!done()) {
      const char c = now();
      ++at_;
      if (c == '\\') {
        if (done()) return false;
        ++at_;
      } else if (c == delimiter) {
        return !set;  // versions of sed disagree about a delimiter in brackets
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
  return program.find("/dev/tcp") == std::string_view::npos &&
         program.find("/inet/") == std::string_view::npos;
}

namespace {

// A cursor over an awk program, for the redirections of print. The beginnings of strings are
// uncertain after a / or # outside of a string: then each > behind a print may be a redirection.
class Awk {
 public:
  explicit Awk(std::string_view program) : program_(program) {}

  std::vector<std::string> files() {
    while (at_ < program_.size() && files_.size() < kMost)
      step();
    return std::move(files_);
  }

 private:
  static constexpr size_t kMost = 64;
  static bool nameChar(char c) {
    return c == '_' || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9');
  }

  void step() {
    const char c = program_[at_];
    if (nameChar(c)) return name();
    if (c == '"') {
      string();
      return;
    }
    ++at_;
    if (c == '\\') {
      ++at_;
    } else if (c == '/' || c == '#') {
      certain_ = false;
    } else if (c == '(' || c == '[') {
      ++depth_;
    } else if (c == ')' || c == ']') {
      --depth_;
    } else if (c == ';' || c == '{' || c == '}') {
      printing_ = false;
      depth_ = 0;
    } else if (c == '>') {
      if ((printing_ && depth_ <= 0) || (printed_ && !certain_)) target();
    }
  }

  void name() {
    const size_t begin = at_;
    while (at_ < program_.size() && nameChar(program_[at_]))
      ++at_;
    const std::string_view word = program_.substr(begin, at_ - begin);
    if (word != "print" && word != "printf") return;
    printing_ = printed_ = true;
    depth_ = 0;
  }

  std::string string() {
    std::string text;
    for (++at_; at_ < program_.size() && program_[at_] != '"' && program_[at_] != '\n'; ++at_) {
      if (program_[at_] == '\\') return {};  // read the rest as if outside a string
      text += program_[at_];
    }
    ++at_;
    return text;
  }

  void skip() {
    while (at_ < program_.size() && (program_[at_] == ' ' || program_[at_] == '\t'))
      ++at_;
  }

  // Behind the first >.
  void target() {
    if (at_ < program_.size() && program_[at_] == '>') ++at_;
    skip();
    const bool plain = at_ < program_.size() && program_[at_] == '"';
    std::string file = plain ? string() : std::string();
    skip();
    const bool ends = at_ >= program_.size() || std::string_view(";}\n").contains(program_[at_]);
    if (!ends) file.clear();
    if (file != "/dev/stderr" && file != "/dev/stdout" && file != "-")
      files_.push_back(std::move(file));
    if (!certain_) files_.emplace_back();
  }

  const std::string_view program_;
  size_t at_ = 0;
  int depth_ = 0;
  bool printing_ = false;  // in a statement of print
  bool printed_ = false;
  bool certain_ = true;
  std::vector<std::string> files_;
};

}  // namespace

std::vector<std::string> awkFiles(std::string_view program) {
  return program.contains('>') ? Awk(program).files() : std::vector<std::string>{};
}

}  // namespace cloister::policy
