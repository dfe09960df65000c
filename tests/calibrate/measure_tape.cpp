// The tape of every network beside what LibTorch takes from its CPU allocator and gives back.
#include <boost/test/data/monomorphic.hpp>
#include <boost/test/data/test_case.hpp>
#include <boost/test/unit_test.hpp>

#include <algorithm>

#include "measure/precision.hpp"
#include "measure/step_runner.hpp"
#include "model/architecture.hpp"
#include "model/memory_tape.hpp"
#include "models/networks.hpp"

namespace rehearse {
namespace {

namespace data = boost::unit_test::data;

/// What lives at a phase's end, and the most that lived within it; from the step's begin.
struct Phase {
  std::int64_t live = 0, peak = 0;
};

class Track {
 public:
  Phase after(const std::vector<AllocationEvent>& events) {
    Phase phase{live_, live_};
    for (const AllocationEvent& event : events) {
      live_ += event.takes ? event.size : -event.size;
      phase.peak = std::max(phase.peak, live_);
    }
    phase.live = live_;
    return phase;
  }

 private:
  std::int64_t live_ = 0;
};

std::vector<AllocationEvent> sized(const MemoryTape& tape, const std::vector<TapeEvent>& events) {
  std::vector<AllocationEvent> all;
  for (const TapeEvent& event : events) {
    const auto size = static_cast<std::int64_t>(tape.tensors.at(event.tensor).size.value());
    all.push_back({event.tensor, size, event.takes, ""});
  }
  return all;
}

/// Forward of each unit, then backward of each from the last.
std::vector<Phase> phases_of(const MemoryTape& tape) {
  Track track;
  std::vector<Phase> phases;
  for (const UnitTape& unit : tape.units) phases.push_back(track.after(sized(tape, unit.forward)));
  for (std::size_t u = tape.units.size(); u-- > 0;) {
    phases.push_back(track.after(sized(tape, tape.units[u].backward)));
  }
  constexpr std::int64_t kLoss = 4;  // given back on the tape, and held by who measures
  phases.back().live += kLoss;
  return phases;
}

std::vector<Phase> phases_of(const UnitAllocations& real) {
  Track track;
  std::vector<Phase> phases;
  for (const auto& events : real.forward) phases.push_back(track.after(events));
  for (std::size_t u = real.backward.size(); u-- > 0;) {
    phases.push_back(track.after(real.backward[u]));
  }
  return phases;
}

std::int64_t peak(const std::vector<Phase>& phases) {
  std::int64_t most = 0;
  for (const Phase& phase : phases) most = std::max(most, phase.peak);
  return most;
}

struct Case {
  std::string name;
  std::int64_t size = 0;  ///< pixels per side, or tokens
  std::int64_t batch = 1;
  Precision precision = Precision::fp32;
};

std::ostream& operator<<(std::ostream& out, const Case& c) {
  return out << c.name << " of " << c.size << ", batch " << c.batch << ", "
             << to_string(c.precision);
}

bool is_transformer(const std::string& name) {
  return name == "tiny_gpt2" || name == "tiny_bert" || name == "tiny_llama";
}

constexpr TransformerSize kTiny{.hidden = 64,
                                .heads = 4,
                                .kv_heads = 4,
                                .feed_forward = 256,
                                .vocabulary = 97,
                                .positions = 64,
                                .blocks = 2};

Chain chain_of(const Case& c) {
  const ModelShape tokens{.sequence = c.size};
  if (c.name == "tiny_gpt2") return gpt2_chain(c.name, kTiny, tokens);
  if (c.name == "tiny_bert") return bert_chain(c.name, kTiny, tokens);
  if (c.name == "tiny_llama") return llama_chain(c.name, kTiny, tokens);
  return build_chain(c.name, {.image = c.size});
}

Model model_of(const Case& c) {
  const ModelShape tokens{.sequence = c.size};
  if (c.name == "tiny_gpt2") {
    return gpt2_model(
        {"tiny_gpt2", kTiny.hidden, kTiny.heads, kTiny.blocks, kTiny.vocabulary, kTiny.positions},
        tokens);
  }
  if (c.name == "tiny_bert") {
    return bert_model(
        {"tiny_bert", kTiny.hidden, kTiny.heads, kTiny.blocks, kTiny.vocabulary, kTiny.positions},
        tokens);
  }
  if (c.name == "tiny_llama") {
    return llama_model({"tiny_llama", kTiny.hidden, kTiny.feed_forward, kTiny.heads, kTiny.kv_heads,
                        kTiny.blocks, kTiny.vocabulary},
                       tokens);
  }
  return build_architecture(c.name, {.image = c.size});
}

struct Compared {
  std::vector<Phase> real, told;
};

Compared compare(const Case& c) {
  const auto device = make_cpu_device();
  torch::set_num_threads(1);
  const Chain chain = chain_of(c);
  apply_precision(c.precision, chain);
  StepRunner runner(chain, *device, c.precision);
  const Batch batch = random_batch(chain.input, c.batch, torch::kCPU, input_type(c.precision));
  runner.make_gradients(batch);  // what LibTorch allocates once
  const MemoryTape tape = memory_tape(
      model_of(c), {.precision = c.precision, .batch = c.batch, .device = TapeDevice::cpu});
  return {phases_of(runner.record_allocations(batch)), phases_of(tape)};
}

/// The tape follows pip's LibTorch; Debian's convolves without oneDNN.
bool follows_this_libtorch() { return TORCH_VERSION_MAJOR >= 2; }

/// The workspaces on the tape are those of oneDNN's kernels for AVX-512; for AVX2 it lays channels
/// out in blocks of 8 and falls back to other kernels (scenarios/guide/memory.md).
bool has_kernels_of_tape() {
#if defined(__x86_64__)
  return __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
         __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512dq");
#else
  return false;
#endif
}

/// What oneDNN's strided convolutions take for themselves is not on the tape: it depends on which
/// of its kernels is chosen.
constexpr std::int64_t kScratch = 256 * 1024;

void check_phases(const Case& c) {
  const Compared compared = compare(c);
  BOOST_TEST_REQUIRE(compared.real.size() == compared.told.size());
  const std::size_t units = compared.real.size() / 2;
  for (std::size_t i = 0; i < compared.real.size(); ++i) {
    const Phase real = compared.real[i], told = compared.told[i];
    const std::size_t unit = i < units ? i : 2 * units - 1 - i;
    BOOST_TEST_CONTEXT(c << ", " << (i < units ? "forward" : "backward") << " of unit " << unit) {
      if (c.name != "tiny_bert" || unit + 1 != units) BOOST_TEST(real.live == told.live);
      if (has_kernels_of_tape()) BOOST_TEST(std::abs(real.peak - told.peak) <= kScratch);
    }
  }
  if (!has_kernels_of_tape()) {
    BOOST_TEST_MESSAGE("peaks skipped: the tape follows oneDNN's kernels for AVX-512");
    return;
  }
  BOOST_TEST(std::abs(peak(compared.real) - peak(compared.told)) <= 1024, c << ": peak");
}

std::vector<Case> small_cases() {
  std::vector<Case> cases;
  for (const std::string name : {"small_mlp", "small_cnn", "resnet50", "densenet121",
                                 "efficientnet_v2_l", "tiny_gpt2", "tiny_bert", "tiny_llama"}) {
    for (const std::int64_t batch : {1, 2, 3}) {
      const std::int64_t size = is_transformer(name) ? 8 : 64;
      cases.push_back({name, size, batch});
      if (batch == 2) cases.push_back({name, 2 * size, batch});
    }
  }
  cases.push_back({"vgg16", 32, 2});
  cases.push_back({"vgg16", 64, 1});
  cases.push_back({"small_cnn", 32, 2});
  cases.push_back({"small_mlp", 28, 3});
  cases.push_back({"convnext_large", 64, 2});
  return cases;
}

const std::vector<Case> kSmall = small_cases();

BOOST_DATA_TEST_CASE(each_unit_holds_what_libtorch_holds, data::make(kSmall), c) {
  if (!follows_this_libtorch()) {
    BOOST_TEST_MESSAGE("skipped: the tape follows LibTorch 2 with oneDNN");
    return;
  }
  check_phases(c);
}

}  // namespace
}  // namespace rehearse
