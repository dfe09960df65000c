#pragma once

#include "cluster/parts.hpp"
#include "config/key_list.hpp"

namespace rehearse::inline cluster {

inline constexpr std::int64_t kMostNodes = 1'000'000;

/// An entry of `cluster.groups`.
struct GroupKeys : KeyList {
  KeyOf<std::string> name =
      add<std::string>("name", "(group0, group1, ...)", "What `server_host` calls it.");
  KeyOf<int> nodes = add("nodes", form::count(1, kMostNodes), "required", "Nodes of the group.");
  KeyOf<Value> node = add("node", form::as_it_stands(type::like("cluster.node")), "required",
                          "One node of the group.");
};

/// Keys of `cluster`, inline or beside `use`, which changes what a shipped one has.
struct ClusterKeys : KeyList {
  GroupKeys group;

  KeyOf<Value> use =
      add("use", form::as_it_stands(type::name_of("list clusters") | type::text("file")), "-",
          "A shipped cluster, or yours.");
  KeyOf<std::string> name = add<std::string>("name", "inline", "Its name in reports.");
  KeyOf<int> nodes = add("nodes", form::count(1, kMostNodes), "(required without use and groups)",
                         "Nodes; beside `use` another number of them.");
  KeyOf<int> gpus_per_node = add("gpus_per_node", form::count(1, 1'000'000), "-",
                                 "Beside `use`: fewer GPUs in each node.");
  KeyOf<Value> node = as_of("node", "cluster.node", "One node, without `use` and `groups`.");
  KeyOf<Value> groups =
      add("groups", form::as_it_stands(type::list_of(type::map()), group.below("[].")), "-",
          "Groups of unlike nodes.");
  KeyOf<Value> fabric =
      add("fabric", form::as_it_stands(type::map()), "star", "What joins the nodes.");
  KeyOf<Value> kernels = add("kernels", form::as_it_stands(type::text("file")), "(the GPU's)",
                             "What `rehearse calibrate kernels` measured on its GPUs.");
  KeyOf<std::string> comm_profile =
      add("comm_profile",
          Form<std::string>{type::name_of("list profiles") | type::text("file"),
                            read_comm_profile_file},
          "-", "Measured costs of collectives; `none`: NCCL's model alone.");
  KeyOf<CollectiveModel> collectives =
      add("collectives", form::choice(kCollectives), "(links for generic GPUs)",
          "What a collective costs without a curve: NCCL's times, Gloo's, or its links' alone.",
          "NCCL, Gloo");
  KeyOf<Value> nccl =
      add("nccl", form::as_it_stands(type::map()), "-", "What is known of NCCL there.", "NCCL");
  KeyOf<Value> gloo =
      add("gloo", form::as_it_stands(type::map()), "-", "With `collectives: gloo`.", "Gloo");
  KeyOf<int> shared_cores = add("shared_cores", form::count(1, kMostCores), "-",
                                "All nodes share so many cores of one machine.");
  KeyOf<Cluster::BusyCores> busy_cores =
      add("busy_cores", form::map(busy_fields(), check_busy), "-",
          "What computing on all shared cores at once costs.");
  KeyOf<Cluster::RunQueue> run_queue =
      add("run_queue", form::map(queue_fields(), check_queue), "-",
          "What a recorded run's threads stood ready without a core of their machine.");
  KeyOf<double> head_start =
      add("head_start", form::not_negative(), "-",
          "Share of itself that a sent message gets ahead of one that comes later.");
  KeyOf<Value> measured_steps = add(
      "measured_steps",
      form::as_it_stands(type::list_of(type::map()),
                         {{"[].NAME", type::at_least(0), "-",
                           "Share of the step, by mechanism of platforms/intervals.yaml."}}),
      "-", "What the errors of steps consist of that `import log --calibrate --site` measured.");
  KeyOf<std::string> source = add<std::string>("source", "-", "Where the figures come from.");

  // Beside `use`: of the nodes that it has.
  KeyOf<Value> nic =
      add("nic", form::as_it_stands(type::data_rate() | type::list_of(type::data_rate())), "-",
          "Beside `use`: as `cluster.node.nic`.");
  KeyOf<Value> nics =
      add("nics", form::as_it_stands(type::integer(1)), "-", "Beside `use`: NICs of a node.");
  KeyOf<Seconds> nic_latency =
      add<Seconds>("nic_latency", "-", "Beside `use`: one way, NIC to NIC.");
  KeyOf<Bytes> nic_burst = add<Bytes>("nic_burst", "-", kAsOfNode);
  KeyOf<Value> transport = as_of("transport", "cluster.node.transport", kAsOfNode);
  KeyOf<Value> nic_vendor = as_of("nic_vendor", "cluster.node.nic_vendor", kAsOfNode);
  KeyOf<BytesPerSecond> nvlink = add<BytesPerSecond>("nvlink", "-", kAsOfNode);
  KeyOf<Seconds> nvlink_latency = add<Seconds>("nvlink_latency", "-", kAsOfNode);
  KeyOf<BytesPerSecond> pcie = add<BytesPerSecond>("pcie", "-", kAsOfNode);
  KeyOf<Seconds> pcie_latency = add<Seconds>("pcie_latency", "-", kAsOfNode);
  KeyOf<BytesPerSecond> staged_rate = add<BytesPerSecond>("staged_rate", "-", kAsOfNode);
  KeyOf<Value> host_bandwidth =
      add("host_bandwidth",
          form::as_it_stands(type::data_rate() | type::list_of(type::data_rate())), "-", kAsOfNode);
  KeyOf<BytesPerSecond> nvme = add<BytesPerSecond>("nvme", "-", kAsOfNode);
  KeyOf<Value> cores =
      add("cores", form::as_it_stands(type::integer(1) | type::list_of(type::integer(1))), "-",
          kAsOfNode);
  KeyOf<double> speed = add("speed", Form<double>{type::above(0), read_speed}, "-", kAsOfNode);
  KeyOf<Bytes> memory =
      add("memory", form::size_above_0(), "-", "Beside `use`: each GPU's memory.");
  KeyOf<Watts> tdp = add("tdp", Form<Watts>{type::text("W, kW"), read_watts}, "-",
                         "Beside `use`: each GPU's power.");
  KeyOf<Value> usd_per_hour = as_of("usd_per_hour", "cluster.node.usd_per_hour",
                                    "Price of a node with GPUs, whatever else says it.");

 private:
  static constexpr const char* kAsOfNode = "Beside `use`: as of a node.";
  static constexpr int kMostCores = 1'000'000;
  static constexpr Choices<CollectiveModel> kCollectives = {{"nccl", CollectiveModel::nccl},
                                                            {"gloo", CollectiveModel::gloo},
                                                            {"links", CollectiveModel::links}};

  KeyOf<Value> as_of(const char* key, const char* other, const char* meaning) {
    return add(key, form::as_it_stands(type::like(other)), "-", meaning);
  }
  static Fields<Cluster::BusyCores> busy_fields() {
    using B = Cluster::BusyCores;
    return {
        required("slowdown", &B::slowdown, form::positive(), "Times as slow with all cores busy."),
        field("spread", &B::spread, form::not_negative(),
              "Spread of computations then (IQR/median)."),
        field("drift", &B::drift, form::not_negative(),
              "Standard deviation of ln(speed) over seconds.")};
  }
  static void check_busy(Map& map, Cluster::BusyCores& busy) {
    if (busy.slowdown < 1)
      map.require("slowdown").fail("cores are no faster for being busy", "give 1 or more");
  }
  static Fields<Cluster::RunQueue> queue_fields() {
    using Q = Cluster::RunQueue;
    const Form<int> count = form::count(1, kMostCores);
    return {
        required("ready", &Q::ready, "Of a step, by /proc/PID/schedstat.", "Linux"),
        required("step", &Q::step, "The length of that step."),
        field("ranks", &Q::ranks, count, "Ranks that shared the machine then."),
        field("threads_per_rank", &Q::threads_per_rank, count, "Threads that each computes on."),
        field("cores", &Q::cores, count, "Cores that the machine gave them.")};
  }
  static void check_queue(Map& map, Cluster::RunQueue& queue) {
    if (queue.step <= Seconds(0)) map.require("step").fail("a step takes time", "give its length");
    if (queue.ready > queue.step)
      map.require("ready").fail("a thread is ready for no longer than the step takes",
                                "give `step` or less");
  }
};

inline const ClusterKeys& of_cluster() {
  static const ClusterKeys kKeys;
  return kKeys;
}

}  // namespace rehearse::inline cluster
