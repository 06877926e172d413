/// Python data as a checkpoint holds it: numbers, texts, lists, dicts and tensors. Nothing of it is a Python object.
#pragma once
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "io/tensor.hpp"

namespace clipbert::io {

/// Bytes in a file that tensors are views of; read when asked for.
class Storage {
 public:
  virtual ~Storage() = default;
  [[nodiscard]] virtual std::uint64_t size() const = 0;
  /// throws  content_error that names the file
  [[nodiscard]] virtual std::vector<std::byte> read() const = 0;
};

/// A tensor whose bytes are still in the file. Offset and strides count elements, and stay within the storage.
struct StoredTensor {
  DType dtype = DType::f32;
  std::vector<std::int64_t> shape, strides;
  std::int64_t offset = 0;
  std::shared_ptr<const Storage> storage;
};

/// Its elements in row-major order. With `bytes`, those are the storage's, read before.
[[nodiscard]] Tensor dense(const StoredTensor& tensor);
[[nodiscard]] Tensor dense(const StoredTensor& tensor, std::vector<std::byte> bytes);

/// An object of a class that is not read: only the class's name is known.
struct Opaque {
  std::shared_ptr<const std::string> type;
};

/// One value. Copies share what they hold; there are no cycles, but one list or dict may stand in several places.
class Value {
 public:
  using List = std::vector<Value>;                    ///< of a list, a tuple or a set
  using Dict = std::vector<std::pair<Value, Value>>;  ///< in the file's order; a later entry replaces an equal key
  Value() = default;                                  ///< None
  explicit Value(bool value) : held_(value) {}
  explicit Value(std::int64_t value) : held_(value) {}
  explicit Value(double value) : held_(value) {}
  explicit Value(std::string text) : held_(std::make_shared<const std::string>(std::move(text))) {}
  explicit Value(List items) : held_(std::make_shared<const List>(std::move(items))) {}
  explicit Value(Dict entries) : held_(std::make_shared<const Dict>(std::move(entries))) {}
  explicit Value(StoredTensor tensor) : held_(std::make_shared<const StoredTensor>(std::move(tensor))) {}
  explicit Value(Opaque object) : held_(std::move(object)) {}

  [[nodiscard]] bool is_none() const { return std::holds_alternative<std::monostate>(held_); }
  [[nodiscard]] bool is_dict() const { return std::holds_alternative<std::shared_ptr<const Dict>>(held_); }
  [[nodiscard]] bool is_list() const { return std::holds_alternative<std::shared_ptr<const List>>(held_); }

  [[nodiscard]] std::optional<bool> as_bool() const;
  /// An integer; not a float, a bool or a tensor.
  [[nodiscard]] std::optional<std::int64_t> as_int() const;
  /// An integer or a float.
  [[nodiscard]] std::optional<double> as_double() const;
  /// The one element of a number or of a tensor with one element, which newer PyTorch has for `step`.
  [[nodiscard]] std::optional<double> as_scalar() const;
  /// A text or bytes; null for anything else.
  [[nodiscard]] const std::string* text() const;
  [[nodiscard]] std::shared_ptr<const std::string> shared_text() const;
  [[nodiscard]] const StoredTensor* tensor() const;
  /// The class of an object that is not read; null for anything else.
  [[nodiscard]] const std::string* opaque() const;

  /// Of a list, tuple or set; empty for anything else.
  [[nodiscard]] std::span<const Value> items() const;
  /// Of a dict; empty for anything else.
  [[nodiscard]] std::span<const std::pair<Value, Value>> entries() const;
  /// The value of a key; null if there is none, or this is no dict.
  [[nodiscard]] const Value* find(std::string_view key) const;
  [[nodiscard]] const Value* find(std::int64_t key) const;

 private:
  std::variant<std::monostate, bool, std::int64_t, double, std::shared_ptr<const std::string>,
               std::shared_ptr<const List>, std::shared_ptr<const Dict>, std::shared_ptr<const StoredTensor>, Opaque>
      held_;
};

}  // namespace clipbert::io
