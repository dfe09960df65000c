#include "study/result_store.hpp"

#include <SQLiteCpp/Exception.h>
#include <SQLiteCpp/Statement.h>
#include <SQLiteCpp/Transaction.h>
#include <fmt/format.h>
#include <sqlite3.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <fstream>
#include <initializer_list>
#include <nlohmann/json.hpp>
#include <string_view>

#include "base/hash.hpp"
#include "config/json/json_text.hpp"

namespace rehearse::inline study {
namespace {

using Json = nlohmann::json;

/// Of the tables below; PRAGMA user_version.
constexpr int kForm = 2;
constexpr int kBusyMilliseconds = 30'000;

// Keys are sorted on the disk, so that a dump does not tell in which order outcomes came.
const char* const kCreateTables = R"(
CREATE TABLE study (name TEXT PRIMARY KEY, value TEXT NOT NULL, checksum INTEGER NOT NULL)
  WITHOUT ROWID;
CREATE TABLE points (point INTEGER PRIMARY KEY, labels TEXT NOT NULL, key TEXT NOT NULL,
  checksum INTEGER NOT NULL);
CREATE TABLE results (key TEXT PRIMARY KEY, code INTEGER NOT NULL, text TEXT NOT NULL,
  checksum INTEGER NOT NULL) WITHOUT ROWID;
)";

[[noreturn]] void fail(const std::filesystem::path& file, const SQLite::Exception& error) {
  const int code = error.getErrorCode();
  if (code == SQLITE_NOTADB || code == SQLITE_CORRUPT) {
    throw InputError(
        fmt::format("{}: error: not a file of results: {}\nremedy: remove it, or give "
                    "another --output",
                    file.string(), error.what()));
  }
  throw MissingError(fmt::format("{}: error: {}", file.string(), error.what()));
}

/// SQLite's errors, with the file's name.
template <class Work>
auto guarded(const std::filesystem::path& file, const Work& work) {
  try {
    return work();
  } catch (const SQLite::Exception& error) {
    fail(file, error);
  }
}

[[noreturn]] void fail_as_foreign(const std::filesystem::path& file, unsigned form) {
  throw InputError(
      fmt::format("{}: error: {}; this program reads form {}\nremedy: take the program that wrote "
                  "it, or give another --output",
                  file.string(),
                  form == 0 || form == kForm
                      ? "another program's database"
                      : fmt::format("results in form {}, of another version of rehearse", form),
                  kForm));
}

/// The first page of a database (sqlite.org/fileformat2.html, sections 1.3 and 2.6).
struct FirstPage {
  std::array<unsigned char, 4096> bytes{};
  bool empty = true;

  bool is_database() const {
    constexpr std::string_view kMagic("SQLite format 3\0", 16);
    return std::equal(kMagic.begin(), kMagic.end(), bytes.begin());
  }
  unsigned user_version() const {
    return unsigned{bytes[60]} << 24 | unsigned{bytes[61]} << 16 | unsigned{bytes[62]} << 8 |
           unsigned{bytes[63]};
  }
  /// Ours never has one.
  bool has_write_ahead_log() const { return bytes[18] == 2; }
  /// The schema keeps the text of each statement that made a table.
  bool has_our_tables() const {
    constexpr std::array<std::string_view, 3> kTables = {
        "CREATE TABLE study (", "CREATE TABLE points (", "CREATE TABLE results ("};
    return std::ranges::all_of(kTables, [&](std::string_view table) {
      return !std::ranges::search(bytes, table).empty();
    });
  }
};

FirstPage first_page_of(const std::filesystem::path& file) {
  FirstPage page;
  std::ifstream stream(file, std::ios::binary);
  stream.read(reinterpret_cast<char*>(page.bytes.data()), page.bytes.size());
  page.empty = stream.gcount() == 0;
  return page;
}

/// InputError unless it is not there, empty, or ours. It is not touched: SQLite itself would write
/// to a file that it only opens (a log that it brings in, a journal that it takes back). Nor does
/// SQLite read it: until its journal is taken back, a file whose writer was killed is malformed.
void check_ours(const std::filesystem::path& file) {
  std::error_code ignored;
  if (!std::filesystem::is_regular_file(file, ignored)) return;
  const FirstPage page = first_page_of(file);
  if (page.empty) return;
  if (!page.is_database()) {
    throw InputError(
        fmt::format("{}: error: not a file of results: file is not a database\nremedy: remove it, "
                    "or give another --output",
                    file.string()));
  }
  if (page.has_write_ahead_log() || page.user_version() != kForm || !page.has_our_tables())
    fail_as_foreign(file, page.user_version());
}

void prepare(SQLite::Database& database) {
  database.setBusyTimeout(kBusyMilliseconds);
  // A rollback journal, which network file systems can do as well (a write-ahead log cannot).
  // NORMAL survives every end of the process, and of the machine but for rare kinds.
  database.exec("PRAGMA journal_mode = TRUNCATE; PRAGMA synchronous = NORMAL");
  if (database.execAndGet("PRAGMA user_version").getInt() == kForm) return;
  SQLite::Transaction transaction(database, SQLite::TransactionBehavior::IMMEDIATE);
  database.exec(kCreateTables);
  database.exec(fmt::format("PRAGMA user_version = {}", kForm));
  transaction.commit();
}

SQLite::Database opened(const std::filesystem::path& file) {
  return guarded(file, [&] {
    check_ours(file);
    SQLite::Database database(file.string(), SQLite::OPEN_READWRITE | SQLite::OPEN_CREATE);
    prepare(database);
    return database;
  });
}

/// Checksum of a row: of its columns in their order, each with its length.
std::int64_t checksum_of(std::initializer_list<std::string_view> columns) {
  Hash hash;
  for (const std::string_view column : columns) {
    hash.add(std::uint64_t{column.size()});
    for (const char byte : column) hash.add(std::uint64_t{static_cast<unsigned char>(byte)});
  }
  return static_cast<std::int64_t>(hash.value());
}

std::int64_t checksum_of(const std::string& key, const Outcome& outcome) {
  return checksum_of({key, std::to_string(static_cast<int>(outcome.code)), outcome.text});
}

std::int64_t checksum_of(std::size_t number, const std::string& labels, const std::string& key) {
  return checksum_of({std::to_string(number), labels, key});
}

/// Fails as damaged unless the row's last column is the checksum of the others.
void check_sum(const std::filesystem::path& file, const std::string& what, std::int64_t stored,
               std::int64_t right) {
  if (stored != right) fail_as_damaged(file, what, "its checksum is of something else");
}

/// Of the codes that a simulation ends with.
bool is_known(ExitCode code) {
  constexpr std::array kCodes = {ExitCode::success, ExitCode::refuted, ExitCode::input,
                                 ExitCode::stuck,   ExitCode::missing, ExitCode::internal};
  return std::ranges::find(kCodes, code) != kCodes.end();
}

/// Of a code, a text and their checksum.
Outcome outcome_at(SQLite::Statement& query, int column) {
  return {static_cast<ExitCode>(query.getColumn(column).getInt()),
          query.getColumn(column + 1).getString()};
}

/// A list of texts as JSON has it.
std::vector<std::string> texts_of(const std::filesystem::path& file, const std::string& what,
                                  const std::string& json) {
  try {
    return parsed_json(json).get<std::vector<std::string>>();
  } catch (const Json::exception& error) {
    fail_as_damaged(file, what, error.what());
  }
}

}  // namespace

bool Outcome::is_final() const {
  return code == ExitCode::success || code == ExitCode::input || code == ExitCode::stuck;
}

void fail_as_damaged(const std::filesystem::path& file, const std::string& what,
                     const std::string& why) {
  throw InputError(
      fmt::format("{}: error: {} is damaged: {}\nremedy: --fresh simulates all anew; --output "
                  "FOLDER keeps this file",
                  file.string(), what, why));
}

void ResultStore::remove(const std::filesystem::path& file) {
  guarded(file, [&] { check_ours(file); });
  std::filesystem::remove(file);
  std::filesystem::remove(file.string() + "-journal");
}

ResultStore::ResultStore(const std::filesystem::path& file)
    : file_(file), database_(opened(file)) {}

std::optional<StudyIdentity> ResultStore::identity() const {
  return guarded(file_, [&]() -> std::optional<StudyIdentity> {
    std::map<std::string, std::string> values;
    SQLite::Statement query(database_, "SELECT name, value, checksum FROM study");
    while (query.executeStep()) {
      const std::string name = query.getColumn(0).getString();
      const std::string value = query.getColumn(1).getString();
      check_sum(file_, fmt::format("what it says of the study ({})", name),
                query.getColumn(2).getInt64(), checksum_of({name, value}));
      values[name] = value;
    }
    if (values.empty() && is_new()) return std::nullopt;
    constexpr std::size_t kNames = 6;
    if (values.size() != kNames)
      fail_as_damaged(file_, "what it says of the study",
                      fmt::format("{} of {} rows", values.size(), kNames));
    return StudyIdentity{values["program"], values["study"], values["description"],
                         values["scenario"], texts_of(file_, "the list of axes", values["axes"])};
  });
}

bool ResultStore::is_new() const {
  SQLite::Statement query(database_, "SELECT 1 FROM points UNION SELECT 1 FROM results");
  return !query.executeStep();
}

std::vector<StudyPoint> ResultStore::points() const {
  return guarded(file_, [&] {
    std::vector<StudyPoint> points;
    const auto known = identity();
    const std::size_t axes = known ? known->axes.size() : 0;
    SQLite::Statement query(database_, "SELECT labels, key, checksum FROM points ORDER BY point");
    while (query.executeStep()) {
      const std::string what = fmt::format("point {}", points.size() + 1);
      const std::string labels_text = query.getColumn(0).getString();
      const std::string key = query.getColumn(1).getString();
      check_sum(file_, what, query.getColumn(2).getInt64(),
                checksum_of(points.size() + 1, labels_text, key));
      points.push_back({texts_of(file_, what, labels_text), key});
      const std::size_t labels = points.back().labels.size();
      if (labels != axes)
        fail_as_damaged(file_, what, fmt::format("{} labels for {} axes", labels, axes));
    }
    check_number_of_points(points.size());
    return points;
  });
}

void ResultStore::check_number_of_points(std::size_t read) const {
  SQLite::Statement query(database_, "SELECT value FROM study WHERE name = 'points'");
  const std::string described = query.executeStep() ? query.getColumn(0).getString() : "0";
  if (described != std::to_string(read))
    fail_as_damaged(file_, "the list of points", fmt::format("{} of {}", read, described));
}

void ResultStore::describe(const StudyIdentity& identity, const std::vector<StudyPoint>& points) {
  guarded(file_, [&] {
    SQLite::Transaction transaction(database_, SQLite::TransactionBehavior::IMMEDIATE);
    database_.exec("DELETE FROM study; DELETE FROM points");
    SQLite::Statement meta(database_, "INSERT INTO study VALUES (?, ?, ?)");
    const std::map<std::string, std::string> values = {{"program", identity.program},
                                                       {"study", identity.study},
                                                       {"description", identity.description},
                                                       {"scenario", identity.scenario},
                                                       {"axes", json_text(Json(identity.axes))},
                                                       {"points", std::to_string(points.size())}};
    for (const auto& [name, value] : values) {
      meta.reset();
      meta.bind(1, name);
      meta.bind(2, value);
      meta.bind(3, checksum_of({name, value}));
      meta.exec();
    }
    SQLite::Statement row(database_, "INSERT INTO points VALUES (?, ?, ?, ?)");
    for (std::size_t i = 0; i < points.size(); ++i) {
      const std::string labels = json_text(Json(points[i].labels));
      row.reset();
      row.bind(1, static_cast<std::int64_t>(i + 1));
      row.bind(2, labels);
      row.bind(3, points[i].key);
      row.bind(4, checksum_of(i + 1, labels, points[i].key));
      row.exec();
    }
    transaction.commit();
  });
}

std::optional<Outcome> ResultStore::find(const std::string& key) const {
  if (const auto kept = unwritten_.find(key); kept != unwritten_.end()) return kept->second;
  return guarded(file_, [&]() -> std::optional<Outcome> {
    SQLite::Statement query(database_, "SELECT code, text, checksum FROM results WHERE key = ?");
    query.bind(1, key);
    if (!query.executeStep()) return std::nullopt;
    return checked(key, outcome_at(query, 0), query.getColumn(2).getInt64());
  });
}

Outcome ResultStore::checked(const std::string& key, Outcome outcome, std::int64_t checksum) const {
  const std::string what = "the result " + key;
  check_sum(file_, what, checksum, checksum_of(key, outcome));
  if (!is_known(outcome.code))
    fail_as_damaged(file_, what, fmt::format("exit code {}", static_cast<int>(outcome.code)));
  if (outcome.code == ExitCode::success && !Json::accept(outcome.text))
    fail_as_damaged(file_, what, "no JSON");
  return outcome;
}

void ResultStore::for_each(
    const std::function<void(const std::string& key, const Outcome&)>& take) const {
  guarded(file_, [&] {
    SQLite::Statement query(database_,
                            "SELECT key, code, text, checksum FROM results ORDER BY key");
    while (query.executeStep()) {
      const std::string key = query.getColumn(0).getString();
      take(key, checked(key, outcome_at(query, 1), query.getColumn(3).getInt64()));
    }
  });
}

void ResultStore::store(const std::string& key, const Outcome& outcome) {
  unwritten_[key] = outcome;
  flush();
}

std::vector<std::string> ResultStore::flush() {
  try {
    write(unwritten_);
    unwritten_.clear();
    trouble_.clear();
  } catch (const SQLite::Exception& error) {
    trouble_ = fmt::format("{}: error: {}", file_.string(), error.what());
  }
  std::vector<std::string> keys;
  for (const auto& [key, outcome] : unwritten_) keys.push_back(key);
  return keys;
}

void ResultStore::write(const std::map<std::string, Outcome>& outcomes) {
  if (outcomes.empty()) return;
  SQLite::Transaction transaction(database_, SQLite::TransactionBehavior::IMMEDIATE);
  SQLite::Statement row(database_, "INSERT OR REPLACE INTO results VALUES (?, ?, ?, ?)");
  for (const auto& [key, outcome] : outcomes) {
    row.reset();
    row.bind(1, key);
    row.bind(2, static_cast<int>(outcome.code));
    row.bindNoCopy(3, outcome.text);
    row.bind(4, checksum_of(key, outcome));
    row.exec();
  }
  transaction.commit();
}

}  // namespace rehearse::inline study
