// Tables with a row for each moment: nvidia-smi's, DCGM's and wandb's.
#include "foreign/logs/log_readers.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <initializer_list>
#include <vector>

#include "base/number.hpp"

namespace rehearse::inline foreign {
namespace {

/// The cells of a row of CSV, without quotes and blanks before them.
std::vector<std::string> cells(std::string row) {
  std::erase(row, '"');
  std::vector<std::string> made;
  for (std::size_t at = 0; at <= row.size();) {
    const std::size_t end = std::min(row.find(',', at), row.size());
    std::string cell = row.substr(at, end - at);
    cell.erase(0, std::min(cell.find_first_not_of(' '), cell.size()));
    made.push_back(cell);
    at = end + 1;
  }
  return made;
}

}  // namespace

/// nvidia-smi's and DCGM's columns: memory alone.
void read_gpu_table(Lines& lines, TrainingLog& log) {
  std::string line;
  lines.next(line);
  const std::vector<std::string> head = cells(line);
  const auto column = std::ranges::find_if(head, [](const std::string& name) {
    return name.starts_with("memory.used") || name.find("FB_USED") != std::string::npos;
  });
  if (column == head.end()) lines.fail(line, 0, "no column memory.used");
  const auto place = static_cast<std::size_t>(column - head.begin());
  while (lines.next(line)) {
    const std::vector<std::string> row = cells(line);
    if (row.size() == 1 && row[0].empty()) continue;
    if (row.size() != head.size())
      lines.fail(line, 0, fmt::format("{} cells under {} names", row.size(), head.size()));
    const auto used = leading_number(row[place]);
    if (!used || used->value < 0) lines.fail(line, 0, "no memory in that column");
    raise(log.reserved_bytes, used->value, kMebi);
  }
}

/// A run's history as wandb exports it: seconds of its clock over its steps.
void read_history(Lines& lines, TrainingLog& log) {
  std::string line;
  lines.next(line);
  const std::vector<std::string> head = cells(line);
  const auto column = [&](std::initializer_list<const char*> names) {
    for (const char* name : names)
      for (std::size_t i = 0; i < head.size(); ++i)
        if (head[i] == name || head[i].ends_with(std::string("/") + name) ||
            head[i].ends_with(std::string(" - ") + name))
          return i;
    return head.size();
  };
  const std::size_t clock = column({"_runtime", "_timestamp", "Relative Time (Process)"});
  const std::size_t steps = column({"global_step", "trainer/global_step", "Step", "_step"});
  if (clock == head.size() || steps == head.size())
    lines.fail(line, 0, "no columns _runtime and global_step, which tell a step's time");
  double last_clock = 0, last_step = -1;
  while (lines.next(line)) {
    const std::vector<std::string> row = cells(line);
    if (row.size() != head.size()) continue;
    const auto time = decimal_number(row[clock]), step = decimal_number(row[steps]);
    if (!time || !step) continue;
    if (last_step >= 0 && *step > last_step && *time > last_clock)
      log.step_times.push_back((*time - last_clock) / (*step - last_step));
    if (*step == last_step) continue;
    last_clock = *time;
    last_step = *step;
  }
}

}  // namespace rehearse::inline foreign
