#include "rollout/decode_views.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <stdexcept>

#include "config/json/json_text.hpp"

namespace rehearse::inline rollout {
namespace {

constexpr double kMostSequences = 512;

double low(const DecodeTable& table) { return std::exp(table.model.engine().off.low); }
double high(const DecodeTable& table) { return std::exp(table.model.engine().off.high); }

std::string copy_of(const DecodeTable& table) {
  const Serving& serving = table.model.serving();
  const int ranks = serving.ranks();
  std::string text =
      fmt::format("{} GPU{}: TP {}", ranks, ranks == 1 ? "" : "s", serving.tensor_parallel);
  if (serving.attention_data_parallel > 1)
    text += fmt::format(" x attention DP {}", serving.attention_data_parallel);
  if (serving.expert_parallel > 1) text += fmt::format(", EP {}", serving.expert_parallel);
  return text;
}

std::string weights_of(const DecodeTable& table) {
  const ServedFormat format = table.model.serving().format;
  return table.model.takes_fp16() && format == ServedFormat::bf16 ? "fp16" : to_string(format);
}

}  // namespace

DecodeTable decode_table(std::string network, std::string cluster, const DecodeModel& model,
                         double prompt, double response, double memory,
                         const std::vector<double>& batches) {
  model.check_positions(prompt + response);
  const double share = memory > 0 ? memory : model.engine().memory;
  DecodeTable table{.network = std::move(network),
                    .cluster = std::move(cluster),
                    .model = model,
                    .prompt = prompt,
                    .response = response,
                    .memory = share,
                    .rows = {}};
  const Bytes cache = model.cache_memory(share);
  const double groups = model.serving().attention_data_parallel;
  table.places = groups * std::floor(cache / model.cache_of(prompt + response));
  if (table.places < 1)
    throw std::invalid_argument(fmt::format(
        "the weights take {} of a GPU, and {:.0f} % of its {} leave no place for a sequence of "
        "{:.0f} tokens",
        format(model.weights()), 100 * share, format(model.gpu().memory), prompt + response));
  if (!batches.empty() && std::ranges::min(batches) > table.places)
    throw std::invalid_argument(fmt::format(
        "{:.0f} sequences at a time need more than the cache of {}: it holds {:.0f} of {:.0f} "
        "tokens, and the others wait",
        std::ranges::min(batches), format(cache), table.places, prompt + response));
  std::vector<double> asked = batches;
  if (asked.empty()) {
    for (double batch = groups; batch <= std::min(table.places, kMostSequences); batch *= 2)
      asked.push_back(batch);
  }
  for (const double batch : asked)
    table.rows.push_back({.sequences = batch,
                          .steady = model.steady(batch / groups, prompt, response),
                          .fits = batch <= table.places});
  return table;
}

std::string to_table(const DecodeTable& table) {
  const Engine& engine = table.model.engine();
  const Serving& serving = table.model.serving();
  std::string text =
      fmt::format("# {} on {}, {} {}, {}, {} weights: predicted\n", table.network, table.cluster,
                  engine.title, engine.versions, copy_of(table), weights_of(table));
  text +=
      fmt::format("# prompts of {:.0f} tokens, responses of {:.0f}; a new sequence follows each\n",
                  table.prompt, table.response);
  text += fmt::format("# each GPU: weights {}, cache {} a token and {} in all\n",
                      format(table.model.weights()), format(table.model.cache_of_token()),
                      format(table.model.cache_memory(table.memory)));
  text += fmt::format(
      "# {}: {:.0f} sequences at a time at most\n",
      serving.ranks() == 1 ? "this GPU" : fmt::format("all {} GPUs together", serving.ranks()),
      table.places);
  if (table.model.takes_fp16())
    text += fmt::format("# {} has no unit for bf16: {} serves fp16 in its place (dtype: auto)\n",
                        table.model.gpu().name, engine.title);
  if (!is_measured(table.model.gpu()))
    text += fmt::format("# {}: kernels and host as on Hopper, as no rows are of its generation\n",
                        table.model.gpu().name);
  if (table.model.unpacks())
    text += fmt::format("# {} has no unit for {}: {}'s kernels unpack such weights to 16 bits\n",
                        table.model.gpu().name, to_string(serving.format), engine.title);
  text += fmt::format("#{:>9} {:>9} {:>9} {:>9} {:>11} {:>11} {:>9} {:>9} {:>9} {:>9}\n",
                      "sequences", "TPOT", "90% from", "to", "tokens/s", "tokens/s", "TTFT",
                      "products", "cache", "the rest");
  text += fmt::format("#{:>9} {:>9} {:>9} {:>9} {:>11} {:>11} {:>9} {:>9} {:>9} {:>9}\n", "",
                      "(ms)", "(ms)", "(ms)", "in all", "a GPU", "(ms)", "(ms)", "(ms)", "(ms)");
  for (const DecodeRow& row : table.rows) {
    if (!row.fits) {
      text +=
          fmt::format("{:>10.0f} the cache is too small: {:.0f} at a time, and the others wait\n",
                      row.sequences, table.places);
      continue;
    }
    const double ms = row.steady.time_per_output_token.value() * 1e3;
    const DecodeStep& step = row.steady.decode;
    const double products = (step.products + step.experts + step.head).value() * 1e3;
    const double cache = step.cache.value() * 1e3;
    text += fmt::format(
        "{:>10.0f} {:>9.2f} {:>9.2f} {:>9.2f} {:>11.1f} {:>11.1f} {:>9.1f} {:>9.2f} {:>9.2f} "
        "{:>9.2f}\n",
        row.sequences, ms, ms * low(table), ms * high(table), row.tokens_per_second(),
        row.tokens_per_second() / serving.ranks(), row.steady.time_to_first_token.value() * 1e3,
        products, cache, ms - products - cache);
  }
  return text;
}

std::string to_csv(const DecodeTable& table) {
  std::string text =
      "network,cluster,engine,format,gpus,prompt,response,sequences,tpot_s,low_s,high_s,"
      "tokens_per_s,ttft_s,fits\n";
  for (const DecodeRow& row : table.rows) {
    if (!row.fits) {
      text += fmt::format("{},{},{},{},{},{:.0f},{:.0f},{:.0f},,,,,,false\n", table.network,
                          table.cluster, table.model.engine().name,
                          to_string(table.model.serving().format), table.model.serving().ranks(),
                          table.prompt, table.response, row.sequences);
      continue;
    }
    const double time = row.steady.time_per_output_token.value();
    text += fmt::format(
        "{},{},{},{},{},{:.0f},{:.0f},{:.0f},{:.6g},{:.6g},{:.6g},{:.6g},{:.6g},{}\n",
        table.network, table.cluster, table.model.engine().name,
        to_string(table.model.serving().format), table.model.serving().ranks(), table.prompt,
        table.response, row.sequences, time, time * low(table), time * high(table),
        row.tokens_per_second(), row.steady.time_to_first_token.value(), row.fits);
  }
  return text;
}

}  // namespace rehearse::inline rollout
