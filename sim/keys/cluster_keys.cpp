#include "cluster/cluster_keys.hpp"
#include "keys/keys.hpp"

namespace rehearse::inline keys {
namespace {

constexpr const char* kNode = "sim/cluster/read_node.cpp";
constexpr const char* kLinks = "src/profile/comm_links.cpp";

}  // namespace

std::vector<KeySection> cluster_keys() {
  return {
      {"cluster.", "Cluster, inline or beside `use`", "Rehearse",
       "sim/cluster/whole_keys.hpp sim/cluster/read_measured_steps.cpp",
       cluster_key_lines()},

      {"cluster.nccl.", "NCCL of a cluster", "NCCL", "sim/cluster/nccl_options.cpp",
       nccl_keys()},

      {"cluster.gloo.", "Gloo of a cluster", "Gloo", "sim/cluster/gloo_options.cpp", gloo_keys()},

      {"cluster.node.", "Node", "datasheets", kNode,
       node_keys()},

      {"cluster.node.transport.", "Transport of the NICs", "nccl-tests, cloud providers", kLinks,
       {{"rdma", type::map(), "-", "InfiniBand, RoCE, EFA."},
        {"tcp", type::map(), "-", "Sockets."},
        {"NAME.efficiency", type::above(0).to(1), "(1)", "Payload over the NIC's rate."},
        {"NAME.rate", type::data_rate(), "(rdma: all; tcp: by its sockets)",
         "The most of one NIC."},
        {"tcp.sockets", type::integer(1), "(1; amazon: 16, google: 4)",
         "NCCL_SOCKET_NTHREADS times NCCL_NSOCKS_PERTHREAD.", "NCCL"},
        {"tcp.socket_rate", type::data_rate(), "(0.95 GB/s; from 100 Gbit/s on 1.4)",
         "Of one socket; NCCL has two connections."},
        {"tcp.host_rate", type::data_rate(), "(4.6 GB/s)",
         "What a host's TCP gets through for a NIC."},
        {"NAME.per_message", type::time(), "(rdma: 7 us; tcp: 28 us)",
         "What each step of a collective takes beside the latency."},
        {"NAME.per_chunk", type::time(), "(rdma: 4 us; tcp: 0 s)",
         "What a step of NCCL's Simple protocol takes beside that."},
        {"NAME.low_latency", type::flag(), "(true)",
         "NCCL's LL and LL128 may go there; EFA's plugin refuses them on p4d."}}},

      {"cluster.node.gpu.", "GPU", "datasheets", kNode,
       gpu_keys()},

      {"cluster.node.gpu.architecture.", "A generation of GPUs of one's own",
       "platforms/architectures.yaml", "sim/cluster/gpu_architecture.cpp",
       architecture_keys()},

      {"cluster.node.gpu.kernels.", "What kernels reach", "public kernel tables",
       "sim/cluster/read_kernels.cpp",
       {{"matrix", type::above(0).in("share"), "required", "Matrix products, of the peak."},
        {"matrix_fp32", type::above(0).in("share"), "(matrix)", "The same in fp32."},
        {"matrix_memory", type::above(0).in("share"), "(memory)",
         "Their traffic, of the memory's rate."},
        {"attention", type::above(0).in("share"), "required", "Fused attention, of the peak."},
        {"memory", type::above(0).in("share"), "required",
         "Elementwise kernels, of the memory's rate."},
        {"launch", type::time(), "required", "Time to launch one kernel."},
        {"source", type::text(), "given", "Where the shares come from."},
        {"relative", type::name_of("list gpus"), "-",
         "Some are that GPU's, carried over: intervals are wider."}}},

      {"cluster.fabric.", "Fabric", "SimGrid's zones", "sim/cluster/read_fabric.cpp",
       fabric_keys()}};
}

}  // namespace rehearse::inline keys
