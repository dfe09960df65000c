// What a worker and its servers send each other: parameters that it pulls, and what it pushes.
#include <utility>

#include "strategy/outer/outer_step.hpp"
#include "strategy/sync/server_messages.hpp"

namespace rehearse::inline strategy {
namespace {

/// In a server's queue, where it answers a pull before it takes in what others push
/// (ParameterServer::Protocol::behind_push).
constexpr std::uint32_t kApply = 0, kAnswer = 1, kTakeIn = 2;

Compute handling(Bytes size, BytesPerSecond rate, Seconds messages = Seconds(0)) {
  return {.duration = size / rate + messages, .jittered = false};
}

}  // namespace

ServerMessages::ServerMessages(const ParameterServer& options, const ServerSide& side,
                               const WorkerPart& part, ProgramBuilder& builder)
    : options_(options),
      parts_(side.parts),
      servers_(side.servers),
      clock_(side.clock),
      part_(part),
      builder_(builder),
      reads_(side.parts.size()) {
  if (part_.shares) node_lane_ = builder.lane("node", LaneKind::communication);
  for (std::size_t s = 0; part_.exchanges && !part_.queues && s < servers_.size(); ++s) {
    const std::string suffix = servers_.size() > 1 ? " " + std::to_string(s) : "";
    pull_lanes_.push_back(builder.lane("pull" + suffix, LaneKind::communication));
    push_lanes_.push_back(builder.lane("push" + suffix, LaneKind::communication));
  }
}

/// Each tensor is a message of its own, and goes to one of the servers that a unit is spread over;
/// a slice is one, too.
Seconds ServerMessages::messages(std::size_t p) const {
  if (!options_.per_message) return Seconds(0);
  const std::vector<Unit>& units = builder_.job().model.units;
  double tensors = 0, parts = 0;
  for (std::size_t unit = parts_[p].first; unit <= parts_[p].last; ++unit)
    tensors += static_cast<double>(units[unit].tensors.size());
  for (const Part& part : parts_) parts += part.first == parts_[p].first ? 1 : 0;
  const double each = tensors / parts / options_.stands_for;
  return (options_.slice ? std::max(1.0, each) : each) * *options_.per_message;
}

Bytes ServerMessages::pushed_bytes(std::size_t p) const {
  const Bytes element = parameter_element(builder_.job().precision);
  return parts_[p].size * (wire_element(options_.compression, element) / element);
}

/// The operation that leaves a part's parameters on this GPU.
OpId ServerMessages::receive(std::size_t p) {
  std::vector<After> pulled;
  if (part_.exchanges) pulled = {{pull(p)}};
  if (!part_.shares) return pulled.front().op;
  return builder_.collective(
      node_lane_, parts_[p].name,
      {.kind = CollectiveKind::all_gather, .group = 0, .size = parts_[p].size}, std::move(pulled));
}

/// Passes a part's gradients on.
void ServerMessages::send(std::size_t p, OpId computed) {
  if (part_.shares)
    computed = builder_.collective(
        node_lane_, parts_[p].name,
        {.kind = CollectiveKind::reduce_scatter, .group = 0, .size = parts_[p].size}, {{computed}});
  if (part_.exchanges) push(p, computed);
  give_gradients(p);
  if (part_.exchanges) apply(p);
}

OpId ServerMessages::pull(std::size_t p) {
  const Part& part = parts_[p];
  const Server& server = servers_[part.server];
  Op read{.role = part_.counts ? UpdateRole::read_parameters : UpdateRole::none};
  if (clock_.synchronous) read.awaits.push_back({clock_.updated[p], 1});
  if (clock_.applied) read.awaits.push_back({*clock_.applied, *options_.staleness + 1});
  if (!clock_.warmed.empty())
    read.awaits.push_back(
        {clock_.warmed[p], 1, static_cast<std::uint32_t>(options_.warmup_rounds)});
  Op transfer{
      .verb = Verb::pull,
      .of = part.name,
      .moves = part.size,
      .phase = Phase::communication,
      .work = Transfer{.source = server.rank, .target = {}, .size = part.size * server.crosses}};
  if (server.message_rate) {
    read.verb = Verb::serve;
    read.of = part.name;
    read.phase = Phase::server;
    read.queue = server.queue;
    read.priority = kAnswer;
    read.work = handling(part.size, *server.message_rate, messages(p));
    builder_.add(std::move(read));
    transfer.after = {{builder_.last()}};
  } else {
    transfer.awaits = std::move(read.awaits);
    transfer.role = read.role;
  }
  add_message(p, Way::pull, std::move(transfer));
  reads_[p] = server.message_rate ? OpId(builder_.last().index() - 1) : builder_.last();
  if (options_.worker_cpu_rate) handle(Way::pull, p, builder_.last());
  return builder_.last();
}

void ServerMessages::push(std::size_t p, OpId computed) {
  const Part& part = parts_[p];
  const Server& server = servers_[part.server];
  const Bytes size = pushed_bytes(p);
  if (options_.worker_cpu_rate) computed = handle(Way::push, p, computed);
  add_message(p, Way::push,
              {.verb = Verb::push,
               .of = part.name,
               .moves = size,
               .phase = Phase::communication,
               .work = Transfer{.source = {}, .target = server.rank, .size = size * server.crosses},
               .after = {{computed}}});
  last_push_ = builder_.last();
}

/// What the server does with the part that was pushed last.
void ServerMessages::apply(std::size_t p) {
  const Part& part = parts_[p];
  const Server& server = servers_[part.server];
  if (server.message_rate)
    builder_.add({.verb = Verb::take_in,
                  .of = part.name,
                  .phase = Phase::server,
                  .queue = server.queue,
                  .priority = kTakeIn,
                  .work = handling(pushed_bytes(p), *server.message_rate, messages(p)),
                  .after = {{builder_.last()}}});
  Op apply{.verb = Verb::apply,
           .of = part.name,
           .phase = Phase::server,
           .queue = server.queue,
           .priority = kApply,
           .work = handling(part.size, server.apply_rate),
           .after = {{builder_.last()}}};
  if (part_.counts)
    apply.role = clock_.synchronous ? UpdateRole::gather_gradient : UpdateRole::apply_update;
  if (clock_.synchronous) apply.signals = {clock_.gathered[p]};
  if (clock_.applied) apply.signals = {*clock_.applied};
  if (!clock_.warmed.empty()) apply.signals.push_back(clock_.warmed[p]);
  builder_.add(std::move(apply));
  // Requests of one worker are served in order: its next pull follows its own gradients.
  builder_[reads_[p]].after.push_back({builder_.last(), 1});
}

/// One at a time of each server's and each way's: in program order, or the most urgent.
void ServerMessages::add_message(std::size_t p, Way way, Op op) {
  const std::size_t server = parts_[p].server;
  if (part_.queues) {
    op.queue = QueueId(part_.queues->index() + 2 * server + (way == Way::push ? 1 : 0));
    op.priority = static_cast<std::uint32_t>(p);  // parts are in the order of forward
  } else {
    op.lane = way == Way::push ? push_lanes_[server] : pull_lanes_[server];
  }
  builder_.add(std::move(op));
}

/// The worker's CPU beside a message.
OpId ServerMessages::handle(Way way, std::size_t p, OpId after) {
  add_message(p, way,
              {.verb = way == Way::push ? Verb::pack : Verb::unpack,
               .of = parts_[p].name,
               .phase = Phase::host,
               .work = handling(way == Way::push ? pushed_bytes(p) : parts_[p].size,
                                *options_.worker_cpu_rate * options_.stands_for, messages(p)),
               .after = {{after}}});
  return builder_.last();
}

/// The last part of a unit's gradients that is pushed takes them with it.
void ServerMessages::give_gradients(std::size_t p) {
  if (!builder_.job().set_to_none) return;
  for (std::size_t unit = parts_[p].first; unit <= parts_[p].last; ++unit) {
    if (p + 1 < parts_.size() && parts_[p + 1].first == parts_[p].first) continue;
    for (const TensorId id : builder_.tapes().gradients(unit)) builder_.give(builder_.last(), id);
  }
}

}  // namespace rehearse::inline strategy
