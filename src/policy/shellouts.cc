// SPDX-License-Identifier: Apache-2.0
#include "policy/shellouts.h"

#include <algorithm>
#include <array>
#include <optional>

namespace cloister::policy {
namespace {

constexpr size_t kMostBytes = size_t{256} << 10;
constexpr size_t kMostCalls = 64;
constexpr size_t kMostWords = 256;  // of a call

enum class Form : uint8_t {
  kText,   // the first text is for a shell
  kWords,  // all texts are words of a single program
  kBoth,   // a single text is for a shell, a list or several are words
  kNamed,  // the first text is the program's path, the others are its words
  kChain,  // as kWords; more words follow in .arg("…") and .args([…])
};

// A call that runs a program. `module`: a name required elsewhere in the code, for names with other
// meanings in other modules.
struct Caller {
  std::string_view languages;  // with blanks around each
  std::string_view name;       // the last part, as system in os.system
  std::string_view module;
  Form form;
};

constexpr std::string_view kPython = " python ";
constexpr std::string_view kJavaScript = " node typescript ";
constexpr std::string_view kC = " c cpp ";
constexpr std::array kCallers = {
    Caller{kPython, "system", "os", Form::kText},
    Caller{kPython, "popen", "os", Form::kText},
    Caller{kPython, "getoutput", "subprocess", Form::kText},
    Caller{kPython, "getstatusoutput", "subprocess", Form::kText},
    Caller{kPython, "run", "subprocess", Form::kBoth},
    Caller{kPython, "call", "subprocess", Form::kBoth},
    Caller{kPython, "check_call", "subprocess", Form::kBoth},
    Caller{kPython, "check_output", "subprocess", Form::kBoth},
    Caller{kPython, "Popen", "subprocess", Form::kBoth},
    Caller{kPython, "create_subprocess_shell", "asyncio", Form::kText},
    Caller{kPython, "create_subprocess_exec", "asyncio", Form::kWords},
    Caller{kPython, "spawn", "pty", Form::kBoth},
    Caller{kPython, "execl", "os", Form::kNamed},
    Caller{kPython, "execlp", "os", Form::kNamed},
    Caller{kPython, "execle", "os", Form::kNamed},
    Caller{kPython, "execv", "os", Form::kNamed},
    Caller{kPython, "execvp", "os", Form::kNamed},
    Caller{kPython, "execve", "os", Form::kNamed},
    Caller{kJavaScript, "exec", "child_process", Form::kText},
    Caller{kJavaScript, "execSync", "child_process", Form::kText},
    Caller{kJavaScript, "execFile", "child_process", Form::kWords},
    Caller{kJavaScript, "execFileSync", "child_process", Form::kWords},
    Caller{kJavaScript, "spawn", "child_process", Form::kBoth},
    Caller{kJavaScript, "spawnSync", "child_process", Form::kBoth},
    Caller{kC, "system", "", Form::kText},
    Caller{kC, "popen", "", Form::kText},
    Caller{kC, "execl", "", Form::kNamed},
    Caller{kC, "execlp", "", Form::kNamed},
    Caller{kC, "execle", "", Form::kNamed},
    Caller{" go ", "Command", "os/exec", Form::kWords},
    Caller{" rust ", "new", "Command", Form::kChain},
    Caller{" java ", "exec", "getRuntime", Form::kBoth},
    Caller{" java ", "ProcessBuilder", "", Form::kWords},
    Caller{" r ", "system", "", Form::kText},
    Caller{" r ", "system2", "", Form::kWords},
};

struct Lexis {
  bool hash = false;          // # begins a comment; otherwise // and /* do
  bool single_quotes = true;  // '…' is text
  bool backquotes = false;    // `…` is text
};

Lexis lexisOf(std::string_view language) {
  if (language == "python" || language == "r") return {.hash = true};
  if (language == "node" || language == "typescript") return {.backquotes = true};
  return {.single_quotes = false, .backquotes = language == "go"};
}

bool isNamePart(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_';
}

struct Token {
  enum class Kind : uint8_t { kEnd, kName, kText, kOther } kind = Kind::kEnd;
  std::string text;  // of a name, or a text's value; a single character for kOther
};

// Names, texts and signs of the code, without comments.
class Tokens {
 public:
  Tokens(std::string_view code, Lexis lexis) : code_(code), lexis_(lexis) {}

  Token next() {
    skip();
    if (at_ >= code_.size()) return {};
    const char c = code_[at_];
    if (isNamePart(c)) return name();
    const bool text =
        c == '"' || (c == '\'' && lexis_.single_quotes) || (c == '`' && lexis_.backquotes);
    if (text) return quoted();
    if (c == '\'') skipCharacter();
    ++at_;
    return {Token::Kind::kOther, std::string(1, c)};
  }

 private:
  [[nodiscard]] bool here(std::string_view what) const {
    return code_.substr(at_).starts_with(what);
  }
  void skipPast(std::string_view what) {
    const size_t found = code_.find(what, at_);
    at_ = found == std::string_view::npos ? code_.size() : found + what.size();
  }
  void skip() {
    for (;;) {
      while (at_ < code_.size() && static_cast<uint8_t>(code_[at_]) <= ' ')
        ++at_;
      if (lexis_.hash ? here("#") : here("//")) {
        skipPast("\n");
      } else if (!lexis_.hash && here("/*")) {
        skipPast("*/");
      } else {
        return;
      }
    }
  }
  // 'x' or '\n' in a language where '…' is no text; not a lifetime of Rust, as 'a.
  void skipCharacter() {
    const std::string_view rest = code_.substr(at_);
    if (rest.starts_with("'\\")) {
      at_ = std::min(code_.find('\'', at_ + 3), code_.size() - 1);
    } else if (rest.size() > 2 && rest[2] == '\'') {
      at_ += 2;
    }
  }
  Token name() {
    const size_t from = at_;
    while (at_ < code_.size() && isNamePart(code_[at_]))
      ++at_;
    return {Token::Kind::kName, std::string(code_.substr(from, at_ - from))};
  }
  Token quoted() {
    const char quote = code_[at_];
    const std::string three(3, quote);
    const std::string end = here(three) ? three : std::string(1, quote);
    at_ += end.size();
    Token token{Token::Kind::kText, ""};
    while (at_ < code_.size() && !here(end)) {
      if (code_[at_] != '\\' || at_ + 1 >= code_.size()) {
        token.text += code_[at_++];
        continue;
      }
      const char escaped = code_[at_ + 1];
      token.text += escaped == 'n' ? '\n' : escaped == 't' ? '\t' : escaped;
      at_ += 2;
    }
    at_ = std::min(at_ + end.size(), code_.size());
    return token;
  }

  std::string_view code_;
  Lexis lexis_;
  size_t at_ = 0;
};

bool isCallable(const Caller& caller, std::string_view language, std::string_view name,
                std::string_view code) {
  return caller.name == name &&
         caller.languages.find(" " + std::string(language) + " ") != std::string_view::npos &&
         code.contains(caller.module);
}

class Reader {
 public:
  Reader(std::string_view language, std::string_view code)
      : language_(language), code_(code), tokens_(code, lexisOf(language)) {}

  std::vector<ShellOut> read() {
    while (token_.kind != Token::Kind::kEnd && found_.size() < kMostCalls) {
      if (token_.kind == Token::Kind::kName) {
        readName();
      } else {
        token_ = tokens_.next();
      }
    }
    return std::move(found_);
  }

 private:
  void readName() {
    const std::string name = token_.text;
    token_ = tokens_.next();
    if (token_.text != "(" || token_.kind != Token::Kind::kOther) return;
    const auto* caller = std::ranges::find_if(
        kCallers, [&](const Caller& each) { return isCallable(each, language_, name, code_); });
    if (caller == kCallers.end()) return;
    Arguments arguments = readArguments();
    if (caller->form == Form::kChain) readChain(arguments);
    add(caller->form, std::move(arguments));
  }

  struct Arguments {
    std::vector<std::string> texts;
    bool listed = false;  // a text is in a list, or behind a comma
    bool first = true;    // the first argument is a text, or a list that begins with a text
  };

  // Reads from behind the opening bracket up to the closing bracket. Joined texts, as in "rm " +
  // name, count as a single text.
  Arguments readArguments() {
    Arguments arguments;
    int depth = 1;
    bool joins = false;
    bool any = false;
    token_ = tokens_.next();
    while (token_.kind != Token::Kind::kEnd && depth > 0) {
      const std::string& sign = token_.text;
      if (token_.kind == Token::Kind::kText) {
        if (joins && !arguments.texts.empty()) {
          arguments.texts.back() += token_.text;
        } else if (arguments.texts.size() < kMostWords) {
          arguments.texts.push_back(token_.text);
        }
        joins = any = true;
      } else if (token_.kind == Token::Kind::kName) {
        arguments.first = arguments.first && (any || isPrefix(sign));
      } else if (sign == "(" || sign == "[" || sign == "{") {
        ++depth;
        arguments.listed = arguments.listed || sign != "(";
      } else if (sign == ")" || sign == "]" || sign == "}") {
        --depth;
      } else if (sign == ",") {
        joins = false;
      }
      token_ = tokens_.next();
    }
    return arguments;
  }

  // Prefixes of a text (f"…", u8"…"), or of a list of texts (new String[] {…}, c(…),
  // shlex.split("…")).
  static bool isPrefix(std::string_view name) {
    constexpr std::array<std::string_view, 16> kPrefixes = {
        "f",  "r",   "b",      "u",   "rb", "br",   "fr",    "L",
        "u8", "new", "String", "vec", "c",  "List", "shlex", "split"};
    return std::ranges::find(kPrefixes, name) != kPrefixes.end();
  }

  void readChain(Arguments& arguments) {
    while (token_.text == ".") {
      token_ = tokens_.next();
      const bool more = token_.text == "arg" || token_.text == "args";
      token_ = tokens_.next();
      if (token_.text != "(") return;
      Arguments others = readArguments();
      if (!more) continue;
      arguments.texts.insert(arguments.texts.end(), others.texts.begin(), others.texts.end());
    }
  }

  void add(Form form, Arguments arguments) {
    std::vector<std::string>& texts = arguments.texts;
    if (texts.empty() || !arguments.first) return;
    if (form == Form::kNamed && texts.size() > 1) texts.erase(texts.begin());
    const bool one = form == Form::kText || (form == Form::kBoth && !arguments.listed);
    if (one) {
      found_.emplace_back(std::move(texts.front()));
    } else {
      found_.emplace_back(std::move(texts));
    }
  }

  std::string_view language_;
  std::string_view code_;
  Tokens tokens_;
  Token token_{Token::Kind::kOther, ""};
  std::vector<ShellOut> found_;
};

// Lines of a cell such as "!ls", which IPython passes to a shell.
void addEscapes(std::string_view code, std::vector<ShellOut>& found) {
  while (!code.empty() && found.size() < kMostCalls) {
    const std::string_view line = code.substr(0, code.find('\n'));
    code.remove_prefix(std::min(code.size(), line.size() + 1));
    const size_t first = line.find_first_not_of(" \t");
    if (first == std::string_view::npos || line[first] != '!') continue;
    found.emplace_back(std::string(line.substr(first + 1)));
  }
}

}  // namespace

std::vector<ShellOut> shellOutsOf(std::string_view language, std::string_view code) {
  code = code.substr(0, kMostBytes);
  const bool some = std::ranges::any_of(kCallers, [&](const Caller& each) {
    return isCallable(each, language, each.name, code) && code.contains(each.name);
  });
  std::vector<ShellOut> found;
  if (some) found = Reader(language, code).read();
  if (language == kPython.substr(1, kPython.size() - 2)) addEscapes(code, found);
  return found;
}

}  // namespace cloister::policy
