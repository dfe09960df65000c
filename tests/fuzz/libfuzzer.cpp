// The entry of libFuzzer (https://llvm.org/docs/LibFuzzer.html), built by tests/fuzz/run.
#include "readers.hpp"

extern "C" int LLVMFuzzerTestOneInput(const unsigned char* bytes, std::size_t size) {
  rehearse::feed(std::string_view(reinterpret_cast<const char*>(bytes), size));
  return 0;
}
