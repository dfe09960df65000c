#include <arpa/inet.h>
#include <fmt/format.h>
#include <sys/socket.h>
#include <unistd.h>

#include <boost/test/data/monomorphic.hpp>
#include <boost/test/data/test_case.hpp>
#include <boost/test/unit_test.hpp>
#include <chrono>
#include <csignal>

#include "base/error.hpp"
#include "launch/run_ranks.hpp"
#include "measure/device.hpp"
#include "models/networks.hpp"
#include "server/socket.hpp"
#include "train/ddp.hpp"
#include "train/fsdp.hpp"

namespace rehearse {
BOOST_AUTO_TEST_SUITE(fsdp_faults_test)
namespace {

namespace data = boost::unit_test::data;
using Clock = std::chrono::steady_clock;
using std::chrono::seconds;

/// Of a group whose peers all answer, however busy the machine.
constexpr seconds kPatient{100};
/// Of one that is to give up; in it healthy ranks meet and train.
constexpr seconds kTimeout{10};
/// Long before a rank that hangs would end, which it never does.
constexpr seconds kBound{100};

struct Failure {
  std::string text = "no error";
  Clock::duration took{};
};

Failure failure_of(int nproc, const std::function<std::string(const RankEnvironment&)>& work) {
  const auto begin = Clock::now();
  Failure failure;
  try {
    collect_from_ranks(nproc, work);
  } catch (const Error& error) {
    failure.text = error.what();
  }
  failure.took = Clock::now() - begin;
  return failure;
}

/// Trains without end; `fault` comes before the step of each number.
std::string train_until(const RankEnvironment& ranks, bool shards, seconds timeout,
                        const std::function<void(int step)>& fault) {
  const auto device = make_cpu_device();
  at::set_num_threads(1);
  const ProcessGroup group = make_process_group(ranks, {.timeout = timeout});
  const Chain chain = build_chain("small_cnn", {.image = 8, .classes = 5});
  const TrainerParts parts = {chain, group, device.get(), [](std::vector<torch::Tensor> weights) {
                                return std::make_unique<torch::optim::SGD>(weights, 1e-2);
                              }};
  const auto trainer = shards ? make_fsdp(parts) : make_ddp(parts);
  for (int step = 0;; ++step) {
    fault(step);
    trainer->step({random_batch(chain.input, 4, torch::kCPU)});
  }
}

/// A port on which somebody listens already.
class TakenPort {
 public:
  TakenPort() : socket_(socket(AF_INET6, SOCK_STREAM, 0)) {
    sockaddr_in6 address{};
    address.sin6_family = AF_INET6;
    socklen_t size = sizeof(address);
    auto* plain = reinterpret_cast<sockaddr*>(&address);
    BOOST_REQUIRE(bind(socket_, plain, size) == 0);
    BOOST_REQUIRE(listen(socket_, 1) == 0);
    BOOST_REQUIRE(getsockname(socket_, plain, &size) == 0);
    port_ = ntohs(address.sin6_port);
  }
  ~TakenPort() { close(socket_); }
  TakenPort(const TakenPort&) = delete;
  TakenPort& operator=(const TakenPort&) = delete;
  int port() const { return port_; }

 private:
  int socket_ = -1;
  int port_ = 0;
};

}  // namespace

BOOST_DATA_TEST_CASE(a_rank_killed_in_the_middle_ends_the_training,
                     data::make({false, true}) * data::make({2, 3}), shards, nproc) {
  const auto failure = failure_of(nproc, [shards = shards](const RankEnvironment& ranks) {
    return train_until(ranks, shards, kPatient, [&ranks](int step) {
      if (step == 3 && ranks.rank == 1) kill(getpid(), SIGKILL);
    });
  });
  BOOST_TEST(failure.text == fmt::format("error: rank 1 of {} was ended by signal 9 (Killed); the "
                                         "others were stopped",
                                         nproc));
  BOOST_TEST((failure.took < kBound));
}

BOOST_DATA_TEST_CASE(a_rank_that_hangs_is_noticed_by_its_peers, data::make({false, true}), shards) {
  const auto failure = failure_of(2, [shards = shards](const RankEnvironment& ranks) {
    return train_until(ranks, shards, kTimeout, [&ranks](int step) {
      if (step == 3 && ranks.rank == 1) kill(getpid(), SIGSTOP);
    });
  });
  BOOST_TEST(failure.text.find("(in rank 0 of 2)") != std::string::npos, failure.text);
  BOOST_TEST((failure.took < kBound));
}

BOOST_AUTO_TEST_CASE(a_peer_that_never_comes_is_an_error_in_time) {
  const auto failure = failure_of(2, [](const RankEnvironment& ranks) -> std::string {
    if (ranks.rank == 1) sleep(1000);
    make_process_group(ranks, {.timeout = seconds(2)});
    return "";
  });
  const std::string expected =
      "error: rank 0 of 2 did not meet the others on this node within 2 s: ";
  BOOST_TEST(failure.text.substr(0, expected.size()) == expected);
  BOOST_TEST((failure.took < kBound));
}

BOOST_AUTO_TEST_CASE(a_port_in_use_is_an_error_that_names_it) {
  const TakenPort taken;
  const auto failure = failure_of(1, [&taken](const RankEnvironment&) -> std::string {
    make_process_group({.world_size = 2, .master_port = taken.port()}, {.timeout = seconds(2)});
    return "";
  });
  BOOST_TEST(failure.text.find(fmt::format("at 127.0.0.1:{} within 2 s", taken.port())) !=
                 std::string::npos,
             failure.text);
  BOOST_TEST((failure.took < kBound));
}

BOOST_AUTO_TEST_CASE(ranks_of_a_launcher_meet_at_the_port) {
  const Socket reserved = reserve_port();
  const int port = port_of(reserved);
  const auto texts = collect_from_ranks(2, [port](const RankEnvironment& ranks) -> std::string {
    RankEnvironment at_port = ranks;
    at_port.store_file.clear();
    at_port.master_port = port;
    const auto group = make_process_group(at_port, {.timeout = kPatient});
    std::vector<torch::Tensor> sum = {torch::ones({3})};
    group->allreduce(sum)->wait();
    return std::to_string(sum[0].sum().item<float>());
  });
  BOOST_TEST(texts[1] == std::to_string(6.0F));
}

BOOST_AUTO_TEST_SUITE_END()
}  // namespace rehearse
