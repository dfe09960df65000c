#include "config/key_log.hpp"

namespace rehearse {
namespace {

KeyLog* living = nullptr;

}  // namespace

KeyLog::KeyLog() { living = this; }
KeyLog::~KeyLog() { living = nullptr; }
KeyLog* KeyLog::current() { return living; }

}  // namespace rehearse
