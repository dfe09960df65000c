// How many nodes make a step of a scenario how fast? And the same question from four threads.
#include <rehearse/rehearse.hpp>

#include <future>
#include <iostream>
#include <string>
#include <vector>

namespace {

/// `nodes` empty: as the scenario has it.
std::string answer(const std::string& file, const std::string& nodes) {
  std::vector<std::string> changes;
  if (!nodes.empty()) changes.push_back("cluster.nodes=" + nodes);
  return rehearse::to_json(rehearse::report_of(rehearse::read_scenario(file, changes)));
}

/// `count` predictions from each of four threads. How many differ from the first?
int differences(const std::string& file, int count) {
  const std::string first = answer(file, "");
  std::vector<std::future<int>> threads;
  for (int thread = 0; thread < 4; ++thread)
    threads.push_back(std::async(std::launch::async, [&] {
      int differ = 0;
      for (int i = 0; i < count; ++i) differ += answer(file, "") == first ? 0 : 1;
      return differ;
    }));
  int all = 0;
  for (std::future<int>& thread : threads) all += thread.get();
  return all;
}

}  // namespace

int main(int count, char** words) {
  if (count < 2) {
    std::cerr << "example SCENARIO [NODES... | --threads]\n";
    return 2;
  }
  try {
    if (count == 3 && words[2] == std::string("--threads")) {
      std::cout << differences(words[1], 25) << " of 100 predictions differ\n";
      return 0;
    }
    if (count == 2) std::cout << answer(words[1], "");
    for (int i = 2; i < count; ++i) std::cout << answer(words[1], words[i]);
  } catch (const rehearse::Error& error) {
    std::cerr << error.what() << "\n";
    return static_cast<int>(error.code());
  }
}
