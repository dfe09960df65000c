#pragma once

#include "config/key_list.hpp"
#include "strategy/layout/layout_options.hpp"
#include "strategy/read_kinds.hpp"

namespace rehearse::inline strategy {

/// Keys of `strategy.context_parallel`, which may be a number alone.
struct ContextKeys : KeyList {
  KeyOf<int> degree = add("degree", form::count(1, kMostRanks), "required", "The same.");
  KeyOf<ContextMethod> method =
      add("method", form::named<ContextMethod>(context_method_names()),
          "(the framework's: ring of most)", "How attention reaches the other ranks' tokens.");
};

/// Keys of `strategy.experts`.
struct ExpertKeys : KeyList {
  KeyOf<ExpertDispatch> dispatch =
      add("dispatch", form::named<ExpertDispatch>(expert_dispatch_names()), "all_to_all",
          "Straight; inside nodes, then between them; once to each node (DeepEP, HybridEP); all to "
          "all ranks; none: all have the tokens.");
  KeyOf<bool> overlap =
      add<bool>("overlap", "false", "Shared experts compute beside dispatch and combine.");
  KeyOf<bool> overlap_moe_expert_parallel_comm = add<bool>(
      "overlap_moe_expert_parallel_comm", "(dual_pipe_v: true)",
      "One micro-batch computes beside another's dispatch and combine; with ddp and zero.");
  KeyOf<int> node_limit =
      add("node_limit", form::count(1, kMostRanks), "-",
          "Nodes that a token goes to at most, with deepep or hybridep.", "DeepSeek-V3");
  KeyOf<int> num_sms = add("num_sms", form::count(1, 1024), "20",
                           "Multiprocessors that their kernels take from compute beside them.",
                           "DeepEP: Buffer.num_sms");
  KeyOf<bool> fake_balanced_gate = add<bool>(
      "fake_balanced_gate", "false",
      "Token i has the k experts behind i k: balanced, and a token's experts are neighbours.",
      "NeMo AutoModel; torchtitan");
  KeyOf<Value> imbalance = add(
      "imbalance",
      form::as_it_stands(
          type::above(0) | type::choice({"natural"}) | type::map(),
          {{".histogram", type::text(), "required",
            "File of tokens per expert: a row for each layer with experts, or one for all."}}),
      "1",
      "Tokens of the fullest rank over the mean; all wait for it. `natural`: as routers choose.");
};

/// Keys of `strategy.pipeline`.
struct PipelineKeys : KeyList {
  KeyOf<Value> schedule =
      add("schedule", form::as_it_stands(type::choice(pipeline_schedule_names()) | type::text()),
          "1f1b", "Order of the micro-batches; a FILE.csv as PyTorch writes it.");
  KeyOf<PipelineSchedule> named_schedule{"schedule",
                                         form::named<PipelineSchedule>(pipeline_schedule_names())};
  KeyOf<int> virtual_stages =
      add("virtual_stages", form::count(1, kMostStages),
          "(1; of interleaved_1f1b, zbv and dual_pipe_v 2)", "Parts of the model on each rank.");
  KeyOf<int> gradient_accumulation =
      add("gradient_accumulation", form::count(1, kMostMicroBatches), "1",
          "Rounds of the schedule in a step, between which the pipeline drains.", "NeMo AutoModel");
  KeyOf<Value> split = add(
      "split",
      form::as_it_stands(
          type::choice({"even", "auto"}) | type::map() | type::list_of(type::integer(0)),
          {{".auto", type::choice({"time", "memory"}), "required",
            "What is balanced, on each stage's own GPUs.", "Rehearse"}}),
      "even", "Layers of each stage: as many each, as balances their time, or given.", "Rehearse");
};

/// Keys that stand beside the kind of data parallelism.
struct LayoutKeys : KeyList {
  ContextKeys context;
  ExpertKeys expert;
  PipelineKeys stages;

  KeyOf<int> tensor_parallel = degree("tensor_parallel", "Ranks that share each layer.");
  KeyOf<int> pipeline_parallel =
      degree("pipeline_parallel", "Ranks that share the layers in turn.");
  KeyOf<bool> sequence_parallel = add<bool>("sequence_parallel", "false or true",
                                            "Norms and sums on 1/tensor_parallel of the tokens.");
  KeyOf<bool> gather_logits = add<bool>(
      "gather_logits", "(true of torch, else false)",
      "Tensor ranks gather the logits, and each computes the whole loss; false: of its part.");
  KeyOf<bool> tp_comm_overlap =
      add<bool>("tp_comm_overlap", "false",
                "With sequence_parallel: tensor ranks exchange beside their products.");
  KeyOf<bool> enable_async_tensor_parallel =
      add<bool>("enable_async_tensor_parallel", "false",
                "The same of torch and torchtitan, whose model is compiled.", "torchtitan");
  KeyOf<bool> async_tensor_model_parallel_allreduce = add<bool>(
      "async_tensor_model_parallel_allreduce", "(true; false of torch and torchtitan)",
      "Backward's exchanges of tensor ranks run beside products of weights; false: it waits.");
  KeyOf<bool> avoid_record_streams = add<bool>(
      "avoid_record_streams", "(true; false of Megatron-LM before core_v0.13.0)",
      "What collectives of tensor ranks read is kept until they are waited for; false: it is "
      "recorded on their stream, and reused later.",
      "PyTorch: TORCH_NCCL_AVOID_RECORD_STREAMS");
  KeyOf<Value> context_parallel =
      add("context_parallel", form::as_it_stands(type::integer(1) | type::map(), context.below()),
          "1", "Ranks that share each sequence.");
  KeyOf<int> context_degree{"context_parallel", form::count(1, kMostRanks)};
  KeyOf<int> embedding_parallel =
      degree("embedding_parallel", "Ranks that share the embedding tables of a captured network.",
             "torchrec");
  KeyOf<int> expert_parallel =
      degree("expert_parallel",
             "Ranks of a stage that share the experts: of its data, context and tensor ranks.");
  KeyOf<int> expert_tensor_parallel =
      add("expert_tensor_parallel", form::count(1, kMostRanks),
          "(tensor_parallel; 1 of torchtitan)", "Ranks that share one expert's products.");
  KeyOf<Value> experts = add("experts", form::as_it_stands(type::map(), expert.below()), "-",
                             "How tokens reach the ranks of their experts.");
  KeyOf<Value> pipeline =
      add("pipeline", form::as_it_stands(type::map()), "-", "How stages take turns.");
  KeyOf<int> micro_batches =
      add("micro_batches", form::count(1, kMostMicroBatches), "(the stages)",
          "Of a step, of a replica of the model; `model.batch_per_gpu` is one's samples.");
  KeyOf<int> micro_batch_size =
      add("micro_batch_size", form::count(1, kMostRanks).in("samples"), "-",
          "Or: `model.batch_per_gpu` is a replica's step, in parts of this size.");
  KeyOf<std::string> order = add<std::string>("order", "tp-cp-ep-dp-pp",
                                              "How ranks are numbered: the first axis is fastest.");

 private:
  KeyOf<int> degree(const char* name, const char* meaning, const char* source = "") {
    return add(name, form::count(1, kMostRanks), "1", meaning, source);
  }
};

inline const LayoutKeys& of_layout() {
  static const LayoutKeys kKeys;
  return kKeys;
}

/// It returns what a key says, or `usual`, which is noted as an assumption where `states`.
template <class T>
T value_or(Map& map, const KeyOf<T>& entry, const T& usual, bool states) {
  return states ? entry.in(map, usual) : entry.in(map).value_or(usual);
}

}  // namespace rehearse::inline strategy
