#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace rehearse::inline foreign {

/// Chakra's kinds of nodes and of collectives (mlcommons/chakra, schema/protobuf/et_def.proto 1.0).
enum class ChakraType : std::uint32_t { compute = 4, send = 5, receive = 6, collective = 7 };
enum class ChakraCollective : std::int64_t {
  all_reduce = 0,
  reduce = 1,
  all_gather = 2,
  broadcast = 5,
  all_to_all = 6,
  reduce_scatter = 7,
  barrier = 9
};

/// A node of an execution trace, with the attributes that ASTRA-sim's feeder reads.
struct ChakraNode {
  std::uint64_t id = 0;
  std::string name;
  ChakraType type = ChakraType::compute;
  std::vector<std::uint64_t> control, data;  ///< ids of what it comes after
  std::uint64_t start_micros = 0, duration_micros = 0;
  bool on_host = false;                            ///< is_cpu_op
  std::int64_t collective = -1;                    ///< comm_type; -1: none
  std::int64_t bytes = 0;                          ///< comm_size
  std::int32_t source = -1, target = -1, tag = 0;  ///< of messages
  std::string group;                               ///< pg_name

  bool operator==(const ChakraNode&) const = default;
};

/// The bytes of one rank's file (.et): delimited messages of protobuf.
std::string to_chakra(const std::vector<ChakraNode>& nodes);

/// Reads such a file; what it has besides is passed over. InputError with the byte of what is
/// damaged, and of a second node with one id; `name` stands for the file.
std::vector<ChakraNode> read_chakra(std::string_view bytes, const std::string& name);

}  // namespace rehearse::inline foreign
