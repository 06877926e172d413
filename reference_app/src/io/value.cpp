#include "io/value.hpp"

#include <bit>
#include <cstring>

namespace clipbert::io {
namespace {

template <class T>
T element(const std::vector<std::byte>& bytes) {
  T value;
  std::memcpy(&value, bytes.data(), sizeof(T));
  return value;
}

std::optional<double> number_of(const Tensor& t) {
  switch (t.dtype) {
    case DType::f64:
      return element<double>(t.bytes);
    case DType::f32:
      return element<float>(t.bytes);
    case DType::bf16:
      return std::bit_cast<float>(std::uint32_t{element<std::uint16_t>(t.bytes)} << 16);
    case DType::i64:
      return static_cast<double>(element<std::int64_t>(t.bytes));
    case DType::i32:
      return element<std::int32_t>(t.bytes);
    case DType::i16:
      return element<std::int16_t>(t.bytes);
    case DType::i8:
      return element<std::int8_t>(t.bytes);
    case DType::u8:
    case DType::boolean:
      return element<std::uint8_t>(t.bytes);
    case DType::f16:
      return std::nullopt;  // no counter or scale is kept in it
  }
  return std::nullopt;
}

bool is_row_major(const StoredTensor& t) {
  std::int64_t step = 1;
  for (std::size_t axis = t.shape.size(); axis-- > 0;) {
    if (t.shape[axis] != 1 && t.strides[axis] != step) return false;
    step *= t.shape[axis];
  }
  return true;
}

/// Copies the elements of `from`, wherever their strides put them, one behind the other.
template <std::size_t Size>
void gather(const StoredTensor& t, const std::byte* from, std::byte* to, std::int64_t count) {
  std::vector<std::int64_t> index(t.shape.size(), 0);
  std::int64_t at = t.offset;
  for (std::int64_t i = 0; i < count; ++i, to += Size) {
    std::memcpy(to, from + static_cast<std::size_t>(at) * Size, Size);
    for (std::size_t axis = t.shape.size(); axis-- > 0;) {
      at += t.strides[axis];
      if (++index[axis] < t.shape[axis]) break;
      at -= t.strides[axis] * t.shape[axis];
      index[axis] = 0;
    }
  }
}

}  // namespace

Tensor dense(const StoredTensor& tensor) { return dense(tensor, tensor.storage->read()); }

Tensor dense(const StoredTensor& tensor, std::vector<std::byte> bytes) {
  Tensor out{tensor.dtype, tensor.shape, {}};
  const auto count = count_of(tensor.shape);
  const std::size_t element_size = size_of(tensor.dtype), size = static_cast<std::size_t>(count) * element_size;
  if (count == 0) return out;
  if (is_row_major(tensor)) {
    if (tensor.offset == 0 && size == bytes.size()) {
      out.bytes = std::move(bytes);
      return out;
    }
    const auto* from = bytes.data() + static_cast<std::size_t>(tensor.offset) * element_size;
    out.bytes.assign(from, from + size);
    return out;
  }
  out.bytes.resize(size);
  const auto copy = element_size == 8   ? &gather<8>
                    : element_size == 4 ? &gather<4>
                    : element_size == 2 ? &gather<2>
                                        : &gather<1>;
  copy(tensor, bytes.data(), out.bytes.data(), count);
  return out;
}

std::optional<bool> Value::as_bool() const {
  const auto* value = std::get_if<bool>(&held_);
  return value == nullptr ? std::nullopt : std::optional(*value);
}

std::optional<std::int64_t> Value::as_int() const {
  const auto* value = std::get_if<std::int64_t>(&held_);
  return value == nullptr ? std::nullopt : std::optional(*value);
}

std::optional<double> Value::as_double() const {
  if (const auto* value = std::get_if<double>(&held_)) return *value;
  const auto whole = as_int();
  return whole ? std::optional(static_cast<double>(*whole)) : std::nullopt;
}

std::optional<double> Value::as_scalar() const {
  const auto* stored = tensor();
  if (stored == nullptr) return as_double();
  return count_of(stored->shape) == 1 ? number_of(dense(*stored)) : std::nullopt;
}

const std::string* Value::text() const {
  const auto* value = std::get_if<std::shared_ptr<const std::string>>(&held_);
  return value == nullptr ? nullptr : value->get();
}

std::shared_ptr<const std::string> Value::shared_text() const {
  const auto* value = std::get_if<std::shared_ptr<const std::string>>(&held_);
  return value == nullptr ? nullptr : *value;
}

const StoredTensor* Value::tensor() const {
  const auto* value = std::get_if<std::shared_ptr<const StoredTensor>>(&held_);
  return value == nullptr ? nullptr : value->get();
}

const std::string* Value::opaque() const {
  const auto* value = std::get_if<Opaque>(&held_);
  return value == nullptr ? nullptr : value->type.get();
}

std::span<const Value> Value::items() const {
  const auto* list = std::get_if<std::shared_ptr<const List>>(&held_);
  return list == nullptr ? std::span<const Value>() : std::span<const Value>(**list);
}

std::span<const std::pair<Value, Value>> Value::entries() const {
  const auto* dict = std::get_if<std::shared_ptr<const Dict>>(&held_);
  return dict == nullptr ? std::span<const std::pair<Value, Value>>()
                         : std::span<const std::pair<Value, Value>>(**dict);
}

const Value* Value::find(std::string_view key) const {
  const auto all = entries();
  for (std::size_t i = all.size(); i-- > 0;)
    if (const auto* name = all[i].first.text(); name != nullptr && *name == key) return &all[i].second;
  return nullptr;
}

const Value* Value::find(std::int64_t key) const {
  const auto all = entries();
  for (std::size_t i = all.size(); i-- > 0;)
    if (all[i].first.as_int() == key) return &all[i].second;
  return nullptr;
}

}  // namespace clipbert::io
