// The search for the largest batch leaves out what holds a peak: it must see the same peaks.
#include <boost/test/data/monomorphic.hpp>
#include <boost/test/data/test_case.hpp>
#include <boost/test/unit_test.hpp>

#include "base/data_folder.hpp"
#include "predict/predict.hpp"
#include "report/measures.hpp"
#include "report/report.hpp"

namespace data = boost::unit_test::data;

namespace rehearse {
BOOST_AUTO_TEST_SUITE(memory_peaks_test)
namespace {

std::string text_of(const std::optional<OutOfMemory>& out_of_memory) {
  return out_of_memory ? out_of_memory->at + ": " + out_of_memory->message : "fits";
}

/// Returns whether it fits.
bool check_same_peaks(const Program& program, const MemoryDevice& device) {
  const MemoryForecast shown = forecast_memory(program, device, PeakDetail::shown);
  const MemoryForecast left_out = forecast_memory(program, device, PeakDetail::left_out);
  BOOST_TEST(left_out.allocated_peak.value() == shown.allocated_peak.value());
  BOOST_TEST(left_out.reserved_peak.has_value() == shown.reserved_peak.has_value());
  if (shown.reserved_peak)
    BOOST_TEST(left_out.reserved_peak->value() == shown.reserved_peak->value());
  BOOST_TEST(text_of(left_out.out_of_memory) == text_of(shown.out_of_memory));
  BOOST_TEST(shown.at_peak.total().value() == shown.allocated_peak.value());
  BOOST_TEST(left_out.shares.empty());
  return shown.fits();
}

BOOST_DATA_TEST_CASE(leaving_out_what_holds_a_peak_changes_none,
                     data::make({"g5_vgg16_compression", "dgx_gpt2_zero1", "hopper_convnext_fsdp",
                                 "hopper_gpt2_fsdp_offload", "p5_llama70b_hybrid_shard",
                                 "g5_bert_accumulation", "lightning_vgg16_ps_layerwise",
                                 "local_sgd_slow_network", "cpu_small_cnn_ddp"}),
                     name) {
  const Scenario scenario =
      read_scenario(data_folder() / "scenarios" / (std::string(name) + ".yaml"), {});
  const Schedule schedule = machine_of(scenario).schedule;
  const std::vector<MemoryDevice> devices = memory_devices(scenario, schedule);
  for (std::size_t p = 0; p < devices.size(); ++p) {
    const Program& program = schedule.programs[p];
    BOOST_TEST_CONTEXT(program.name) {
      check_same_peaks(program, devices[p]);
      if (!devices[p].caching || program.tensors.empty()) continue;
      MemoryDevice small = devices[p];  // one byte less than it would have to be
      const MemoryForecast needs = forecast_memory(program, small);
      small.capacity = small.outside + *needs.reserved_peak - Bytes(1);
      check_same_peaks(program, small);
      small.capacity = small.outside + *needs.reserved_peak * 0.5;
      BOOST_TEST(!check_same_peaks(program, small));
    }
  }
}

}  // namespace
BOOST_AUTO_TEST_SUITE_END()
}  // namespace rehearse
