// Generations of GPUs as data: those that ship, and one's own.
#include <boost/test/unit_test.hpp>
#include <string>

#include "cluster/gpu_architecture.hpp"

namespace rehearse {
BOOST_AUTO_TEST_SUITE(architectures_test)

BOOST_AUTO_TEST_CASE(a_generation_of_ones_own_differs_where_it_says_so) {
  const auto document =
      Document::parse("{like: hopper, sdpa: flash2, nccl: {link: 100GBps}}", "test.yaml");
  const GpuArchitecture own = *read_gpu_architecture(document->root());
  const GpuArchitecture hopper = *gpu_architecture("hopper");
  BOOST_TEST(own.bounds.link.value() == 100e9);
  BOOST_TEST(!own.sdpa_is_cudnn);
  BOOST_TEST(hopper.sdpa_is_cudnn);
  BOOST_TEST(own.bounds.nvls_channels == hopper.bounds.nvls_channels);
  BOOST_TEST(own.nccl.launch.value() == hopper.nccl.launch.value());
  BOOST_TEST(own.cublas_workspace.value() == 32.0 * 1024 * 1024);
}

BOOST_AUTO_TEST_CASE(every_shipped_generation_has_every_value) {
  for (const std::string& name : architecture_kinds()) {
    const auto one = gpu_architecture(name);
    BOOST_TEST(one->name == name);
    for (const double share :
         {one->nccl.ll, one->nccl.ll128, one->nccl.simple, one->nccl.nvls, one->nccl.all_to_all,
          one->bounds.link.value(), one->bounds.ll_cap.value(), one->bounds.ll_cap_beyond.value(),
          one->cublas_workspace.value()})
      BOOST_TEST(share > 0, name);
    BOOST_TEST(one->bounds.max_channels > 0, name);
  }
}

BOOST_AUTO_TEST_SUITE_END()
}  // namespace rehearse
