#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace rehearse::inline config {

/// A file of another program, known by its content.
struct ForeignFile {
  std::string what;      ///< "a trace of PyTorch's profiler (Kineto)"
  std::string remedy;    ///< what to do with it, or instead of it
  bool binary = false;   ///< its lines cannot be shown
  std::string format{};  ///< of what `rehearse import` takes: "megatron", "kineto"; else empty
};

/// The kind of file that `text` is, where it is one of those that users bring. It is a Kineto
/// trace, a Chakra execution trace or a Hugging Face config.json; a configuration, a command line
/// or a log of a training framework; an output of nccl-tests, rccl-tests or nvidia-smi topo; a
/// database or an archive. Nothing for all else. `name` is the file's own, for what only its ending
/// tells.
std::optional<ForeignFile> foreign_file(std::string_view text, const std::string& name);

/// InputError at the top of the file if `text` is one of those.
void refuse_foreign_file(std::string_view text, const std::string& name);

}  // namespace rehearse::inline config
