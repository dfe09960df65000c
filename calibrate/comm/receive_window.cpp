#include "comm/receive_window.hpp"

#include <fstream>

namespace rehearse::inline calibrate {
namespace {

constexpr double kPayload = 7.0 / 8;

}  // namespace

std::optional<Bytes> largest_receive_window(const std::filesystem::path& tcp_rmem) {
  std::ifstream file(tcp_rmem);
  double least = 0, usual = 0, most = 0;
  if (!(file >> least >> usual >> most) || !(most > 0)) return std::nullopt;
  return Bytes(kPayload * most);
}

}  // namespace rehearse::inline calibrate
