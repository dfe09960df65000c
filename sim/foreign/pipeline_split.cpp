// Layers of a pipeline's stages, in the forms that Megatron-LM has for them.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cctype>
#include <numeric>
#include <optional>

#include "config/document.hpp"
#include "foreign/assemble.hpp"

namespace rehearse::inline foreign {
namespace {

constexpr std::size_t kMostLetters = 10'000;
constexpr int kMostNested = 20;

/// Undoes the repeats of a layout: "Et|(tt|)*2L" is "Et|tt|tt|L". Nothing where it is no layout.
class Expander {
 public:
  explicit Expander(const std::string& text) : text_(text) {}

  std::optional<std::string> all() {
    const std::string made = group(0);
    return good_ && at_ == text_.size() && made.size() <= kMostLetters ? std::optional(made)
                                                                       : std::nullopt;
  }

 private:
  std::string group(int depth) {
    std::string made;
    while (good_ && at_ < text_.size() && text_[at_] != ')') {
      const char c = text_[at_++];
      if (c == ',' || c == ' ') continue;
      std::string part(1, c);
      if (c == '(') {
        if (depth == kMostNested) good_ = false;
        part = good_ ? group(depth + 1) : "";
        if (at_ == text_.size()) good_ = false;
        ++at_;
      }
      for (std::size_t times = repeats(); times > 0 && made.size() <= kMostLetters; --times)
        made += part;
    }
    return made;
  }

  std::size_t repeats() {
    if (at_ >= text_.size() || text_[at_] != '*') return 1;
    std::size_t times = 0;
    const std::size_t first = ++at_;
    while (at_ < text_.size() && std::isdigit(static_cast<unsigned char>(text_[at_])) != 0)
      times = std::min(kMostLetters, 10 * times + static_cast<std::size_t>(text_[at_++] - '0'));
    if (at_ == first) good_ = false;
    return times;
  }

  const std::string& text_;
  std::size_t at_ = 0;
  bool good_ = true;
};

/// A dump's "[[embedding, decoder], [decoder, loss]]" as letters: "Et|tL".
std::string letters_of(std::string text) {
  for (const auto& [word, letter] :
       {std::pair("embedding", "E"), std::pair("decoder", "t"), std::pair("loss", "L")})
    for (std::size_t at = 0; (at = text.find(word, at)) != std::string::npos;)
      text.replace(at, std::string_view(word).size(), letter);
  std::string made;
  for (std::size_t i = 2; i + 2 < text.size(); ++i)
    if (text[i] == '[')
      made += '|';
    else if (text[i] != ']' && text[i] != ',' && text[i] != ' ')
      made += text[i];
  return made;
}

/// Layers by stage: of the first pass through all ranks, then of the second. Nothing where a
/// stage has what is not a layer, the embedding in front or the loss at the end.
std::optional<std::vector<std::int64_t>> layers_of(const std::string& layout) {
  const auto letters =
      layout.starts_with("[[") ? letters_of(layout) : Expander(layout).all().value_or("");
  if (!letters.starts_with('E') || !letters.ends_with('L')) return std::nullopt;
  std::vector<std::int64_t> layers(1);
  for (const char c : letters.substr(1, letters.size() - 2)) {
    if (c == '|')
      layers.push_back(0);
    else if (c == 't')
      ++layers.back();
    else
      return std::nullopt;
  }
  return layers;
}

void fail_of(const Facts& facts, const std::string& name, const std::string& message) {
  const Fact& fact = facts.at(name);
  if (fact.place.source) fail_at(fact.place, fmt::format("{}: {}", fact.key, message));
}

/// Stages by a layout, which tells how many a rank has.
std::vector<std::int64_t> by_layout(Facts& facts, std::int64_t ranks) {
  const auto layers = layers_of(value_of(facts, "layout"));
  if (!layers)
    fail_of(facts, "layout", "layers stand between an embedding in front and a loss at the end");
  const auto stages = layers ? static_cast<std::int64_t>(layers->size()) : 0;
  if (stages == 0 || stages % ranks != 0) {
    fail_of(facts, "layout",
            fmt::format("{} stages are no whole number for each of {} ranks", stages, ranks));
    return {};
  }
  say(facts, "strategy.pipeline.virtual_stages", std::to_string(stages / ranks));
  return *layers;
}

/// The embedding, or the loss, takes the place of a layer.
std::vector<std::int64_t> by_ends(Facts& facts, std::int64_t ranks, std::int64_t layers) {
  const std::int64_t front = has(facts, "embedding_is_a_layer") ? 1 : 0;
  const std::int64_t back = has(facts, "loss_is_a_layer") ? 1 : 0;
  const std::string said = front > 0 ? "embedding_is_a_layer" : "loss_is_a_layer";
  const std::int64_t all = layers + front + back;
  const std::int64_t each = count_of(facts, "layers_per_virtual_stage");
  std::int64_t passes =
      std::max<std::int64_t>(1, count_of(facts, "strategy.pipeline.virtual_stages"));
  if (each > 0) passes = std::max<std::int64_t>(1, all / (ranks * each));
  const std::int64_t stages = ranks * passes;
  if (all % stages != 0)
    fail_of(facts, said,
            fmt::format("{} layers and ends are no whole number of {} stages", all, stages));
  std::vector<std::int64_t> made(static_cast<std::size_t>(stages), all / stages);
  made.front() -= front;
  made.back() -= back;
  facts.erase("layers_per_virtual_stage");
  say(facts, "strategy.pipeline.virtual_stages", std::to_string(passes));
  return made;
}

/// The first rank, or the last, has as many as it says; the others share the rest.
std::vector<std::int64_t> by_first_and_last(Facts& facts, std::int64_t ranks, std::int64_t layers) {
  const std::int64_t first = count_of(facts, "first_stage_layers");
  const std::int64_t last = count_of(facts, "last_stage_layers");
  const std::string said = first > 0 ? "first_stage_layers" : "last_stage_layers";
  const std::int64_t others = ranks - (first > 0 ? 1 : 0) - (last > 0 ? 1 : 0);
  const std::int64_t passes =
      std::max<std::int64_t>(1, count_of(facts, "strategy.pipeline.virtual_stages"));
  const std::int64_t rest = layers - first - last;
  const bool even = rest >= 0 && first % passes == 0 && last % passes == 0 &&
                    (others > 0 ? rest % (others * passes) == 0 : rest == 0);
  if (!even) fail_of(facts, said, fmt::format("{} layers are shared unevenly", layers));
  std::vector<std::int64_t> made;
  for (std::int64_t pass = 0; pass < passes; ++pass)
    for (std::int64_t rank = 0; rank < ranks; ++rank)
      made.push_back(rank == 0 && first > 0          ? first / passes
                     : rank == ranks - 1 && last > 0 ? last / passes
                                                     : rest / (others * passes));
  return made;
}

}  // namespace

void fill_split(Facts& facts) {
  const std::int64_t ranks = count_of(facts, "strategy.pipeline_parallel");
  const std::int64_t layers = layers_in(facts);
  const std::vector<std::string> names = {"layout", "embedding_is_a_layer", "loss_is_a_layer",
                                          "first_stage_layers", "last_stage_layers"};
  const auto said = std::ranges::find_if(names, [&](const auto& name) { return has(facts, name); });
  if (has(facts, "layout") && ranks <= 1 &&
      value_of(facts, "layout").find('|') != std::string::npos)
    fail_of(facts, "layout", "it has stages, and nothing says pipeline_model_parallel_size");
  if (said != names.end() && ranks > 1) {
    if (*said != "layout" && layers == 0)
      fail_of(facts, *said, "the file does not say how many layers there are");
    const std::vector<std::int64_t> made = *said == "layout" ? by_layout(facts, ranks)
                                           : said < names.begin() + 3
                                               ? by_ends(facts, ranks, layers)
                                               : by_first_and_last(facts, ranks, layers);
    const std::int64_t sum = std::accumulate(made.begin(), made.end(), std::int64_t{0});
    if (layers > 0 && sum != layers)
      fail_of(facts, *said,
              fmt::format("its stages have {} layers, and the model {}", sum, layers));
    const bool is_even = std::ranges::adjacent_find(made, std::not_equal_to{}) == made.end();
    if (!is_even) say(facts, "strategy.pipeline.split", fmt::format("[{}]", fmt::join(made, ", ")));
  }
  for (const std::string& name : names) facts.erase(name);
}

std::string layout_of(const std::string& split) {
  std::vector<std::string> stages;
  std::string count;
  for (const char c : split) {
    if (std::isdigit(static_cast<unsigned char>(c)) != 0) count += c;
    if ((c != ',' && c != ']') || count.empty()) continue;
    stages.push_back(count == "0" ? "" : count == "1" ? "t" : "t*" + count);
    count.clear();
  }
  return fmt::format("E{}L", fmt::join(stages, "|"));
}

}  // namespace rehearse::inline foreign
