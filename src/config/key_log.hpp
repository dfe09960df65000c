#pragma once

#include <map>
#include <set>
#include <string>
#include <utility>

namespace rehearse::inline config {

/// While it lives, notes which keys readers ask for, as what, and which defaults they take.
/// One at a time. tests/keys holds the reference of all keys against it.
class KeyLog {
 public:
  struct Use {
    std::set<std::string> types;     ///< "time", "true or false", "ring | tree"
    std::set<std::string> defaults;  ///< as a report states them
  };
  /// By file and path, `strategy.ddp.bucket_cap_mb`.
  using Uses = std::map<std::pair<std::string, std::string>, Use>;

  KeyLog();
  ~KeyLog();
  KeyLog(const KeyLog&) = delete;
  KeyLog& operator=(const KeyLog&) = delete;

  static KeyLog* current();
  Use& use(const std::string& file, const std::string& path) { return uses_[{file, path}]; }
  const Uses& uses() const { return uses_; }

 private:
  Uses uses_;
};

}  // namespace rehearse::inline config
