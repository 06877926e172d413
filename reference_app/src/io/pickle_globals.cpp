#include "io/pickle_globals.hpp"

#include <algorithm>
#include <array>
#include <utility>

namespace clipbert::io {
namespace {

using enum GlobalKind;

constexpr std::pair<std::string_view, GlobalKind> functions[] = {
    {"collections.OrderedDict", dict},
    {"collections.defaultdict", dict},
    {"collections.Counter", dict},
    {"builtins.dict", dict},
    {"__builtin__.dict", dict},
    {"builtins.set", list},
    {"builtins.frozenset", list},
    {"builtins.list", list},
    {"builtins.tuple", list},
    {"__builtin__.set", list},
    {"__builtin__.frozenset", list},
    {"torch.Size", list},
    {"collections.deque", list},
    {"torch._utils._rebuild_tensor", rebuild_tensor},
    {"torch._utils._rebuild_tensor_v2", rebuild_tensor},
    {"torch._utils._rebuild_tensor_v3", rebuild_tensor},
    {"torch._utils._rebuild_parameter", first_argument},
    {"torch._utils._rebuild_parameter_with_state", first_argument},
    {"torch.device", first_argument},
    {"_codecs.encode", encode},
    {"copyreg._reconstructor", reconstructor},
    {"copy_reg._reconstructor", reconstructor},
    {"numpy.core.multiarray._reconstruct", numpy_reconstruct},
    {"numpy._core.multiarray._reconstruct", numpy_reconstruct},
    {"numpy.dtype", numpy_dtype},
    {"numpy.core.multiarray.scalar", numpy_scalar},
    {"numpy._core.multiarray.scalar", numpy_scalar},
    {"numpy.core.numeric._frombuffer", numpy_frombuffer},
    {"numpy._core.numeric._frombuffer", numpy_frombuffer},
    {"pathlib.Path", data_class},
    {"pathlib.PosixPath", data_class},
    {"pathlib.PurePosixPath", data_class},
    {"pathlib.WindowsPath", data_class},
    {"datetime.datetime", data_class},
    {"datetime.date", data_class},
    {"datetime.timedelta", data_class},
    {"uuid.UUID", data_class},
    {"builtins.complex", data_class},
    {"builtins.range", data_class},
    {"builtins.slice", data_class},
    {"torch._utils._rebuild_sparse_tensor", data_class},
    {"torch._utils._rebuild_qtensor", data_class},
};

/// PyTorch's name of a storage class, of a dtype, and of its short form.
struct TypeNames {
  std::string_view storage, dtype, alias, numpy;
  DType type;
};
constexpr TypeNames types[] = {
    {"Double", "float64", "double", "f8", DType::f64},
    {"Float", "float32", "float", "f4", DType::f32},
    {"Half", "float16", "half", "f2", DType::f16},
    {"BFloat16", "bfloat16", "", "", DType::bf16},
    {"Long", "int64", "long", "i8", DType::i64},
    {"Int", "int32", "int", "i4", DType::i32},
    {"Short", "int16", "short", "i2", DType::i16},
    {"Char", "int8", "", "i1", DType::i8},
    {"Byte", "uint8", "", "u1", DType::u8},
    {"Bool", "bool", "", "b1", DType::boolean},
};

}  // namespace

KnownGlobal known_global(std::string_view name) {
  for (const auto& [known, kind] : functions)
    if (known == name) return {kind, std::nullopt};
  if (name == "torch.storage.UntypedStorage" || name == "torch.UntypedStorage") return {storage, std::nullopt};
  for (const std::string_view module : {"torch.cuda.", "torch."}) {
    if (!name.starts_with(module)) continue;
    const auto rest = name.substr(module.size());
    for (const auto& type : types) {
      if (rest.ends_with("Storage") && rest.substr(0, rest.size() - 7) == type.storage) return {storage, type.type};
      if (rest == type.dtype || (!type.alias.empty() && rest == type.alias)) return {dtype, type.type};
    }
  }
  return {};
}

std::optional<DType> numpy_dtype_named(std::string_view code) {
  if (code.empty()) return std::nullopt;
  for (const auto& type : types)
    if (type.numpy == code) return type.type;
  return std::nullopt;
}

}  // namespace clipbert::io
