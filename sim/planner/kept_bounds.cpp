#include "planner/kept_bounds.hpp"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "config/files_read.hpp"
#include "config/json/json_text.hpp"
#include "study/content_key.hpp"
#include "study/take_up.hpp"

namespace rehearse::inline planner {
namespace {

using Json = nlohmann::json;

/// The key under which a file of results says that it has bounds.
const char* const kHasBounds = "bounds of a plan that was stopped";
constexpr std::size_t kMostOfAFile = std::size_t{1} << 30;

/// Whether the files that a batch was read from are as they were.
bool holds(const std::string& text) {
  try {
    const Json batch = parsed_json(text);
    for (const auto& [name, digest] : batch.at("files").items())
      if (content_key(read_input(name, kMostOfAFile)) != digest.get<std::string>()) return false;
    return true;
  } catch (const Error&) {
    return false;
  }
}

}  // namespace

KeptBounds::KeptBounds(std::filesystem::path file, StudyIdentity identity, const Study& study)
    : file_(std::move(file)), identity_(std::move(identity)), study_(study) {}

std::size_t KeptBounds::end(std::size_t batch) const {
  return std::min(study_.points.size(), (batch + 1) * kBatch);
}

std::string KeptBounds::key_of(std::size_t batch) const {
  std::string texts = "bounds";
  for (std::size_t i = begin(batch); i < end(batch); ++i)
    texts += "\n" + content_key(identity_.program, *scenario_at(study_, study_.points[i]), {});
  return content_key(texts);
}

std::string KeptBounds::computed(std::size_t batch,
                                 const std::function<Bound(const Document&)>& bound) const {
  const FilesRead read;
  Json bounds = Json::array(), files = Json::object();
  for (std::size_t i = begin(batch); i < end(batch); ++i)
    bounds.push_back(to_json(bound(*scenario_at(study_, study_.points[i]))));
  for (const FilesRead::File& file : read.files())
    files[file.name.string()] = content_key(file.text);
  return json_text(Json({{"files", files}, {"bounds", bounds}}));
}

std::vector<Bound> KeptBounds::read(const std::string& text) {
  const Json batch = parsed_json(text);
  std::vector<Bound> bounds;
  for (const Json& one : batch.at("bounds")) bounds.push_back(bound_from(one));
  return bounds;
}

std::map<std::size_t, std::string> KeptBounds::known() const {
  std::map<std::size_t, std::string> texts;
  std::error_code ignored;
  if (file_.empty() || !std::filesystem::exists(file_, ignored)) return texts;
  LockedStore store(file_, {}, false);
  if (!store->find(kHasBounds)) return texts;
  for (std::size_t batch = 0; batch < batches(); ++batch)
    if (const auto found = store->find(key_of(batch)); found && holds(found->text))
      texts.emplace(batch, found->text);
  return texts;
}

bool KeptBounds::keep(const std::map<std::size_t, std::string>& texts) const {
  if (file_.empty() || texts.empty()) return false;
  LockedStore store(file_, {}, false);
  const auto before = store->identity();
  if (before && (before->study != identity_.study || before->program != identity_.program))
    return false;
  if (!before) store->describe(identity_, {});  // its points are known when all are bounded
  store->store(kHasBounds, {.code = ExitCode::success, .text = "{}"});
  for (const auto& [batch, text] : texts)
    store->store(key_of(batch), {.code = ExitCode::success, .text = text});
  return store->flush().empty();
}

}  // namespace rehearse::inline planner
