// How many nodes make a step of a scenario how fast? Each answer is simulated in a child process.
#include <rehearse/rehearse.hpp>

#include <iostream>
#include <string>

namespace {

/// `nodes` empty: as the scenario has it.
rehearse::Report report_of(const std::string& file, const std::string& nodes) {
  const std::string text = rehearse::in_child_process([&] {
    const auto scenario = rehearse::read_scenario(
        file, nodes.empty() ? std::vector<std::string>{}
                            : std::vector<std::string>{"cluster.nodes=" + nodes});
    return rehearse::to_json(rehearse::predict(scenario).report);
  });
  return rehearse::report_from_json(text);
}

}  // namespace

int main(int count, char** words) {
  if (count < 2) {
    std::cerr << "example SCENARIO [NODES...]\n";
    return 2;
  }
  try {
    if (count == 2) std::cout << rehearse::to_json(report_of(words[1], ""));
    for (int i = 2; i < count; ++i) std::cout << rehearse::to_json(report_of(words[1], words[i]));
  } catch (const rehearse::Error& error) {
    std::cerr << error.what() << "\n";
    return static_cast<int>(error.code());
  }
}
