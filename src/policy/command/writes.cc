// SPDX-License-Identifier: Apache-2.0
#include "policy/command/writes.h"

#include <algorithm>
#include <span>

#include "policy/command/tables.h"

namespace cloister::policy {
namespace {

using enum Writing::Files;

Value someFile(Span span) {
  return {.text = "", .known = false, .span = span};
}

bool mayBePipe(const Value& file) {
  return (!file.known && !file.glob) || file.text == "-" || file.text.starts_with("/dev/") ||
         file.text.starts_with("/proc/");
}

// Goes through the words as getopt_long does.
class FileWords {
 public:
  FileWords(const Execution& execution, const Writing& row)
      : argv_(execution.argv), row_(row), active_(row.when.empty()) {}

  std::vector<Value> run() {
    for (at_ = 1; at_ < argv_.size(); ++at_) {
      const Value& word = argv_[at_];
      const bool option = open_ && word.text.size() > 1 && word.text[0] == '-';
      if (option && word.known && word.text == "--") {
        open_ = false;
      } else if (option) {
        word.text[1] == '-' ? longOption(word) : shortOptions(word);
      } else {
        if (open_ && mayHideOptions(word)) hidden(word);
        operands_.push_back(word);
        if (row_.command) break;
        open_ = open_ && !row_.first_operand;
      }
    }
    if (harmless_) return {};
    if (active_) operands();
    if (out_.empty() && !row_.otherwise.empty()) {
      const Value& first = argv_[0];
      row_.otherwise == "?"
          ? out_.push_back(someFile(first.span))
          : out_.push_back({.text = std::string(row_.otherwise), .span = first.span});
    }
    return std::move(out_);
  }

 private:
  void hidden(const Value& word) {
    if (!row_.options.empty() || !row_.when.empty()) out_.push_back(someFile(word.span));
  }

  // The value of an option: the rest of its word, or the next.
  void value(const Value& word, size_t from, bool written) {
    const bool here = from < word.text.size() || !word.known;
    if (!here && at_ + 1 >= argv_.size()) return;
    Value value = here ? word : argv_[++at_];
    if (here) value.text.erase(0, std::min(from, value.text.size()));
    if (!written || (value.known && value.text == "-")) return;
    named_ = true;
    out_.push_back(std::move(value));
  }

  void longOption(const Value& word) {
    const size_t equals = word.text.find('=');
    const std::string_view name = std::string_view(word.text).substr(0, equals);
    harmless_ = harmless_ || findOption(row_.unless, name) != Option::kAbsent;
    active_ = active_ || mayBeOption(row_.when, name);
    script_ = script_ || name.starts_with("--e") || name.starts_with("--f");
    if (name.starts_with("--ref")) script_ = true;      // chmod --reference=: no mode comes first
    const auto isValue = [&](std::string_view entry) {  // as written or shortened
      return entry.starts_with("--") && entry.ends_with('=') && entry.starts_with(name);
    };
    const bool file = anyWord(row_.options, isValue);
    const bool flag = !file && mayBeOption(row_.options, name);
    if (flag) out_.push_back(someFile(word.span));
    if (!file && !anyWord(row_.values, isValue)) return;
    value(word, equals == std::string::npos ? word.text.size() : equals + 1, file);
  }

  void shortOptions(const Value& word) {
    const size_t letters = row_.whole_words ? 2 : word.text.size();
    for (size_t i = 1; i < letters; ++i) {
      const std::string option = std::string("-") + word.text[i];
      harmless_ = harmless_ || findOption(row_.unless, option) == Option::kFlag;
      if (findOption(row_.when, option) == Option::kFlag) {  // its value, if any, is the rest
        active_ = true;
        return;
      }
      const Option file = findOption(row_.options, option);
      if (file == Option::kFlag) out_.push_back(someFile(word.span));
      if (file == Option::kValue) return value(word, i + 1, true);
      if (findOption(row_.values, option) == Option::kFlag) {
        script_ = script_ || option == "-e" || option == "-f";
        return value(word, i + 1, false);
      }
    }
    if (!word.known) hidden(word);
  }

  void from(size_t first) {
    for (size_t i = first; i < operands_.size(); ++i) {
      const bool output = first > 0 && row_.files != kNamed;
      if (!(operands_[i].known && operands_[i].text == "-" && output)) out_.push_back(operands_[i]);
    }
  }

  void operands() {
    const size_t count = operands_.size();
    switch (row_.files) {
      case kNone:
        return;
      case kAll:
        return from(0);
      case kFirst:
        operands_.resize(std::min<size_t>(count, 1));
        return from(0);
      case kSecond:
      case kNamed:
        if (count > 0 && operands_[0].many) out_.push_back(someFile(operands_[0].span));
        return from(1);
      case kLast:
        return named_ ? void() : from(std::max<size_t>(count, 1) - 1);
      case kButFirst:
        return from(script_ ? 0 : 1);
      case kOf:
        for (Value& word : operands_) {
          if (!word.text.starts_with("of=")) continue;
          word.text.erase(0, 3);
          out_.push_back(std::move(word));
        }
        return;
      case kMachine:
        for (const Value& word : operands_) {
          if (!word.text.starts_with('+')) out_.push_back({.text = "/proc/sys", .span = word.span});
        }
        return;
      case kBeforeOne:
        if (count > 0 && at_ + 1 < argv_.size()) from(0);
        return;
      case kSeeks:
        if (operands_.empty() || std::ranges::any_of(operands_, mayBePipe))
          out_.push_back({.text = "/tmp/" + argv_[0].text, .span = argv_[0].span});
        return;
    }
  }

  const std::vector<Value>& argv_;
  const Writing& row_;
  size_t at_ = 1;
  bool open_ = true;  // options may come
  bool active_;
  bool harmless_ = false;
  bool named_ = false;   // an option names the output
  bool script_ = false;  // given by an option: the first operand is a file
  std::vector<Value> operands_;
  std::vector<Value> out_;
};

// Changes of the manifest by cargo.
std::vector<Value> cargoWrites(const std::vector<Value>& argv) {
  constexpr std::string_view kChange = " add remove rm init new ";
  Value manifest{.text = "Cargo.toml", .span = argv[0].span};
  bool changes = false;
  for (size_t at = 1; at < argv.size(); ++at) {
    const std::string& text = argv[at].text;
    if (text.starts_with("--manifest-path=")) {
      manifest = argv[at];
      manifest.text.erase(0, 16);
    } else if (text == "--manifest-path" && at + 1 < argv.size()) {
      manifest = argv[at + 1];
    } else if (argv[at].known && !text.empty() && kChange.contains(" " + text + " ")) {
      changes = true;
      const bool made = (text == "init" || text == "new") && at + 1 < argv.size();
      if (made && !argv.back().text.starts_with('-')) {
        manifest = argv.back();
        manifest.text += "/Cargo.toml";
      }
      break;
    }
  }
  return changes ? std::vector{std::move(manifest)} : std::vector<Value>{};
}

// Depends on the mode: tar writes the archive or its members.
std::vector<Value> tarWrites(const std::vector<Value>& argv) {
  std::vector<Value> out;
  std::string letters;
  const Value* archive = nullptr;
  const Value* directory = nullptr;
  for (size_t at = 1; at < argv.size(); ++at) {
    const std::string& text = argv[at].text;
    const bool letter = text.starts_with('-') ? !text.starts_with("--") : at == 1;
    const Value* next = at + 1 < argv.size() ? &argv[at + 1] : nullptr;
    if (letter) {
      letters += text;
      if (text.contains('f')) archive = next;
      if (text.contains('C')) directory = next;
    }
    for (const auto& [name, c] :
         {std::pair("--create", 'c'), std::pair("--append", 'r'), std::pair("--update", 'u'),
          std::pair("--concatenate", 'A'), std::pair("--extract", 'x'), std::pair("--get", 'x')}) {
      if (text.size() > 4 && std::string_view(name).starts_with(text)) letters += c;
    }
    if (text.starts_with("--file")) archive = text.contains('=') ? &argv[at] : next;
    if (text.starts_with("--directory")) directory = text.contains('=') ? &argv[at] : next;
    if (mayBeOption("--remove-files --listed-incremental --index-file --delete", text) ||
        mayHideOptions(argv[at]) || (letter && text.contains('g')))
      out.push_back(someFile(argv[at].span));
  }
  const auto add = [&](const Value* named) {
    Value file = named != nullptr ? *named : someFile(argv[0].span);
    if (file.text.starts_with("--")) file.text.erase(0, file.text.find('=') + 1);
    if (!(file.known && file.text == "-")) out.push_back(std::move(file));
  };
  if (letters.find_first_of("cruA") != std::string::npos) add(archive);
  if (letters.contains('x')) add(directory);
  return out;
}

}  // namespace

std::vector<Value> writesOf(const Execution& execution) {
  if (execution.argv.empty()) return {};
  const std::string_view program = execution.program;
  if (program == "cargo") return cargoWrites(execution.argv);
  if (program == "tar" || program == "gtar" || program == "bsdtar")
    return tarWrites(execution.argv);
  const Writing* row = kWritings.find(program);
  return row == nullptr ? std::vector<Value>{} : FileWords(execution, *row).run();
}

}  // namespace cloister::policy
