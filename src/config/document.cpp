#include "config/document.hpp"

#include <map>

#include "base/error.hpp"
#include "config/document_node.hpp"
#include "config/files_read.hpp"
#include "config/foreign_file.hpp"

namespace rehearse::inline config {

namespace {

DocumentNode parse_root(const std::string& text, const std::string& name,
                        const std::filesystem::path& folder) {
  auto root = parse_tree(make_text_source(text, name, folder));
  const bool nothing = !root || root->kind == DocumentNode::Kind::null;
  if (nothing) throw InputError(name + ": error: the file is empty");
  return std::move(*root);
}

/// Trees of files that were loaded, beside their texts: a platform's files are read for every
/// scenario that names them, and a copy of a tree takes a small part of what parsing takes.
struct Parsed {
  std::string text;
  std::shared_ptr<const Document> document;
};
constexpr std::size_t kMostParsed = 64;
thread_local std::map<std::string, Parsed> parsed_files;

}  // namespace

Document::Document() = default;
Document::~Document() = default;

std::shared_ptr<const Document> Document::load(const std::filesystem::path& file) {
  const std::string name = file.string();
  const std::string text = read_input(file, kMaxTextBytes);
  const auto known = parsed_files.find(name);
  if (known != parsed_files.end() && known->second.text == text)
    return known->second.document->with_overrides({});
  refuse_foreign_file(text, name);
  const auto document = parse(text, name);
  if (parsed_files.size() >= kMostParsed) parsed_files.clear();
  parsed_files[name] = {text, document};
  return document->with_overrides({});
}

std::shared_ptr<const Document> Document::load_foreign(const std::filesystem::path& file) {
  return parse(read_input(file, kMaxTextBytes), file.string());
}

std::shared_ptr<const Document> Document::parse(const std::string& text, const std::string& name) {
  const std::shared_ptr<Document> document(new Document);
  document->name_ = name;
  document->root_ = std::make_unique<DocumentNode>(
      parse_root(text, name, std::filesystem::path(name).parent_path()));
  return document;
}

std::shared_ptr<const Document> Document::of(const Map& map) {
  const std::shared_ptr<Document> document(new Document);
  document->name_ = map.where().file();
  document->root_ = std::make_unique<DocumentNode>(*map.where().node_);
  return document;
}

std::shared_ptr<const Document> Document::with_overrides(
    const std::vector<std::string>& assignments) const {
  const std::shared_ptr<Document> document(new Document);
  document->name_ = name_;
  document->root_ = std::make_unique<DocumentNode>(*root_);
  for (const std::string& assignment : assignments) assign(*document->root_, assignment);
  return document;
}

std::shared_ptr<const Document> Document::with_values(
    const std::vector<Substitution>& substitutions) const {
  const auto document = with_overrides({});
  for (const Substitution& one : substitutions) {
    substitute(*document->root_, one.path.node_->place, one.path.node_->text, *one.value.node_);
  }
  return document;
}

const DocumentNode* Document::stand_in(const DocumentNode& at) const {
  DocumentNode& node = *stand_ins_.emplace_back(std::make_unique<DocumentNode>());
  node.kind = DocumentNode::Kind::stand_in;
  node.place = at.place;
  return &node;
}

Value Document::root() const { return Value(shared_from_this(), root_.get(), ""); }

}  // namespace rehearse::inline config
