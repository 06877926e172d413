/// Python's pickle format, read as data: a list of allowed globals decides what may stand in it, and nothing is called,
/// imported or executed.
/// source  CPython Lib/pickletools.py (protocols 2 to 5); PyTorch torch/_utils.py, torch/_weights_only_unpickler.py
#pragma once
#include <cstdint>
#include <functional>
#include <istream>
#include <memory>
#include <string>

#include "io/value.hpp"

namespace clipbert::io {

/// Gives the storage that a pickle refers to by key.
/// throws  content_error if there is none, or its size is not `bytes`
using FindStorage = std::function<std::shared_ptr<const Storage>(const std::string& key, std::uint64_t bytes)>;

/// What a pickle may take.
struct PickleLimits {
  std::uint64_t bytes = 0;    ///< that are left in the stream
  std::uint64_t tensors = 0;  ///< bytes of all tensors together once they are row-major
};

/// Reads one pickle and leaves the stream behind its end. An instance of an unknown class becomes Opaque; a call of an
/// unknown function is refused, and so are cycles, more than 200 levels, and tensors that leave their storage.
/// file    names the file in errors
/// throws  content_error with the file, the place and the reason
[[nodiscard]] Value unpickle(std::istream& in, const std::string& file, PickleLimits limits, const FindStorage& find);

}  // namespace clipbert::io
