#pragma once

#include <functional>
#include <string>

namespace rehearse {

/// Runs `work` in a child process and returns its text: SimGrid's clock cannot be set back, so that
/// a process can simulate once. An Error of the child is thrown again here with the same code and
/// text; a child that dies is an InternalError.
std::string in_child_process(const std::function<std::string()>& work);

}  // namespace rehearse
