// Protobuf's wire format by hand: a varint, a fixed width, or a length and bytes behind each tag.
#include "foreign/traces/chakra.hpp"

#include <fmt/format.h>

#include <limits>
#include <optional>
#include <unordered_set>

#include "base/error.hpp"

namespace rehearse::inline foreign {
namespace {

constexpr std::uint32_t kVarint = 0, kFixed64 = 1, kBytes = 2, kFixed32 = 5;
constexpr std::size_t kMostNodes = 4'000'000;
// Fields of Node, and of AttributeProto by the type of its value.
constexpr std::uint32_t kId = 1, kName = 2, kType = 3, kControl = 4, kData = 5, kStart = 6,
                        kDuration = 7, kAttribute = 10;
constexpr std::uint32_t kInt32 = 7, kInt64 = 9, kUint64 = 13, kBool = 27, kString = 29;

class Encoder {
 public:
  void varint(std::uint64_t value) {
    for (; value >= 0x80; value >>= 7) bytes_ += static_cast<char>(value | 0x80);
    bytes_ += static_cast<char>(value);
  }
  void number(std::uint32_t field, std::uint64_t value) {
    varint(std::uint64_t{field} << 3 | kVarint);
    varint(value);
  }
  void text(std::uint32_t field, std::string_view value) {
    varint(std::uint64_t{field} << 3 | kBytes);
    varint(value.size());
    bytes_ += value;
  }
  void attribute(const char* name, std::uint32_t field, std::uint64_t value) {
    Encoder inner;
    inner.text(kId, name);  // name is field 1 of it
    inner.number(field, value);
    text(kAttribute, inner.bytes_);
  }
  void attribute(const char* name, std::string_view value) {
    Encoder inner;
    inner.text(kId, name);
    inner.text(kString, value);
    text(kAttribute, inner.bytes_);
  }
  void message(const Encoder& inner) {
    varint(inner.bytes_.size());
    bytes_ += inner.bytes_;
  }
  const std::string& bytes() const { return bytes_; }

 private:
  std::string bytes_;
};

Encoder encoded(const ChakraNode& node) {
  Encoder made;
  made.number(kId, node.id);
  made.text(kName, node.name);
  made.number(kType, static_cast<std::uint64_t>(node.type));
  const auto ids = [&](std::uint32_t field, const std::vector<std::uint64_t>& list) {
    if (list.empty()) return;
    Encoder packed;
    for (const std::uint64_t id : list) packed.varint(id);
    made.text(field, packed.bytes());
  };
  ids(kControl, node.control);
  ids(kData, node.data);
  if (node.start_micros > 0) made.number(kStart, node.start_micros);
  if (node.duration_micros > 0) made.number(kDuration, node.duration_micros);
  made.attribute("is_cpu_op", kBool, node.on_host ? 1 : 0);
  if (node.type == ChakraType::compute) {
    made.attribute("num_ops", kInt64, 0);
    made.attribute("tensor_size", kUint64, 0);
    return made;
  }
  made.attribute("comm_size", kInt64, static_cast<std::uint64_t>(node.bytes));
  if (node.collective >= 0)
    made.attribute("comm_type", kInt64, static_cast<std::uint64_t>(node.collective));
  if (node.source >= 0) made.attribute("comm_src", kInt32, static_cast<std::uint64_t>(node.source));
  if (node.target >= 0) made.attribute("comm_dst", kInt32, static_cast<std::uint64_t>(node.target));
  if (node.type != ChakraType::collective)
    made.attribute("comm_tag", kInt32, static_cast<std::uint64_t>(node.tag));
  if (!node.group.empty()) made.attribute("pg_name", node.group);
  return made;
}

/// A field's value, which stands behind its tag.
struct Field {
  std::uint32_t number = 0, wire = 0;
  std::uint64_t value = 0;
  std::string_view text;
};

class Decoder {
 public:
  Decoder(std::string_view bytes, std::size_t begin, const std::string& name)
      : bytes_(bytes), begin_(begin), name_(name) {}

  bool at_end() const { return at_ >= bytes_.size(); }
  std::size_t place() const { return begin_ + at_; }

  std::uint64_t varint() {
    std::uint64_t value = 0;
    for (unsigned shift = 0; shift < 64; shift += 7) {
      if (at_end()) fail("the file ends within a number");
      const auto byte = static_cast<unsigned char>(bytes_[at_++]);
      value |= std::uint64_t{byte & 0x7fU} << shift;
      if (byte < 0x80) return value;
    }
    fail("a number of more than 64 bits");
  }
  std::string_view take(std::uint64_t length) {
    if (length > bytes_.size() - at_)
      fail(fmt::format("the file ends within a message of {} bytes", length));
    const std::string_view taken = bytes_.substr(at_, length);
    at_ += length;
    return taken;
  }
  Field field() {
    const std::uint64_t tag = varint();
    Field made;
    made.number = static_cast<std::uint32_t>(tag >> 3);
    made.wire = static_cast<std::uint32_t>(tag & 7);
    if (made.wire == kVarint)
      made.value = varint();
    else if (made.wire == kBytes)
      made.text = take(varint());
    else if (made.wire == kFixed64 || made.wire == kFixed32)
      take(made.wire == kFixed64 ? 8 : 4);
    else
      fail("no field of protobuf");
    return made;
  }
  [[noreturn]] void fail(const std::string& message) const {
    throw InputError(fmt::format("{}: error: byte {}: {}: this is no Chakra execution trace", name_,
                                 place(), message));
  }

 private:
  std::string_view bytes_;
  std::size_t begin_, at_ = 0;
  const std::string& name_;
};

void read_attribute(Decoder inner, ChakraNode& node) {
  std::string_view name, text;
  std::uint64_t value = 0;
  while (!inner.at_end()) {
    const Field field = inner.field();
    if (field.number == kId && field.wire == kBytes)
      name = field.text;
    else if (field.wire == kBytes)
      text = field.text;
    else
      value = field.value;
  }
  if (name == "is_cpu_op") node.on_host = value != 0;
  if (name == "comm_type") node.collective = static_cast<std::int64_t>(value);
  if (name == "comm_size") node.bytes = static_cast<std::int64_t>(value);
  if (name == "comm_src") node.source = static_cast<std::int32_t>(value);
  if (name == "comm_dst") node.target = static_cast<std::int32_t>(value);
  if (name == "comm_tag") node.tag = static_cast<std::int32_t>(value);
  if (name == "pg_name") node.group = std::string(text);
}

ChakraNode read_node(Decoder inner, std::size_t begin, const std::string& name) {
  ChakraNode node;
  const auto ids = [&](const Field& field, std::vector<std::uint64_t>& to) {
    if (field.wire == kVarint) return to.push_back(field.value);
    Decoder packed(field.text, begin, name);
    while (!packed.at_end()) to.push_back(packed.varint());
  };
  while (!inner.at_end()) {
    const Field field = inner.field();
    switch (field.number) {
      case kId:
        node.id = field.value;
        break;
      case kName:
        node.name = std::string(field.text);
        break;
      case kType:
        node.type = static_cast<ChakraType>(field.value);
        break;
      case kControl:
        ids(field, node.control);
        break;
      case kData:
        ids(field, node.data);
        break;
      case kStart:
        node.start_micros = field.value;
        break;
      case kDuration:
        node.duration_micros = field.value;
        break;
      case kAttribute:
        read_attribute(Decoder(field.text, begin, name), node);
        break;
      default:
        break;
    }
  }
  return node;
}

}  // namespace

std::string to_chakra(const std::vector<ChakraNode>& nodes) {
  Encoder file, metadata;
  metadata.text(1, "1.0");
  file.message(metadata);
  for (const ChakraNode& node : nodes) file.message(encoded(node));
  return file.bytes();
}

std::vector<ChakraNode> read_chakra(std::string_view bytes, const std::string& name) {
  Decoder file(bytes, 0, name);
  if (file.at_end()) file.fail("the file is empty");
  file.take(file.varint());  // GlobalMetadata
  std::vector<ChakraNode> nodes;
  std::unordered_set<std::uint64_t> ids;
  while (!file.at_end()) {
    if (nodes.size() >= kMostNodes) file.fail(fmt::format("more than {} nodes", kMostNodes));
    const std::uint64_t length = file.varint();
    const std::size_t begin = file.place();
    const std::string_view message = file.take(length);
    nodes.push_back(read_node(Decoder(message, begin, name), begin, name));
    if (!ids.insert(nodes.back().id).second)
      throw InputError(fmt::format("{}: error: byte {}: two nodes have the id {}", name, begin,
                                   nodes.back().id));
  }
  return nodes;
}

}  // namespace rehearse::inline foreign
