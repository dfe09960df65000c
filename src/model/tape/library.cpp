#include "model/tape/library.hpp"

namespace rehearse::tape {
namespace {

CallOptions options_of(const LibraryWork& work) {
  CallOptions options;
  const auto say = [&](std::string_view name, double number) {
    if (number > 0) options.with.push_back({name, {number}});
  };
  say("flops", work.flops);
  say("moved", work.moved.value());
  say("launches", work.launches);
  say("occupied", work.occupied.value());
  say("steps", work.steps);
  say("step", work.step.value());
  say("blocks", work.blocks);
  return options;
}

}  // namespace

Tensor call_library(Recorder& r, LibraryCall call) {
  struct Side {
    Sizes sizes;
    Type type = Type::float32;
    bool needed = false;
  };
  std::vector<Side> sides;
  std::vector<const Tensor*> reads;
  for (const Tensor& input : call.inputs) {
    sides.push_back({input.sizes, input.type, input.needs_gradient()});
    reads.push_back(&input);
  }
  for (const LibraryWork& work : call.forward)
    r.record(work.op.empty() ? call.op : work.op, std::span<const Tensor* const>(reads),
             {&call.output}, options_of(work));
  Tensors kept;
  for (const Tensor& one : call.saved) kept.push_back(one.detached());
  r.connect(call.output, call.inputs,
            [&r, op = call.op, all = call.backward, scratch = call.scratch, sides,
             kept](const Gradients& gradients) -> Gradients {
              const Tensor inside = scratch > 0 ? r.workspace(scratch, Type::float32) : undefined();
              Gradients results;
              for (const Side& side : sides)
                results.push_back(side.needed ? r.take(side.sizes, side.type) : undefined());
              std::vector<const Tensor*> read = {&gradients[0]}, written;
              for (const Tensor& one : kept) read.push_back(&one);
              for (const Tensor& one : results) written.push_back(&one);
              for (const LibraryWork& work : all)
                r.record(work.op.empty() ? op : work.op, std::span<const Tensor* const>(read),
                         std::span<const Tensor* const>(written), options_of(work));
              return results;
            });
  return call.output;
}

}  // namespace rehearse::tape
