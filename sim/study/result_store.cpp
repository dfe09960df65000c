#include "study/result_store.hpp"

#include <SQLiteCpp/Exception.h>
#include <SQLiteCpp/Statement.h>
#include <SQLiteCpp/Transaction.h>
#include <fmt/format.h>
#include <sqlite3.h>

#include <nlohmann/json.hpp>

namespace rehearse {
namespace {

using Json = nlohmann::json;

/// Of the tables below; PRAGMA user_version.
constexpr int kForm = 1;
constexpr int kBusyMilliseconds = 30'000;

// Keys are sorted on the disk, so that a dump does not tell in which order outcomes came.
const char* const kTables = R"(
CREATE TABLE study (name TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID;
CREATE TABLE points (point INTEGER PRIMARY KEY, labels TEXT NOT NULL, key TEXT NOT NULL);
CREATE TABLE results (key TEXT PRIMARY KEY, code INTEGER NOT NULL, text TEXT NOT NULL) WITHOUT ROWID;
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

void prepare(const std::filesystem::path& file, SQLite::Database& database) {
  database.setBusyTimeout(kBusyMilliseconds);
  // A rollback journal, which network file systems can do as well (a write-ahead log cannot).
  // NORMAL survives every end of the process, and of the machine but for rare kinds.
  database.exec("PRAGMA journal_mode = TRUNCATE; PRAGMA synchronous = NORMAL");
  const int form = database.execAndGet("PRAGMA user_version").getInt();
  if (form == kForm) return;
  if (form == 0 && database.execAndGet("SELECT count(*) FROM sqlite_schema").getInt() == 0) {
    SQLite::Transaction transaction(database, SQLite::TransactionBehavior::IMMEDIATE);
    database.exec(kTables);
    database.exec(fmt::format("PRAGMA user_version = {}", kForm));
    transaction.commit();
    return;
  }
  throw InputError(fmt::format(
      "{}: error: {}; this program reads form {}\nremedy: take the program that wrote "
      "it, or give another --output",
      file.string(),
      form == 0 ? "another program's database"
                : fmt::format("results in form {}, of another version of rehearse", form),
      kForm));
}

SQLite::Database opened(const std::filesystem::path& file) {
  return guarded(file, [&] {
    SQLite::Database database(file.string(), SQLite::OPEN_READWRITE | SQLite::OPEN_CREATE);
    prepare(file, database);
    return database;
  });
}

Outcome outcome_at(SQLite::Statement& query, int column) {
  return {static_cast<ExitCode>(query.getColumn(column).getInt()),
          query.getColumn(column + 1).getString()};
}

}  // namespace

bool Outcome::is_final() const {
  return code == ExitCode::success || code == ExitCode::input || code == ExitCode::stuck;
}

ResultStore::ResultStore(const std::filesystem::path& file)
    : file_(file), database_(opened(file)) {}

std::optional<StudyIdentity> ResultStore::identity() const {
  return guarded(file_, [&]() -> std::optional<StudyIdentity> {
    std::map<std::string, std::string> values;
    SQLite::Statement query(database_, "SELECT name, value FROM study");
    while (query.executeStep()) {
      values[query.getColumn(0).getString()] = query.getColumn(1).getString();
    }
    if (values.empty()) return std::nullopt;
    return StudyIdentity{values["program"], values["study"], values["description"],
                         values["scenario"],
                         Json::parse(values["axes"]).get<std::vector<std::string>>()};
  });
}

std::vector<StudyPoint> ResultStore::points() const {
  return guarded(file_, [&] {
    std::vector<StudyPoint> points;
    SQLite::Statement query(database_, "SELECT labels, key FROM points ORDER BY point");
    while (query.executeStep()) {
      points.push_back({Json::parse(query.getColumn(0).getString()).get<std::vector<std::string>>(),
                        query.getColumn(1).getString()});
    }
    return points;
  });
}

void ResultStore::describe(const StudyIdentity& identity, const std::vector<StudyPoint>& points) {
  guarded(file_, [&] {
    SQLite::Transaction transaction(database_, SQLite::TransactionBehavior::IMMEDIATE);
    database_.exec("DELETE FROM study; DELETE FROM points");
    SQLite::Statement meta(database_, "INSERT INTO study VALUES (?, ?)");
    const std::map<std::string, std::string> values = {{"program", identity.program},
                                                       {"study", identity.study},
                                                       {"description", identity.description},
                                                       {"scenario", identity.scenario},
                                                       {"axes", Json(identity.axes).dump()}};
    for (const auto& [name, value] : values) {
      meta.reset();
      meta.bind(1, name);
      meta.bind(2, value);
      meta.exec();
    }
    SQLite::Statement row(database_, "INSERT INTO points VALUES (?, ?, ?)");
    for (std::size_t i = 0; i < points.size(); ++i) {
      row.reset();
      row.bind(1, static_cast<std::int64_t>(i + 1));
      row.bind(2, Json(points[i].labels).dump());
      row.bind(3, points[i].key);
      row.exec();
    }
    transaction.commit();
  });
}

std::optional<Outcome> ResultStore::find(const std::string& key) const {
  if (const auto kept = unwritten_.find(key); kept != unwritten_.end()) return kept->second;
  return guarded(file_, [&]() -> std::optional<Outcome> {
    SQLite::Statement query(database_, "SELECT code, text FROM results WHERE key = ?");
    query.bind(1, key);
    if (!query.executeStep()) return std::nullopt;
    return outcome_at(query, 0);
  });
}

void ResultStore::for_each(
    const std::function<void(const std::string& key, const Outcome&)>& take) const {
  guarded(file_, [&] {
    SQLite::Statement query(database_, "SELECT key, code, text FROM results ORDER BY key");
    while (query.executeStep()) take(query.getColumn(0).getString(), outcome_at(query, 1));
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
  SQLite::Statement row(database_, "INSERT OR REPLACE INTO results VALUES (?, ?, ?)");
  for (const auto& [key, outcome] : outcomes) {
    row.reset();
    row.bind(1, key);
    row.bind(2, static_cast<int>(outcome.code));
    row.bindNoCopy(3, outcome.text);
    row.exec();
  }
  transaction.commit();
}

}  // namespace rehearse
