#pragma once

#include <optional>
#include <string>
#include <vector>

#include "launch/rank_end.hpp"
#include "launch/rank_environment.hpp"
#include "server/connection.hpp"

namespace rehearse::inline calibrate {

/// Message of rank 0 to the others once all are there.
struct TeamStart {
  int store_port = 0;      ///< free on rank 0's node: where LibTorch's store is to listen
  std::string store_file;  ///< in its place where all ranks are on one node; else empty
  std::string announced;   ///< as TeamWork::announce gave it
};

/// Rank 0's side of a team: one connection from the process of every other rank.
class TeamHub {
 public:
  /// Listens at the master's address and port until all ranks are there; at every address of this
  /// node where the master's name stands for several, or for none that others reach. MissingError
  /// that names those that did not come in time, or the port that is in use.
  TeamHub(const RankEnvironment& self, Seconds limit);

  /// This node's address as the others reach it; empty where there are no others.
  const std::string& own_address() const { return own_address_; }
  /// The address at which all others came; empty where they came at several.
  const std::string& common_address() const { return common_address_; }
  void tell_start(const TeamStart& start);

  /// Takes what has come. A rank whose connection is lost before its result has ended.
  void receive();
  /// Ends of all ranks; rank 0's own stays as it is.
  const std::vector<RankEnd>& ends() const { return ends_; }
  bool all_ended() const;
  bool any_failed() const;

  void tell_done();
  void tell_failure(const std::string& text);

 private:
  void meet(const Socket& listening, Seconds limit);
  bool greet(Connection& connection, int& rank);
  void tell_all(MessageKind kind, const std::string& text, std::uint64_t number);

  int world_size_;
  std::string own_address_, common_address_;
  std::vector<std::unique_ptr<Connection>> connections_;  ///< by rank; none for rank 0
  std::vector<RankEnd> ends_;
};

/// Another rank's side.
class TeamSpoke {
 public:
  /// Connects to rank 0, which must come within the limit. MissingError names where it was awaited.
  TeamSpoke(const RankEnvironment& self, Seconds limit);

  const std::string& own_address() const { return own_address_; }
  /// Waits for all ranks. MissingError with what rank 0 tells, where it gives up.
  TeamStart await_start(Seconds limit);
  void tell_end(const RankEnd& end);
  /// True once rank 0 has all results. MissingError where it told of a failure, or is gone.
  bool is_done();

 private:
  std::optional<Connection::Message> receive();

  RankEnvironment self_;
  std::string own_address_;
  std::unique_ptr<Connection> connection_;
};

}  // namespace rehearse::inline calibrate
