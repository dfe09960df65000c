// Gives every text of the corpus to its reader, and mutants of it, with any compiler:
//
//   fuzz_replay CORPUS [MUTANTS [SEED]]   that many mutants of each text (0)
//   fuzz_replay CORPUS --export FOLDER    the texts as files, and their words, for libFuzzer
//
// A text of the corpus follows a line `=== READER`. A mutant that ends the process is printed as
// one, so that it can be added to the corpus.
#include <fmt/format.h>

#include <algorithm>
#include <csignal>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <random>
#include <set>

#include "readers.hpp"

namespace rehearse {
namespace {

struct Sample {
  std::size_t reader = 0;
  std::string text;
};

std::size_t reader_named(const std::string& name) {
  const auto found = std::ranges::find(readers(), name, &Reader::name);
  if (found == readers().end()) {
    fmt::print(stderr, "no reader \"{}\"\n", name);
    std::exit(2);
  }
  return static_cast<std::size_t>(found - readers().begin());
}

std::vector<Sample> read_corpus(const std::filesystem::path& file) {
  constexpr std::string_view kMark = "=== ";
  std::vector<Sample> samples;
  std::ifstream stream(file, std::ios::binary);
  for (std::string line; std::getline(stream, line);) {
    if (line.starts_with(kMark)) {
      samples.push_back({reader_named(line.substr(kMark.size())), ""});
    } else if (!samples.empty()) {
      samples.back().text += line + "\n";
    }
  }
  return samples;
}

/// Changes a text as an editor, a disk or an enemy does.
class Mutator {
 public:
  Mutator(const std::vector<Sample>& samples, std::uint64_t seed)
      : samples_(samples), random_(seed) {}

  std::string mutant(const std::string& text) {
    std::string changed = text;
    for (std::size_t times = 1 + below(4); times > 0; --times) change(changed);
    return changed;
  }

 private:
  std::size_t below(std::size_t end) { return end == 0 ? 0 : random_() % end; }

  void change(std::string& text) {
    static const std::vector<std::string> kOdd = {"-1",
                                                  "0",
                                                  "1e308",
                                                  "9223372036854775808",
                                                  "nan",
                                                  "\"",
                                                  "{",
                                                  "}",
                                                  "[",
                                                  "]",
                                                  ": ",
                                                  "\n",
                                                  "\t",
                                                  "\xff",
                                                  "\x80",
                                                  "#",
                                                  "''",
                                                  "null",
                                                  "1e-320",
                                                  ",",
                                                  "true",
                                                  "--",
                                                  "-",
                                                  "!x",
                                                  "&a",
                                                  "*a",
                                                  "\r",
                                                  "\\",
                                                  "18446744073709551616"};
    const std::size_t at = below(text.size() + 1);
    const std::size_t length = std::min(text.size() - at, below(20));
    switch (below(6)) {
      case 0:
        text.erase(at, length);
        break;
      case 1:
        text.insert(at, kOdd[below(kOdd.size())]);
        break;
      case 2:
        if (at < text.size()) text[at] = static_cast<char>(random_());
        break;
      case 3:
        text.insert(below(text.size() + 1), text.substr(at, length));
        break;
      case 4:
        text.replace(at, length, kOdd[below(kOdd.size())]);
        break;
      default:
        splice(text, at);
    }
  }

  /// A line of another sample in the place of one of this.
  void splice(std::string& text, std::size_t at) {
    const std::string& other = samples_[below(samples_.size())].text;
    const std::size_t begin = other.rfind('\n', below(other.size())) + 1;
    const std::size_t end = std::min(text.find('\n', at), text.size());
    text.replace(at, end - at, other.substr(begin, other.find('\n', begin) - begin));
  }

  const std::vector<Sample>& samples_;
  std::mt19937_64 random_;
};

std::string last_reader, last_mutant;

/// What the process was reading, where a signal ends it.
void say_if_it_ends(const Reader& reader, const std::string& mutant) {
  last_reader = reader.name;
  last_mutant = mutant;
  static const auto installed = [] {
    for (const int signal : {SIGABRT, SIGSEGV}) {
      std::signal(signal, [](int number) {
        std::fprintf(stderr, "=== %s\n%s", last_reader.c_str(), last_mutant.c_str());
        std::signal(number, SIG_DFL);
        std::raise(number);
      });
    }
    return true;
  }();
  (void)installed;
}

void replay(const std::vector<Sample>& samples, std::uint64_t mutants, std::uint64_t seed) {
  for (std::size_t i = 0; i < samples.size(); ++i) {
    const Reader& reader = readers()[samples[i].reader];
    feed(reader, samples[i].text);
    for (std::uint64_t k = 0; k < mutants; ++k) {
      const std::string mutant = Mutator(samples, seed + k).mutant(samples[i].text);
      say_if_it_ends(reader, mutant);
      feed(reader, mutant);
    }
  }
  fmt::print("{} texts, {} mutants of each\n", samples.size(), mutants);
}

/// Words of letters and underscores, which a fuzzer would hardly find.
void write_words(const std::vector<Sample>& samples, const std::filesystem::path& file) {
  std::set<std::string> words;
  for (const Sample& sample : samples) {
    std::string word;
    for (const char c : sample.text + " ") {
      if (std::isalpha(static_cast<unsigned char>(c)) || c == '_') {
        word += c;
      } else {
        if (word.size() > 2 && word.size() < 30) words.insert(word);
        word.clear();
      }
    }
  }
  std::ofstream stream(file);
  for (const std::string& word : words) stream << '"' << word << "\"\n";
}

void export_to(const std::filesystem::path& folder, const std::vector<Sample>& samples) {
  std::filesystem::create_directories(folder / "seeds");
  for (std::size_t i = 0; i < samples.size(); ++i) {
    std::ofstream(folder / "seeds" / std::to_string(i), std::ios::binary)
        << static_cast<char>(samples[i].reader) << samples[i].text;
  }
  write_words(samples, folder / "words");
}

}  // namespace
}  // namespace rehearse

int main(int argc, char** argv) {
  const std::vector<std::string> words(argv + 1, argv + argc);
  if (words.empty()) return 2;
  const auto samples = rehearse::read_corpus(words[0]);
  if (samples.empty()) return 2;
  if (words.size() == 3 && words[1] == "--export") {
    rehearse::export_to(words[2], samples);
  } else {
    rehearse::replay(samples, words.size() > 1 ? std::stoull(words[1]) : 0,
                     words.size() > 2 ? std::stoull(words[2]) : 1);
  }
  return 0;
}
