#include <map>

#include "memory/replay.hpp"
#include "view/pickle.hpp"
#include "view/views.hpp"

namespace rehearse::inline view {
namespace {

/// What caused an entry of the history, as stack frames.
struct Cause {
  std::size_t op = MemoryReplay::kSetup;
  TensorId tensor{};
};

const char* name_of(AllocatorEvent::Action action) {
  switch (action) {
    case AllocatorEvent::Action::alloc:
      return "alloc";
    case AllocatorEvent::Action::free_requested:
      return "free_requested";
    case AllocatorEvent::Action::free_completed:
      return "free_completed";
    case AllocatorEvent::Action::segment_alloc:
      return "segment_alloc";
    case AllocatorEvent::Action::segment_free:
      return "segment_free";
    case AllocatorEvent::Action::segment_map:
      return "segment_map";
    case AllocatorEvent::Action::segment_unmap:
      return "segment_unmap";
    case AllocatorEvent::Action::oom:
      return "oom";
  }
  return "?";
}

class SnapshotWriter {
 public:
  SnapshotWriter(const Program& program, const MemoryDevice& device)
      : program_(program),
        replay_(
            program, device,
            [this](std::size_t op, const TensorEvent& event) {
              explain({op, event.tensor});
            },
            &history_) {
    const auto observe = [this](std::size_t op, const TensorEvent& event) {
      explain({op, event.tensor});
    };
    for (int iteration = 0; iteration < 2; ++iteration) replay_.iterate(observe);
    explain({});  // what a request that failed has left
  }

  std::string write() {
    pickle_.begin_dict();
    pickle_.add("segments");
    write_segments();
    pickle_.add("device_traces");
    pickle_.begin_list();
    pickle_.begin_list();
    for (std::size_t i = 0; i < history_.size(); ++i) write_event(history_[i], causes_[i]);
    pickle_.end_list();
    pickle_.end_list();
    pickle_.end_dict();
    return pickle_.finish();
  }

 private:
  void explain(const Cause& cause) {
    causes_.resize(history_.size(), cause);
    if (cause.op != MemoryReplay::kSetup) last_op_[cause.tensor] = cause.op;
  }
  void write_frames(const Cause* cause);
  void write_event(const AllocatorEvent& event, const Cause& cause);
  void write_segments();
  void write_block(const SegmentView::Block& block,
                   const std::map<std::int64_t, TensorId>& by_address);

  const Program& program_;
  std::vector<AllocatorEvent> history_;
  std::vector<Cause> causes_;  ///< as history_
  std::map<TensorId, std::size_t> last_op_;
  MemoryReplay replay_;
  Pickle pickle_;
};

void SnapshotWriter::write_frames(const Cause* cause) {
  const auto frame = [&](const std::string& name, const std::string& file) {
    pickle_.begin_dict();
    pickle_.entry("name", name);
    pickle_.entry("filename", file);
    pickle_.entry("line", std::int64_t{0});
    pickle_.end_dict();
  };
  pickle_.add("frames");
  pickle_.begin_list();
  if (cause != nullptr) {
    const Tensor& tensor = program_.tensors[cause->tensor.index()];
    frame(to_string(tensor.kind), program_.owners[tensor.owner]);
    frame(cause->op == MemoryReplay::kSetup ? "setup" : program_.ops[cause->op].label(),
          program_.name);
  }
  pickle_.end_list();
}

void SnapshotWriter::write_event(const AllocatorEvent& event, const Cause& cause) {
  const bool oom = event.action == AllocatorEvent::Action::oom;
  pickle_.begin_dict();
  pickle_.entry("action", name_of(event.action));
  pickle_.entry(oom ? "device_free" : "addr", event.address);
  pickle_.entry("size", event.size);
  pickle_.entry("stream", std::int64_t{event.stream});
  write_frames(&cause);
  pickle_.end_dict();
}

void SnapshotWriter::write_segments() {
  std::map<std::int64_t, TensorId> by_address;
  for (const auto& [id, size] : replay_.held()) by_address[replay_.address_of(id)] = id;
  pickle_.begin_list();
  for (const SegmentView& segment : replay_.allocator().segments()) {
    std::int64_t allocated = 0, active = 0, requested = 0;
    for (const SegmentView::Block& block : segment.blocks) {
      allocated += block.allocated ? block.size : 0;
      active += block.active ? block.size : 0;
      requested += block.active ? block.requested : 0;
    }
    pickle_.begin_dict();
    pickle_.entry("device", std::int64_t{0});
    pickle_.entry("address", segment.address);
    pickle_.entry("total_size", segment.size);
    pickle_.entry("allocated_size", allocated);
    pickle_.entry("active_size", active);
    pickle_.entry("requested_size", requested);
    pickle_.entry("stream", std::int64_t{segment.stream});
    pickle_.entry("segment_type", segment.large ? "large" : "small");
    pickle_.entry("is_expandable", segment.expandable);
    write_frames(nullptr);
    pickle_.add("blocks");
    pickle_.begin_list();
    for (const SegmentView::Block& block : segment.blocks) write_block(block, by_address);
    pickle_.end_list();
    pickle_.end_dict();
  }
  pickle_.end_list();
}

void SnapshotWriter::write_block(const SegmentView::Block& block,
                                 const std::map<std::int64_t, TensorId>& by_address) {
  pickle_.begin_dict();
  pickle_.entry("address", block.address);
  pickle_.entry("size", block.size);
  pickle_.entry("requested_size", block.requested);
  pickle_.entry("state", block.allocated ? "active_allocated"
                         : block.active  ? "active_pending_free"
                                         : "inactive");
  const auto held = by_address.find(block.address);
  if (held == by_address.end() || !block.allocated) {
    write_frames(nullptr);
  } else {
    const auto op = last_op_.find(held->second);
    const Cause cause{op == last_op_.end() ? MemoryReplay::kSetup : op->second, held->second};
    write_frames(&cause);
  }
  pickle_.end_dict();
}

}  // namespace

std::string memory_snapshot(const Program& program, const MemoryDevice& device) {
  return SnapshotWriter(program, device).write();
}

}  // namespace rehearse::inline view
