#include "html/shared_parts.hpp"

#include <string>
#include <unordered_map>

#include "config/json/json_text.hpp"

namespace rehearse::inline html {
namespace {

using Json = nlohmann::ordered_json;

/// Shorter ones cost as much as naming them.
constexpr std::size_t kLeast = 60;

std::string dumped(const Json& part) { return json_text_of_any(part); }

class Sharing {
 public:
  explicit Sharing(const Json& document) { count(document); }

  /// The largest parts first, then what is within the others.
  void replace(Json& part) {
    const std::string text = dumped(part);
    const auto known = uses_.find(text);
    if (text.size() >= kLeast && known != uses_.end() && known->second > 1) {
      auto [place, is_new] = places_.try_emplace(text, 0);
      if (is_new) {
        Json whole = part;
        replace_within(whole);
        place = places_.find(text);
        place->second = shared_.size();
        shared_.push_back(std::move(whole));
      }
      part = Json{{"$shared", place->second}};
      return;
    }
    replace_within(part);
  }

  Json shared() { return shared_.empty() ? Json() : std::move(shared_); }

 private:
  void replace_within(Json& part) {
    if (part.is_structured())
      for (Json& inner : part) replace(inner);
  }

  void count(const Json& part) {
    const std::string text = dumped(part);
    if (text.size() < kLeast) return;
    // What is within a part that was met before is met with it.
    if (++uses_[text] > 1) return;
    if (part.is_structured())
      for (const Json& inner : part) count(inner);
  }

  std::unordered_map<std::string, std::size_t> uses_, places_;
  Json shared_ = Json::array();
};

}  // namespace

Json take_shared_parts(Json& document) {
  Sharing sharing(document);
  sharing.replace(document);
  return sharing.shared();
}

}  // namespace rehearse::inline html
