/// What the program is built on and runs on.
#pragma once
#include <ostream>

namespace clipbert::cli {

/// One line: the versions of the program, LibTorch and libav.
void print_version(std::ostream& out);

}  // namespace clipbert::cli
