#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "cost/kernel_costs.hpp"
#include "scenario/scenario.hpp"
#include "view/views.hpp"

namespace rehearse::inline explanation {

enum class KernelPass : std::uint8_t { forward, recomputed, backward };
std::string to_string(KernelPass pass);

/// Calls that are alike in one pass of all units: operator, shapes and types.
struct KernelRow {
  std::string op;  ///< as PyTorch's aten has it ("mm"), or a library's own
  KernelPass pass = KernelPass::forward;
  std::vector<std::string> reads{}, writes{};  ///< "bf16[256, 1024]"
  double calls = 0;
  cost::KernelCost cost{};  ///< of all calls
  double share = 0;         ///< of the time of all rows
};

/// Kernels of one unit, in the order of the host: indices of rows, and calls of each.
struct KernelUnit {
  std::string name;
  std::vector<std::pair<std::size_t, double>> forward{}, backward{};
};

/// Kernels of one micro-batch's forward and backward on one rank, without the optimizer's and
/// without collectives.
struct KernelTable {
  std::string scenario, model, gpu, precision;
  std::int64_t batch = 0;
  std::vector<KernelRow> rows{};  ///< the longest first
  std::vector<KernelUnit> units{};
  double calls = 0, flops = 0;
  Bytes bytes{};
  Seconds time{};            ///< of all kernels
  Seconds units_time{};      ///< of the units as the simulator's schedule has them today
  bool is_recorded = false;  ///< measured in a run; then bytes and FLOPs are unknown, and no units
};

/// Lists the kernels of a scenario's network, or those that its record measured
/// (recorded_kernel_table). InputError where nothing says what the network's layers are, or how
/// long a kernel takes.
KernelTable kernel_table(const Scenario& scenario);

/// `rehearse.kernels/1`, two-space indented, keys in a fixed order.
std::string to_json(const KernelTable& table);
nlohmann::ordered_json kernels_schema();
/// A header line and a row for each kind of call.
std::string to_csv(const KernelTable& table);
/// Text for people: columns fit `width`; ANSI colours if `color`.
std::string to_terminal(const KernelTable& table, int width, bool color,
                        Detail detail = Detail::all);

}  // namespace rehearse::inline explanation
