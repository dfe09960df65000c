#include "cluster/gpu_architecture.hpp"

#include <algorithm>

#include "base/data_folder.hpp"
#include "base/error.hpp"
#include "cluster/cluster_keys.hpp"
#include "config/fields.hpp"

namespace rehearse::inline cluster {
namespace {

std::shared_ptr<const Document> architectures() {
  return Document::load(platforms_path("architectures.yaml"));
}

Fields<NcclGeneration> generation_fields() {
  using N = NcclGeneration;
  return {silent("launch", &N::launch, "Before a collective's first step."),
          silent("step", &N::step, "A step of LL inside a node."),
          silent("ll", &N::ll, form::positive(), "Of NVLink, what LL reaches."),
          silent("ll128", &N::ll128, form::positive(), "The same of LL128."),
          silent("simple", &N::simple, form::positive(), "The same of Simple."),
          silent("nvls", &N::nvls, form::positive(), "The same where the switch adds up."),
          silent("all_to_all", &N::all_to_all, form::positive(), "The same of all_to_all."),
          silent("all_to_all_own", &N::all_to_all_own, form::within(0, 0.95),
                 "q of its rate among n ranks, which goes by 1 - q/n.")};
}

Fields<NcclBounds> bound_fields() {
  using N = NcclBounds;
  constexpr std::int64_t kMost = 1024;
  return {silent("measured", &N::measured, "Whether there are open curves of it."),
          silent("ll_cap", &N::ll_cap, "Most of LL between two nodes.", "NCCL"),
          silent("ll_cap_beyond", &N::ll_cap_beyond, "The same of more nodes.", "NCCL"),
          silent("link", &N::link, "One NVLink in one direction."),
          silent("max_channels", &N::max_channels, form::integer(1, kMost),
                 "Channels of a communicator.", "NCCL"),
          silent("channels_between", &N::channels_between, form::integer(0, kMost),
                 "Channels between nodes at least, where links allow.", "NCCL"),
          silent("nvls_channels", &N::nvls_channels, form::integer(0, kMost),
                 "Channels of NVLink SHARP; 0: its switch adds nothing up.", "NCCL"),
          silent("nvls_tree_channels", &N::nvls_tree_channels, form::integer(0, kMost),
                 "The same over nodes.", "NCCL")};
}

std::vector<Key> nccl_lines() {
  std::vector<Key> lines = keys_of(generation_fields(), ".");
  std::ranges::move(keys_of(bound_fields(), "."), std::back_inserter(lines));
  return lines_of({"nccl", type::map(), "-", "What NCCL does on it."}, lines);
}

void read_nccl(Map& map, GpuArchitecture& architecture) {
  const std::optional<Value> value = map.optional("nccl");
  if (!value) return;
  Map nccl = value->as_map();
  read_fields(nccl, generation_fields(), architecture.nccl);
  read_fields(nccl, bound_fields(), architecture.bounds);
  nccl.finish();
}

/// Its keys but `like`, which says what they are where they are missing.
Fields<GpuArchitecture> architecture_fields() {
  using A = GpuArchitecture;
  return {
      {{{"source", type::text(), "-", "Where the values are from."}},
       [](Map& map, A&) {
         if (const auto source = map.optional("source")) source->as_string();
       }},
      silent("links", &A::links,
             form::choice<GpuLinks>({{"switch", GpuLinks::switched},
                                     {"cube_mesh", GpuLinks::cube_mesh},
                                     {"full_mesh", GpuLinks::full_mesh}}),
             "How a node's GPUs are linked."),
      {nccl_lines(), read_nccl},
      silent("cublas_workspace", &A::cublas_workspace, "Of a handle of cuBLAS.", "PyTorch"),
      silent("sdpa", &A::sdpa_is_cudnn, form::choice<bool>({{"cudnn", true}, {"flash2", false}}),
             "What PyTorch's attention takes.", "PyTorch"),
      silent("cudnn_attention_faster", &A::cudnn_attention_faster, "Than FlashAttention-2."),
      silent("flash_attention_3", &A::flash_attention_3, "Whether it is written for this."),
      silent("block_formats", &A::block_formats, "It multiplies MXFP8; with `fp4` NVFP4."),
      silent("fp8_copies", &A::fp8_copies, form::integer(1, 2).in("at most 2"),
             "Copies of an FP8 weight, by rows and by columns.", "TransformerEngine"),
      silent("shares_hold_from", &A::shares_hold_from, form::positive(),
             "Least width of a product that shares of square ones hold for.")};
}

GpuArchitecture named(Map& all, const std::string& name);

/// Reads a map that may be like one of `all`: of its first `known`.
GpuArchitecture read_described(Map map, Map& all, std::size_t known) {
  GpuArchitecture read;
  if (const auto like = map.optional("like")) {
    const std::vector<std::string> names = all.keys();
    const std::string chosen = like->as_choice(names);
    if (std::ranges::find(names, chosen) - names.begin() >= static_cast<std::ptrdiff_t>(known))
      like->fail("it stands behind what is like it", "name one that stands before it");
    read = named(all, chosen);
  }
  read_fields(map, architecture_fields(), read);
  map.finish();
  return read;
}

/// It may be like those that stand before it, of which the first has every key itself.
GpuArchitecture named(Map& all, const std::string& name) {
  const std::vector<std::string> names = all.keys();
  const auto before = static_cast<std::size_t>(std::ranges::find(names, name) - names.begin());
  GpuArchitecture read = read_described(all.require(name).as_map(), all, before);
  read.name = name;
  return read;
}

}  // namespace

std::vector<Key> architecture_keys() {
  std::vector<Key> keys = keys_of(architecture_fields());
  for (Key& key : keys)
    if (key.is_field) key.fallback = "(as like)";
  keys.insert(keys.begin(), {"like", type::name_of("list architectures"), "required",
                             "Its values hold where a key is missing."});
  return keys;
}

std::shared_ptr<const GpuArchitecture> read_gpu_architecture(const Value& value) {
  const auto document = architectures();
  Map all = document->root().as_map();
  if (value.is_scalar())
    return std::make_shared<GpuArchitecture>(named(all, value.as_choice(all.keys())));
  Map map = value.as_map();
  map.require("like");
  return std::make_shared<GpuArchitecture>(read_described(std::move(map), all, all.keys().size()));
}

std::vector<std::string> architecture_kinds() { return architectures()->root().as_map().keys(); }

std::shared_ptr<const GpuArchitecture> gpu_architecture(const std::string& name) {
  const auto document = architectures();
  Map all = document->root().as_map();
  return std::make_shared<GpuArchitecture>(named(all, name));
}

const std::shared_ptr<const GpuArchitecture>& unknown_architecture() {
  static const std::shared_ptr<const GpuArchitecture> kOther = gpu_architecture("other");
  return kOther;
}

}  // namespace rehearse::inline cluster
