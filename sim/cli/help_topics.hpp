#pragma once

#include <array>

namespace rehearse::inline cli {

/// A page of `rehearse help`.
struct Topic {
  const char *name, *text;
};

/// Topics that tell what is known of a training's loss, and on what it stands.
inline constexpr std::array kLossTopics = {
    Topic{
        "loss",
        "A time alone compares nothing: a larger batch, local steps, stale gradients and narrow\n"
        "formats train less per token. Absolute loss belongs to data and tokenizer; what a method\n"
        "costs beside plain synchronous training carries over.\n"
        "  --like data-parallel:20B       run, plan, sweep, compare: each as long as it takes to\n"
        "                                 the loss of plain training on 20B tokens\n"
        "  train: {to: {accuracy: 0.759}} as long as reference points or your runs say\n"
        "  forecast --loss runs.csv       absolute loss, from four runs of your own or more\n"
        "  forecast CURVE...              accuracy under staleness, from curves of your own\n"
        "Laws and sources: platforms/convergence. Guide: scenarios/guide/loss.md.\n"},
    Topic{
        "diloco",
        "DiLoCo: M replicas take H steps of their own, then an outer optimizer steps by the mean\n"
        "of how far they came (strategy: {local_sgd: {period: H, outer_optimizer: ...}}). At "
        "equal\n"
        "loss it takes more tokens: the more, the more replicas, the longer H and the smaller the\n"
        "network. Known for 15M to 20B parameters, M to 16, H to 100, Adam, i.i.d. shards. Rates\n"
        "that nobody tuned for it cost up to four times the gap: train.like.rates: tuned says\n"
        "otherwise. Plain averages without an outer optimizer are refused.\n"},
    Topic{
        "batch size",
        "Samples to a target grow with the batch: E (1 + B / B_c). E and B_c come from reference\n"
        "points (train: {to: {accuracy: ...}}) or from two runs of your own (train.to.runs). More\n"
        "than twice beyond the batches seen is refused. See `critical batch`.\n"},
    Topic{"critical batch",
          "B_c, at which twice the samples are needed. Of language models the batch at which 20 %\n"
          "more tokens are needed grows with the tokens of the training, as their power 0.47, and\n"
          "hardly with the size (arXiv 2410.21676). It is known within three times either way.\n"},
    Topic{
        "staleness",
        "Updates that were applied between the pull that a gradient came from and its own\n"
        "application. Of small networks `rehearse forecast` says what it costs, from your curves.\n"
        "It hurts early, while the rate is high: some synchronous steps first save most of it. Of\n"
        "language models one update late is known (arXiv 2006.09503), and more is refused.\n"}};

}  // namespace rehearse::inline cli
