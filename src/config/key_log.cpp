#include "config/key_log.hpp"

namespace rehearse::inline config {
namespace {

KeyLog* living = nullptr;

}  // namespace

KeyLog::KeyLog() { living = this; }
KeyLog::~KeyLog() { living = nullptr; }
KeyLog* KeyLog::current() { return living; }

}  // namespace rehearse::inline config
