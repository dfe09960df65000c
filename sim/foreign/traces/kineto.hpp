#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <unordered_map>
#include <unordered_set>
#include <vector>

namespace rehearse::inline foreign {

/// A span of a thread of the host, or of a stream of the GPU. Times are microseconds.
struct TraceSpan {
  double begin = 0;
  float duration = 0;
  std::uint32_t name = 0;    ///< of KinetoTrace::names
  std::uint32_t thread = 0;  ///< of the host; of a kernel its stream
  std::int64_t tie = -1;     ///< an operator's sequence number; a kernel's or launch's correlation

  double end() const { return begin + static_cast<double>(duration); }
};

/// A collective that NCCL ran, or Gloo on a thread of the host.
struct TraceCollective {
  TraceSpan kernel;
  std::string what;  ///< "all_gather" as PyTorch calls it; of a kernel without it, its name
  std::string dtype, group;
  double elements = 0;  ///< the larger of what goes in and comes out; 0: it does not say
  int ranks = 0;        ///< of its group; 0: it does not say
};

/// An event of a trace of PyTorch's profiler, kept for a profile in 32 bytes.
struct KinetoTrace {
  std::string file;
  std::string device;  ///< "NVIDIA H200"; empty: CPU alone
  double device_memory = 0;
  int rank = 0, ranks = 1;
  std::vector<std::string> names;
  std::vector<TraceSpan> operators;  ///< cpu_op
  /// Sizes of each operator's tensors, of `names`: "[2, 128] [1024]"; empty: nobody asked.
  std::vector<std::uint32_t> shapes;
  std::vector<TraceSpan> launches;                 ///< cuda_runtime and cuda_driver calls
  std::vector<TraceSpan> kernels;                  ///< copies and sets included, NCCL's left out
  std::vector<TraceSpan> notes;                    ///< user_annotation of the host
  std::vector<TraceCollective> collectives;        ///< in the order of time
  std::unordered_set<std::uint32_t> gloo_threads;  ///< Gloo's own, whose operators are no step's
  /// Elements of the parameter, by the place of its operator AccumulateGrad.
  std::unordered_map<std::size_t, std::int64_t> parameters;
  double allocated_peak = 0;  ///< bytes of the GPU; 0: it was not recorded
  std::size_t events = 0;

  const std::string& name_of(const TraceSpan& span) const { return names[span.name]; }
};

/// Parts of a trace that are kept. Ranks after the first need their collectives alone; `shapes`:
/// all, and the sizes of operators' tensors (torch.profiler's record_shapes).
enum class KinetoPart : std::uint8_t { all, collectives, shapes };

/// Reads a trace event by event, gzip's or plain: little more than what KinetoTrace keeps is in
/// memory. `progress` is told bytes. InputError with the event where the file is none.
KinetoTrace read_kineto(const std::filesystem::path& file,
                        const std::function<void(double)>& progress,
                        KinetoPart part = KinetoPart::all);

}  // namespace rehearse::inline foreign
