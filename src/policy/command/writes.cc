// SPDX-License-Identifier: Apache-2.0
// Source: the manual pages of Debian 12, and what tests/integration/test_command_oracle.py saw.
#include "policy/command/writes.h"

#include <algorithm>
#include <array>
#include <span>

#include "policy/command/programs.h"

namespace cloister::policy {
namespace {

// Which operands are files that the program makes, changes or removes.
enum class Operands : uint8_t {
  kNone,
  kAll,
  kFirst,
  kSecond,     // and all behind it; `-` is the output
  kNamed,      // as kSecond, but `-` is a name
  kLast,       // the others are read; without -t
  kButFirst,   // which is a mode, an owner or a script
  kOf,         // of=
  kMachine,    // any operand sets something of the machine, but for +FORMAT
  kBeforeOne,  // the first, if there is a second: a command or a descriptor stands there too
  kSeeks,      // input that may be a pipe is copied to a file in /tmp
};

struct Writing {
  std::string_view programs = {};
  Operands operands = Operands::kNone;
  // "-o: --output=": the value names what is written; "-C": the words do not name it.
  std::string_view options = {};
  // Options whose value is a word of its own: "-k --key=". One that is missing here makes an
  // operand of the value, which is on the safe side.
  std::string_view values = {};
  std::string_view when = {};       // operands are written with one of these options only
  std::string_view unless = {};     // nothing is written with one of these
  std::string_view otherwise = {};  // written if the words name nothing; "?": some file
  bool stops = false;               // options end at the first operand, and so do its own words
  bool whole = false;               // options with one - are words and not letters
  bool first = false;               // options end at the first operand, and others follow
};

using enum Operands;

constexpr auto kWritings = std::to_array<Writing>({
    // Programs that are known to read.
    {"sort", kNone, "-o: --output= -T: --temporary-directory=", "-k -t -S"},
    {"shuf", kNone, "-o: --output=", "-i -n"},
    {"uniq", kSecond, "", "-f -s -w"},
    {"xxd", kSecond, "", "-c -g -l -n -o -s -R", "", "", "", false, true, true},
    {"ptx", kNamed, "", "", "-G --traditional"},
    {"tac", kSeeks, "", "-s --separator=", "", "--help --version"},
    {"tree", kNone, "-o: -R", "-L -P -I -H -T"},
    {"file", kNone, "-C --compile", "-e -F -f -m -P"},
    {"lsof", kNone, "-D", "-c -d -p -u -g"},
    {"less more most", kNone, "-o: -O: --log-file= --LOG-FILE=", "-b -h -j -P -p -x -y -z"},
    {"bat", kNone, "--generate-config-file"},
    {"cloc", kNone,
     "--out= --report-file= --counted= --ignored= --found= --categorized= --write-lang-def= "
     "--write-lang-def-incl-dup= --sql= --strip-comments --strip-code --save-extract"},
    {"sdiff", kNone, "-o: --output=", "-I -w"},
    {"yq", kAll, "-s --split-exp", "", "-i --inplace --in-place"},
    {"man", kNone, "-u --update", "-C -R -L -m -M -S -s -e -r -p -T -E"},
    {"hostname", kMachine, "-F -b --file --boot"},
    {"date", kMachine, "-s --set", "-d -f -r --date= --file= --reference="},
    // Wrappers, whose own files come on top of what they run.
    {"script", kAll, "-O: -B: -I: -T: -t --log-out= --log-io= --log-in= --log-timing= --timing",
     "-c -E -o -m --command= --echo= --output-limit= --logging-format=", "", "", "typescript"},
    {"time", kNone, "-o: --output=", "-f --format=", "", "", "", true},
    {"flock", kBeforeOne, "", "-w -E --wait= --timeout= --conflict-exit-code=", "", "", "", true},
    {"nohup", kNone, "", "", "", "--help --version", "nohup.out", true},
    // Programs that write.
    {"iconv", kNone, "-o: --output=", "-f -t"},
    {"split", kNamed, "", "-a -b -C -l -n -t", "", "", "xaa"},
    {"csplit", kNone, "-f: --prefix=", "-b -n", "", "", "xx00"},
    {"cp ln", kLast, "-t: --target-directory=", "-S --suffix="},
    {"install", kLast, "-t: --target-directory= -d --directory",
     "-S -g -m -o --suffix= --group= --mode= --owner="},
    {"mv rm rmdir unlink shred", kAll, "-t: --target-directory="},
    {"tee touch truncate mkfifo mknod sponge dos2unix unix2dos", kAll},
    {"chmod chown chgrp", kButFirst},
    {"patch", kAll, "-o: -r: -d: --output= --reject-file= --directory=",
     "-i -p -F -D -g -Y -z -V -B --input= --strip= --fuzz=", "", "--dry-run", "?"},
    {"mktemp", kAll, "-p: --tmpdir=", "--suffix="},
    {"sed gsed", kButFirst, "", "-e -f -l --expression= --file= --line-length=", "-i --in-place"},
    {"dd", kOf},
    {"gzip gunzip bzip2 bunzip2 xz unxz zstd unzstd lzma unlzma", kAll, "-o:", "-S -T -M -D", "",
     "-c -t -l --stdout --to-stdout --test --list"},
    {"zip", kFirst, "-O: -m -lf --out= --logfile-path= --move", "-b -n -t -P"},
    {"unzip", kNone, "-d:", "-x -P", "", "-l -p -t -Z -v -c", "?"},
    {"7z 7za 7zr", kNone, "-o", "", "", "", "?"},
    // The network.
    {"rsync", kSecond,
     "-T: --log-file= --write-batch= --only-write-batch= --backup-dir= --partial-dir= --temp-dir=",
     "-e -f -B --exclude= --include= --exclude-from= --include-from= --filter= --files-from= "
     "--bwlimit= --timeout= --port= --chmod= --chown= --rsh= --max-size= --min-size= --suffix= "
     "--password-file= --info= --debug= --out-format= --compare-dest= --copy-dest= --link-dest="},
    {"scp", kSecond, "", "-c -F -i -J -l -o -P -S -X -D"},
    {"curl", kNone,
     "-o: -D: -c: -O --output= --output-dir= --dump-header= --cookie-jar= --trace= --trace-ascii= "
     "--stderr= --etag-save= --hsts= --alt-svc= --libcurl= --remote-name --remote-name-all",
     "-A -b -d -e -E -F -H -K -m -P -Q -r -t -T -u -U -w -x -X -y -Y -z"},
    {"wget", kNone,
     "-O: -o: -a: -P: --output-document= --output-file= --append-output= --directory-prefix= "
     "--save-cookies= --warc-file= --hsts-file= --rejected-log=",
     "", "", "--spider --version --help", "?"},
    {"ss", kNone, "-D: --diag="},
    // Building.
    {"gcc g++ cc c++ clang clang++ ld", kNone, "-o: --output=", "", "", "", "", false, true},
    {"javac", kNone, "-d: -s: -h:", "", "", "", "", false, true},
    {"gofmt", kAll, "", "", "-w", "", "", false, true},
    {"clang-format", kAll, "", "", "-i", "", "", false, true},
    {"rustfmt", kAll, "", "", "", "--check"},
    {"strip ranlib", kAll, "-o:"},
    {"ar", kSecond},
});

const Writing* writingNamed(std::string_view program) {
  for (const Writing& row : kWritings) {
    if (anyWord(row.programs, [&](std::string_view name) { return name == program; })) return &row;
  }
  return nullptr;
}

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
        if (row_.stops) break;
        open_ = open_ && !row_.first;
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
    const size_t letters = row_.whole ? 2 : word.text.size();
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
      const bool output = first > 0 && row_.operands != kNamed;
      if (!(operands_[i].known && operands_[i].text == "-" && output)) out_.push_back(operands_[i]);
    }
  }

  void operands() {
    const size_t count = operands_.size();
    switch (row_.operands) {
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
  bool named_ = false;   // an option says where it goes
  bool script_ = false;  // given by an option: the first operand is a file
  std::vector<Value> operands_;
  std::vector<Value> out_;
};

// What cargo does to the manifest.
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

// By its mode: an archive is written, or what is in it.
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
  const Writing* row = writingNamed(program);
  return row == nullptr ? std::vector<Value>{} : FileWords(execution, *row).run();
}

}  // namespace cloister::policy
