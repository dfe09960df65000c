#pragma once

#include <cctype>
#include <cstdint>
#include <fstream>
#include <map>
#include <sstream>
#include <string>
#include <vector>

#include "base/data_folder.hpp"

namespace rehearse {

/// Reads torchvision_tensors.txt: the tensors of each network.
inline std::map<std::string, std::vector<std::int64_t>> torchvision_tensors() {
  std::ifstream file(data_folder() / "tests/model/torchvision_tensors.txt");
  std::map<std::string, std::vector<std::int64_t>> networks;
  std::string network;
  for (std::string line; std::getline(file, line);) {
    if (line.empty() || line[0] == '#') continue;
    if (std::isalpha(static_cast<unsigned char>(line[0])) != 0) {
      network = line;
      continue;
    }
    std::istringstream words(line);
    for (std::string word; words >> word;) {
      const std::size_t star = word.find('*');
      const std::size_t count = star == std::string::npos ? 1 : std::stoul(word.substr(star + 1));
      networks[network].insert(networks[network].end(), count, std::stoll(word));
    }
  }
  return networks;
}

}  // namespace rehearse
