#include "asked.hpp"

#include <unistd.h>

#include <boost/test/unit_test.hpp>
#include <filesystem>
#include <fstream>
#include <optional>
#include <regex>

#include "base/error.hpp"
#include "cluster/cluster.hpp"
#include "convergence/curve.hpp"
#include "planner/plan.hpp"
#include "profile/comm_profile.hpp"
#include "profile/compute_profile.hpp"
#include "rollout/rl_step.hpp"
#include "scenario/scenario.hpp"
#include "settings.hpp"
#include "study/study.hpp"
#include "validation/cases.hpp"

namespace rehearse {
namespace {

namespace fs = std::filesystem;

std::string replaced(std::string text, const std::string& word, const std::string& by) {
  text.replace(text.find(word), word.size(), by);
  return text;
}

/// Reads one of everything; what one reader finds wrong fails the test by its message.
class Corpus {
 public:
  Corpus() : scratch_(fs::temp_directory_path() / fmt::format("rehearse_keys_{}", getpid())) {
    fs::create_directory(scratch_);
  }
  ~Corpus() { fs::remove_all(scratch_); }

  void read_all() {
    const fs::path root = data_folder();
    const std::string toy = (root / "scenarios/toy_ddp.yaml").string();
    for (const std::string& name : gpu_names()) known_gpu(name);
    for (const std::string& name : cluster_names()) describe_cluster(name);
    for (const auto& entry : fs::directory_iterator(root / "scenarios"))
      if (entry.path().extension() == ".yaml") attempt([&] { read_scenario(entry.path(), {}); });
    attempt([&] { read_scenario(root / "scenarios/captured/dlrm.yaml", {}); });
    for (const auto& entry : fs::directory_iterator(root / "scenarios/post_training"))
      attempt([&] { read_rl_question(*Document::load(entry.path())); });
    for (const auto& options : more_options()) attempt([&] { read_scenario(toy, options); });
    attempt([&] { read_scenario(root / "tests/data/forecast.yaml", {}); });
    // Read, and then refused: a CPU's profiles are for clusters of its own, and no file is there.
    const std::string cpu = "amd_epyc_1_thread";
    for (const std::string& model :
         {"use: small_mlp, transfer_from: " + cpu,
          "profile: " +
              (root / "platforms/profiles/compute" / cpu / "small_mlp_fp32.yaml").string() +
              ", precision: fp32"}) {
      BOOST_CHECK_THROW(read_scenario(toy, {fmt::format("model={{batch_per_gpu: 4, {}}}", model)}),
                        Error);
    }
    BOOST_CHECK_THROW(read_scenario(toy, {"model={captured: no.model.json, batch_per_gpu: 4}"}),
                      Error);
    attempt([&] {
      read_scenario(
          root / "tests/data/forecast.yaml",
          {"convergence.momentum=0", "convergence.accept=[data]",
           "convergence.staleness_aware=true", "convergence.momentum_correction=true",
           "convergence.delay_compensation=0.1", "convergence.rates=[{after: 0.5, times: 0.1}]"});
    });
    attempt([&] { read_study(write("study.yaml", replaced(kStudy, "SCENARIO", toy)), {}); });
    attempt(
        [&] { read_study(write("study.yaml", replaced(kStudy, "SCENARIO", "{run: {}}")), {}); });
    std::string plan = replaced(kPlan, "SCENARIO", toy);
    attempt([&] { read_plan(write("plan.yaml", plan), {}); });
    plan = replaced(plan, "memory: fits", "memory: 9GiB");
    plan = replaced(plan, "{min: 1, max: 99}", "9");
    plan = replaced(plan, "{pareto: [time, cost]}", "time");
    plan =
        replaced(plan, "strategies: all, options: auto", "strategies: [ddp], options: [buckets]");
    attempt([&] { read_plan(write("plan2.yaml", plan), {}); });
    plan = replaced(plan, "memory: 9GiB", "memory: 99%");
    attempt([&] { read_plan(write("plan3.yaml", plan), {}); });
    const std::string llama = (root / "scenarios/plans/base/llama70b.yaml").string();
    plan = "scenario: " + llama + "\nsearch: {parallelism: [tensor]}\nobjective: time\n";
    attempt([&] { read_plan(write("plan3.yaml", plan), {}); });
    plan = replaced(plan, "[tensor]", "[tensor], framework: [torch, megatron]");
    attempt([&] { read_plan(write("plan4.yaml", plan), {}); });
    attempt([&] { read_comm_profile(document("comm_profile.yaml", kComm)); });
    for (const char* sample : {"image: 9", "sequence: 9", "input: 3x9"}) {
      attempt([&] {
        read_compute_profile(
            document("compute_profile.yaml", replaced(kCompute, "SAMPLE", sample)));
      });
    }
    attempt([&] { read_curve(write("curve.json", kCurve)); });
    for (const fs::path& file : case_files({root / "scenarios/validation"}))
      attempt([&] { read_case_file(file); });
  }

  /// The kind of file by its name: what its keys begin with. Nothing: none of ours.
  static std::optional<std::string> kind_of(const std::string& file) {
    if (file.starts_with("--set")) return "";
    const fs::path path(file);
    const std::string folder = path.parent_path().filename();
    if (path.filename() == "gpus.yaml") return "cluster.node.gpu.";
    if (path.filename() == "architectures.yaml") return "cluster.node.gpu.architecture.";
    if (folder == "models") return "model.family.";
    if (folder == "clusters") return "cluster.";
    if (folder == "kernels") return std::nullopt;  // of platforms/kernels/fit, told in its README
    if (folder == "frameworks" || folder == "engines")
      return std::nullopt;  // told in their READMEs
    if (folder == "formats" || path.filename() == "hub.yaml") return std::nullopt;  // likewise
    if (path.filename() == "signs.yaml" || path.filename() == "servers.yaml" ||
        path.filename() == "prices.yaml" || path.filename() == "intervals.yaml")
      return std::nullopt;                             // told in themselves
    if (folder == "convergence") return std::nullopt;  // laws and points, told in their headers
    if (folder == "comm") return "comm_profile/";
    if (path.parent_path().parent_path().filename() == "compute") return "compute_profile/";
    if (path.parent_path().filename() == "validation") return "cases/";
    for (const char* kind : {"study", "plan", "comm_profile", "compute_profile", "curve"})
      if (path.stem().string().starts_with(kind)) return fmt::format("{}/", kind);
    if (file == "defaults" || path.extension() == ".yaml") return "";
    return std::nullopt;  // a recorded curve, or a text of the program's own
  }

 private:
  template <class Read>
  void attempt(Read&& read) {
    try {
      read();
    } catch (const Error& wrong) {
      BOOST_ERROR(wrong.what());
    }
  }
  fs::path write(const std::string& name, const std::string& text) {
    std::ofstream(scratch_ / name) << text;
    return scratch_ / name;
  }
  Value document(const std::string& name, const std::string& text) {
    return Document::load(write(name, text))->root();
  }

  fs::path scratch_;
};

// --- what the readers asked for, by the path that the reference would have

KeyLog::Use& merged(std::map<std::string, KeyLog::Use>& all, const std::string& path,
                    const KeyLog::Use& use) {
  KeyLog::Use& at = all[path];
  at.types.insert(use.types.begin(), use.types.end());
  at.defaults.insert(use.defaults.begin(), use.defaults.end());
  return at;
}

}  // namespace

const std::map<std::string, KeyLog::Use>& asked() {
  static const std::map<std::string, KeyLog::Use> kAsked = [] {
    KeyLog log;
    Corpus().read_all();
    std::map<std::string, KeyLog::Use> all;
    for (const auto& [at, use] : log.uses()) {
      const auto kind = Corpus::kind_of(at.first);
      if (!kind) continue;
      std::string path = std::regex_replace(at.second, std::regex(R"(\.\d+(?=\.|$))"), "[]");
      if (kind->starts_with("cluster.") || *kind == "model.family.") {  // of several, by names
        const std::size_t dot = path.find('.');
        if (dot == std::string::npos) continue;
        path = *kind + path.substr(dot + 1);
      } else {
        path = *kind + path;
      }
      if (path.empty() || path.back() == '.' || path.back() == '/') continue;  // a file's root
      merged(all, path, use);
    }
    return all;
  }();
  return kAsked;
}

}  // namespace rehearse
