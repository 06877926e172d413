/// The globals that a pickle may name, and what each stands for. All others are unknown: an instance is passed over, a
/// call refused.
#pragma once
#include <optional>
#include <string_view>

#include "io/tensor.hpp"

namespace clipbert::io {

enum class GlobalKind {
  unknown,
  dict,               ///< OrderedDict and its like
  list,               ///< set, torch.Size, ...: the first argument's items
  rebuild_tensor,     ///< (storage, offset, shape, strides, ...)
  first_argument,     ///< a parameter around a tensor
  storage,            ///< a class of storage
  dtype,              ///< torch.float32, ...
  numpy_reconstruct,  ///< an empty array, whose state follows
  numpy_dtype,
  numpy_scalar,
  numpy_frombuffer,
  encode,         ///< bytes as text
  reconstructor,  ///< copyreg's: an instance of its first argument
  data_class      ///< a class whose instances are made by a call, and passed over
};

struct KnownGlobal {
  GlobalKind kind = GlobalKind::unknown;
  std::optional<DType> dtype;  ///< of a storage or a dtype, if it is one that is read
};

/// name    "module.name"
[[nodiscard]] KnownGlobal known_global(std::string_view name);

/// The type of numpy's "f4", "i8", ... if it is one that is read.
[[nodiscard]] std::optional<DType> numpy_dtype_named(std::string_view code);

}  // namespace clipbert::io
