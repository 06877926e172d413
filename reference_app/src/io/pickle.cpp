#include "io/pickle.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <cctype>
#include <deque>
#include <limits>
#include <optional>
#include <unordered_map>
#include <variant>

#include "config/errors.hpp"
#include "io/pickle_globals.hpp"

namespace clipbert::io {
namespace {

constexpr std::size_t deepest = 200;           // levels of lists and dicts
constexpr std::uint64_t most_steps = 8 << 20;  // opcodes: a step takes up to 100 bytes of memory
constexpr std::size_t longest_global = 512;

/// Bytes that stand in the pickle itself, as numpy's do.
class InlineStorage final : public Storage {
 public:
  explicit InlineStorage(std::shared_ptr<const std::string> bytes) : bytes_(std::move(bytes)) {}
  [[nodiscard]] std::uint64_t size() const override { return bytes_->size(); }
  [[nodiscard]] std::vector<std::byte> read() const override {
    const auto* from = reinterpret_cast<const std::byte*>(bytes_->data());
    return {from, from + bytes_->size()};
  }

 private:
  std::shared_ptr<const std::string> bytes_;
};

/// A storage as a tensor names it: a part of what the file holds, of one type.
struct StorageRef {
  std::shared_ptr<const Storage> storage;  ///< null: of a type that is not read
  std::optional<DType> dtype;              ///< none: bytes, the tensor says of what
  std::int64_t offset = 0, count = 0;      ///< elements
};

struct Global {
  KnownGlobal known;
  std::shared_ptr<const std::string> name;
};

/// A list, dict or object that may still grow; by number, since Python's may hold themselves.
enum class NodeId : std::uint32_t {};
using Item = std::variant<Value, NodeId, Global, std::shared_ptr<const StorageRef>>;

struct Node {
  enum class Kind { list, dict, object, array, dtype } kind;
  std::vector<Item> items;  ///< of a dict: key, value, key, value
  Value value;              ///< of an object, an array or a dtype
  bool swapped = false;     ///< a dtype of big-endian numbers
};

/// The stack machine of one pickle.
class Machine {
 public:
  Machine(std::istream& in, const std::string& file, PickleLimits limits, const FindStorage& find)
      : in_(in), file_(file), limits_(limits), text_left_(limits.bytes), find_(find) {}

  Value run() {
    for (std::uint64_t steps = 0;; ++steps) {
      if (steps == most_steps)
        fail("holds more than " + std::to_string(most_steps) + " items, which no weights file has");
      const auto op = number<std::uint8_t>();
      if (op == '.') return finish();
      step(op);
    }
  }

 private:
  [[noreturn]] void fail(const std::string& what) const {
    throw content_error(file_ + ": the pickle " + what + " (byte " + std::to_string(at_) + ")");
  }

  // ---- the stream
  std::string bytes(std::uint64_t count) {
    if (count > limits_.bytes - at_) fail("is cut: " + std::to_string(count) + " bytes are missing");
    std::string out(static_cast<std::size_t>(count), '\0');
    in_.read(out.data(), static_cast<std::streamsize>(count));
    if (in_.gcount() != static_cast<std::streamsize>(count)) fail("cannot be read to its end");
    at_ += count;
    return out;
  }
  template <class T>
  T number() {
    if (sizeof(T) > limits_.bytes - at_) fail("is cut: its end is missing");
    std::array<char, sizeof(T)> raw{};
    in_.read(raw.data(), sizeof(T));
    if (in_.gcount() != static_cast<std::streamsize>(sizeof(T))) fail("cannot be read to its end");
    at_ += sizeof(T);
    return std::bit_cast<T>(raw);
  }
  std::string line() {
    std::string out;
    for (char c = number<char>(); c != '\n'; c = number<char>()) {
      if (out.size() == longest_global)
        fail("names a global of more than " + std::to_string(longest_global) + " letters");
      out += c;
    }
    return out;
  }
  Value long_int(std::uint64_t count) {
    const std::string raw = bytes(count);
    if (count > 8) return Value(Opaque{std::make_shared<const std::string>("int of more than 64 bits")});
    std::uint64_t bits = count > 0 && (raw.back() & 0x80) != 0 ? ~std::uint64_t{0} : 0;
    for (std::size_t i = raw.size(); i-- > 0;) bits = bits << 8 | static_cast<unsigned char>(raw[i]);
    return Value(static_cast<std::int64_t>(bits));
  }

  // ---- the stack
  void push(Item item) { stack_.push_back(std::move(item)); }
  std::size_t floor() const { return marks_.empty() ? 0 : marks_.back(); }
  Item& top() {
    if (stack_.size() <= floor()) fail("takes from an empty stack");
    return stack_.back();
  }
  Item pop() {
    Item item = std::move(top());
    stack_.pop_back();
    return item;
  }
  std::vector<Item> pop_mark() {
    if (marks_.empty()) fail("ends a group that it did not begin");
    const auto from = stack_.begin() + static_cast<std::ptrdiff_t>(marks_.back());
    std::vector<Item> items(std::make_move_iterator(from), std::make_move_iterator(stack_.end()));
    stack_.erase(from, stack_.end());
    marks_.pop_back();
    return items;
  }
  NodeId make(Node node) {
    nodes_.push_back(std::move(node));
    return static_cast<NodeId>(nodes_.size() - 1);
  }
  void push_tuple(std::size_t count) {
    std::vector<Item> items(count);
    while (count > 0) items[--count] = pop();
    push(make({Node::Kind::list, std::move(items), {}}));
  }
  Node* node(const Item& item) {
    const auto* id = std::get_if<NodeId>(&item);
    return id == nullptr ? nullptr : &nodes_[static_cast<std::size_t>(*id)];
  }
  void remember(std::uint64_t key) { memo_.insert_or_assign(key, top()); }
  void recall(std::uint64_t key) {
    const auto found = memo_.find(key);
    if (found == memo_.end()) fail("refers to item " + std::to_string(key) + ", which it does not hold");
    push(found->second);
  }

  // ---- the opcodes
  void step(std::uint8_t op);
  bool step_value(std::uint8_t op);
  void append(std::vector<Item> items);
  void set_items(std::vector<Item> items);
  void push_global(const std::string& name);
  void build();

  // ---- what may be called: data is made as the function would have made it
  Item call(const Global& function, const std::vector<Item>& arguments);
  Item make_dict(const std::vector<Item>& arguments);
  Item make_object(const Global& type, const std::vector<Item>& arguments);
  Item make_tensor(const Global& function, const std::vector<Item>& arguments);
  Item make_array(const std::vector<Item>& arguments);
  Item encode(const std::vector<Item>& arguments);
  Item stored(const Item& id);
  StoredTensor view(const StorageRef& storage, DType dtype, std::int64_t offset, std::vector<std::int64_t> shape,
                    std::vector<std::int64_t> strides);
  std::optional<DType> numpy_dtype(const Item& item);
  void build_array(Node& array, const std::vector<Item>& state);

  Item opaque(const std::shared_ptr<const std::string>& name) {
    return make({Node::Kind::object, {}, Value(Opaque{name})});
  }
  const std::vector<Item>& list_of(const Item& item, const char* what) {
    const auto* list = node(item);
    if (list == nullptr || list->kind != Node::Kind::list) fail(std::string("has no list as ") + what);
    return list->items;
  }
  const Item& argument(const std::vector<Item>& arguments, std::size_t i) const {
    if (i >= arguments.size()) fail("calls a function with too few arguments");
    return arguments[i];
  }
  std::int64_t int_of(const Item& item, const char* what) const {
    const auto* value = std::get_if<Value>(&item);
    const auto whole = value == nullptr ? std::nullopt : value->as_int();
    if (!whole || *whole < 0) fail(std::string("has no size as ") + what);
    return *whole;
  }
  const std::string& text_of(const Item& item, const char* what) const {
    const auto* value = std::get_if<Value>(&item);
    if (value == nullptr || value->text() == nullptr) fail(std::string("has no text as ") + what);
    return *value->text();
  }
  std::vector<std::int64_t> sizes_of(const Item& item, const char* what) {
    std::vector<std::int64_t> sizes;
    const auto& items = list_of(item, what);
    if (items.size() > 64) fail(std::string("has more than 64 axes in ") + what);
    for (const auto& size : items) sizes.push_back(int_of(size, what));
    return sizes;
  }

  // ---- the result
  Value finish() { return value_of(pop(), 0).value; }
  struct Done {
    Value value;
    std::size_t depth = 0;
    bool open = false;  ///< it is being made
  };
  Done value_of(const Item& item, std::size_t level);

  std::istream& in_;
  const std::string& file_;
  PickleLimits limits_;
  std::uint64_t at_ = 0;     ///< bytes read
  std::uint64_t text_left_;  ///< bytes that decoded texts may still take
  std::uint64_t copies_left_ = most_steps;
  const FindStorage& find_;
  std::vector<Item> stack_;
  std::vector<std::size_t> marks_;
  std::unordered_map<std::uint64_t, Item> memo_;
  std::deque<Node> nodes_;  // references stay good while it grows
  std::unordered_map<std::uint32_t, Done> done_;
};

bool Machine::step_value(std::uint8_t op) {
  switch (op) {
    case 'N':
      return push(Value()), true;
    case 0x88:
      return push(Value(true)), true;
    case 0x89:
      return push(Value(false)), true;
    case 'J':
      return push(Value(std::int64_t{number<std::int32_t>()})), true;
    case 'K':
      return push(Value(std::int64_t{number<std::uint8_t>()})), true;
    case 'M':
      return push(Value(std::int64_t{number<std::uint16_t>()})), true;
    case 0x8a:
      return push(long_int(number<std::uint8_t>())), true;
    case 0x8b:
      return push(long_int(number<std::uint32_t>())), true;
    case 'G':
      return push(Value(std::bit_cast<double>(__builtin_bswap64(number<std::uint64_t>())))), true;
    case 'U':  // bytes and texts: Python 2 had one type for both
    case 'C':
    case 0x8c:
      return push(Value(bytes(number<std::uint8_t>()))), true;
    case 'T':
    case 'B':
    case 'X':
      return push(Value(bytes(number<std::uint32_t>()))), true;
    case 0x8d:
    case 0x8e:
    case 0x96:
      return push(Value(bytes(number<std::uint64_t>()))), true;
    case ')':
    case ']':
    case 0x8f:
      return push(make({Node::Kind::list, {}, {}})), true;
    case '}':
      return push(make({Node::Kind::dict, {}, {}})), true;
    default:
      return false;
  }
}

void Machine::step(std::uint8_t op) {
  if (step_value(op)) return;
  switch (op) {
    case 0x80:
      if (const auto protocol = number<std::uint8_t>(); protocol < 2 || protocol > 5)
        fail("is of protocol " + std::to_string(protocol) + "; 2 to 5 are read");
      return;
    case 0x95:
      return static_cast<void>(number<std::uint64_t>());
    case '(':
      return marks_.push_back(stack_.size());
    case '0':
      return static_cast<void>(pop());
    case '1':
      return static_cast<void>(pop_mark());
    case 't':
    case 'l':
    case 0x91:
      return push(make({Node::Kind::list, pop_mark(), {}}));
    case 0x85:
    case 0x86:
    case 0x87:
      return push_tuple(op - 0x84U);
    case 'd': {
      auto items = pop_mark();
      push(make({Node::Kind::dict, {}, {}}));
      return set_items(std::move(items));
    }
    case 'a': {
      auto item = pop();
      return append({std::move(item)});
    }
    case 'e':
    case 0x90:
      return append(pop_mark());
    case 's': {
      auto value = pop(), key = pop();
      return set_items({std::move(key), std::move(value)});
    }
    case 'u':
      return set_items(pop_mark());
    case 'q':
      return remember(number<std::uint8_t>());
    case 'r':
      return remember(number<std::uint32_t>());
    case 0x94:
      return remember(memo_.size());
    case 'h':
      return recall(number<std::uint8_t>());
    case 'j':
      return recall(number<std::uint32_t>());
    case 'c': {
      const auto module = line();
      return push_global(module + "." + line());
    }
    case 0x93: {
      const auto name = pop(), module = pop();
      return push_global(text_of(module, "a global's module") + "." + text_of(name, "a global's name"));
    }
    case 'Q':
      return push(stored(pop()));
    case 'R':
    case 0x81: {
      const auto packed = pop();
      const auto& arguments = list_of(packed, "arguments");
      const auto function = pop();
      const auto* global = std::get_if<Global>(&function);
      if (global == nullptr) fail("calls what is no function");
      return push(op == 'R' ? call(*global, arguments) : make_object(*global, arguments));
    }
    case 'b':
      return build();
    default:
      if (std::isprint(op) != 0)
        fail(std::string("holds the opcode '") + static_cast<char>(op) + "', which is not read");
      fail("holds the opcode " + std::to_string(op) + ", which is not read");
  }
}

void Machine::append(std::vector<Item> items) {
  auto* list = node(top());
  if (list == nullptr || (list->kind != Node::Kind::list && list->kind != Node::Kind::object))
    fail("appends to no list");
  if (list->kind == Node::Kind::object) return;
  std::ranges::move(items, std::back_inserter(list->items));
}

void Machine::set_items(std::vector<Item> items) {
  auto* dict = node(top());
  if (dict == nullptr || (dict->kind != Node::Kind::dict && dict->kind != Node::Kind::object))
    fail("sets a key of no dict");
  if (items.size() % 2 != 0) fail("has a key without a value");
  if (dict->kind == Node::Kind::object) return;
  std::ranges::move(items, std::back_inserter(dict->items));
}

void Machine::push_global(const std::string& name) {
  if (name.size() > longest_global || !std::ranges::all_of(name, [](unsigned char c) { return c > ' ' && c < 127; }))
    fail("names a global that is no name");
  push(Global{known_global(name), std::make_shared<const std::string>(name)});
}

/// Sets an object's state. Of all classes only numpy's keep their data there.
void Machine::build() {
  const auto state = pop();
  auto* target = node(top());
  if (target == nullptr) return;  // a tensor's attributes
  if (target->kind == Node::Kind::array) return build_array(*target, list_of(state, "an array's state"));
  if (target->kind == Node::Kind::dtype) {
    const auto& items = list_of(state, "a dtype's state");
    target->swapped = items.size() > 1 && text_of(items[1], "a byte order") == ">";
  }
}

Item Machine::call(const Global& function, const std::vector<Item>& arguments) {
  switch (function.known.kind) {
    case GlobalKind::dict:
      return make_dict(arguments);
    case GlobalKind::list:
      return arguments.empty() ? Item(make({Node::Kind::list, {}, {}})) : arguments[0];
    case GlobalKind::rebuild_tensor:
      return make_tensor(function, arguments);
    case GlobalKind::first_argument:
      return argument(arguments, 0);
    case GlobalKind::numpy_reconstruct:
      return make({Node::Kind::array, {}, Value(Opaque{std::make_shared<const std::string>("numpy.ndarray")})});
    case GlobalKind::numpy_dtype:
      static_cast<void>(text_of(argument(arguments, 0), "a dtype"));
      return make({Node::Kind::dtype, {}, std::get<Value>(arguments[0])});
    case GlobalKind::numpy_scalar:
    case GlobalKind::numpy_frombuffer:
      return make_array(arguments);
    case GlobalKind::encode:
      return encode(arguments);
    case GlobalKind::data_class:
      return opaque(function.name);
    case GlobalKind::reconstructor: {
      const auto* type = std::get_if<Global>(&argument(arguments, 0));
      if (type == nullptr) fail("makes an object of no class");
      return make_object(*type, {});
    }
    case GlobalKind::storage:
    case GlobalKind::dtype:
    case GlobalKind::unknown:
      break;
  }
  fail("calls " + *function.name +
       ", which is not among the functions that weights need; nothing was executed. If you trust the file, save its "
       "state_dict() again with torch.save");
}

/// From nothing, another dict, or a list of pairs.
Item Machine::make_dict(const std::vector<Item>& arguments) {
  const auto made = make({Node::Kind::dict, {}, {}});
  const auto* from = arguments.empty() ? nullptr : node(arguments[0]);
  if (from == nullptr || (from->kind != Node::Kind::dict && from->kind != Node::Kind::list)) return made;
  if (from->items.size() > copies_left_) fail("copies the same list again and again");
  copies_left_ -= from->items.size();
  auto& items = nodes_[static_cast<std::size_t>(made)].items;
  if (from->kind == Node::Kind::dict) {
    items = from->items;
    return made;
  }
  for (const auto& pair : from->items) {
    const auto& two = list_of(pair, "a pair");
    if (two.size() != 2) fail("has a key without a value");
    items.insert(items.end(), two.begin(), two.end());
  }
  return made;
}

Item Machine::make_object(const Global& type, const std::vector<Item>& arguments) {
  if (type.known.kind == GlobalKind::dict) return make({Node::Kind::dict, {}, {}});
  if (type.known.kind == GlobalKind::list) return call(type, arguments);
  return opaque(type.name);
}

Item Machine::make_tensor(const Global& function, const std::vector<Item>& arguments) {
  const auto* held = std::get_if<std::shared_ptr<const StorageRef>>(&argument(arguments, 0));
  if (held == nullptr) fail("makes a tensor of no storage");
  const StorageRef& storage = **held;
  auto dtype = storage.dtype;
  if (!dtype && arguments.size() > 6) {
    const auto* named = std::get_if<Global>(&arguments[6]);
    if (named != nullptr && named->known.kind == GlobalKind::dtype) dtype = named->known.dtype;
  }
  if (!dtype || storage.storage == nullptr)
    return opaque(
        std::make_shared<const std::string>("torch.Tensor of a type that is not read (" + *function.name + ")"));
  return Value(view(storage, *dtype, int_of(argument(arguments, 1), "a tensor's offset"),
                    sizes_of(argument(arguments, 2), "a tensor's shape"),
                    sizes_of(argument(arguments, 3), "a tensor's strides")));
}

StoredTensor Machine::view(const StorageRef& storage, DType dtype, std::int64_t offset, std::vector<std::int64_t> shape,
                           std::vector<std::int64_t> strides) {
  if (shape.size() != strides.size())
    fail("has a tensor with " + std::to_string(shape.size()) + " axes and " + std::to_string(strides.size()) +
         " strides");
  std::int64_t count = 0;
  try {
    count = count_of(shape);
  } catch (const content_error& e) {
    fail("has a tensor whose " + std::string(e.what()));
  }
  const auto element = static_cast<std::int64_t>(size_of(dtype));
  const std::int64_t held = storage.dtype ? storage.count : storage.count / element;
  std::int64_t last = 0;
  bool outside = offset > held;
  for (std::size_t axis = 0; axis < shape.size() && count > 0; ++axis) {
    std::int64_t step = 0;
    outside = __builtin_mul_overflow(shape[axis] - 1, strides[axis], &step) ||
              __builtin_add_overflow(last, step, &last) || outside;
  }
  outside = __builtin_add_overflow(last, offset, &last) || outside || (count > 0 && last >= held);
  if (outside)
    fail("has a tensor " + shape_text(shape) + " that reaches outside its storage of " + std::to_string(held) +
         " elements");
  std::int64_t bytes = 0;
  if (__builtin_mul_overflow(count, element, &bytes) || static_cast<std::uint64_t>(bytes) > limits_.tensors)
    fail("has tensors that show the same bytes again and again: together they are many times the file");
  limits_.tensors -= static_cast<std::uint64_t>(bytes);
  return {dtype, std::move(shape), std::move(strides), storage.offset + offset, storage.storage};
}

Item Machine::stored(const Item& id) {
  const auto& parts = list_of(id, "a storage's name");
  if (text_of(argument(parts, 0), "a storage's name") != "storage")
    return opaque(std::make_shared<const std::string>("torch.nn.Module"));
  const auto* type = std::get_if<Global>(&argument(parts, 1));
  if (type == nullptr) fail("has a storage without a type");
  auto ref = std::make_shared<StorageRef>();
  if (type->known.kind != GlobalKind::storage) return std::shared_ptr<const StorageRef>(std::move(ref));
  const auto* named = std::get_if<Value>(&argument(parts, 2));
  const auto key =
      named != nullptr && named->as_int() ? std::to_string(*named->as_int()) : text_of(parts[2], "a storage's key");
  if (key.size() > longest_global || std::ranges::any_of(key, [](unsigned char c) { return c < ' ' || c == 127; }))
    fail("has a storage whose key is none");
  ref->dtype = type->known.dtype;
  ref->count = int_of(argument(parts, 4), "a storage's size");
  const std::uint64_t element = ref->dtype ? size_of(*ref->dtype) : 1;
  if (static_cast<std::uint64_t>(ref->count) > std::numeric_limits<std::int64_t>::max() / element)
    fail("has a storage that is larger than any memory");
  if (find_ == nullptr) fail("refers to a storage, but the file holds none");
  ref->storage = find_(key, static_cast<std::uint64_t>(ref->count) * element);
  if (parts.size() > 5 && node(parts[5]) != nullptr && ref->dtype) {  // a part of the storage, in files of old versions
    const auto& part = list_of(parts[5], "a storage's part");
    const auto from = int_of(argument(part, 1), "a part's offset"), size = int_of(argument(part, 2), "a part's size");
    if (from > ref->count || size > ref->count - from) fail("has a part that reaches outside its storage");
    ref->offset = from;
    ref->count = size;
  }
  return std::shared_ptr<const StorageRef>(std::move(ref));
}

std::optional<DType> Machine::numpy_dtype(const Item& item) {
  const auto* type = node(item);
  if (type == nullptr || type->kind != Node::Kind::dtype || type->swapped) return std::nullopt;
  return numpy_dtype_named(*type->value.text());
}

/// state   (version, shape, dtype, Fortran order, bytes)
void Machine::build_array(Node& array, const std::vector<Item>& state) {
  auto shape = sizes_of(argument(state, 1), "an array's shape");
  const auto dtype = numpy_dtype(argument(state, 2));
  const auto* data = std::get_if<Value>(&argument(state, 4));
  if (!dtype || data == nullptr || data->text() == nullptr) return;  // objects or texts: stays opaque
  const auto* columns = std::get_if<Value>(&argument(state, 3));
  const bool column_major = columns != nullptr && columns->as_bool().value_or(columns->as_int().value_or(0) != 0);
  std::vector<std::int64_t> strides(shape.size());
  std::int64_t step = 1;
  for (std::size_t i = 0; i < shape.size(); ++i) {
    const std::size_t axis = column_major ? i : shape.size() - 1 - i;
    strides[axis] = step;
    if (__builtin_mul_overflow(step, std::max<std::int64_t>(shape[axis], 1), &step))
      fail("has an array that is larger than any memory");
  }
  const StorageRef whole{std::make_shared<const InlineStorage>(data->shared_text()), dtype, 0,
                         static_cast<std::int64_t>(data->text()->size() / size_of(*dtype))};
  array.value = Value(view(whole, *dtype, 0, std::move(shape), std::move(strides)));
}

/// A numpy scalar (dtype, bytes), as the number that it is, or an array (bytes, dtype, shape, order).
Item Machine::make_array(const std::vector<Item>& arguments) {
  Node array{Node::Kind::array, {}, Value(Opaque{std::make_shared<const std::string>("numpy.generic")})};
  if (arguments.size() == 2) {
    const auto none = make({Node::Kind::list, {}, {}});
    build_array(array, {Value(), none, arguments[0], Value(false), arguments[1]});
    if (array.value.tensor() == nullptr) return make(std::move(array));
    const auto number = array.value.as_scalar();
    const auto dtype = array.value.tensor()->dtype;
    if (!number) return make(std::move(array));
    if (dtype == DType::boolean) return Value(*number != 0);
    const bool fraction = dtype == DType::f64 || dtype == DType::f32 || dtype == DType::bf16;
    return fraction ? Value(*number) : Value(static_cast<std::int64_t>(*number));
  }
  const bool column_major = text_of(argument(arguments, 3), "an array's order") == "F";
  build_array(array, {Value(), argument(arguments, 2), argument(arguments, 1), Value(column_major), arguments[0]});
  return make(std::move(array));
}

/// Python 3 writes bytes for protocol 2 as a text whose letters are the bytes.
Item Machine::encode(const std::vector<Item>& arguments) {
  const auto& text = text_of(argument(arguments, 0), "a text");
  if (text.size() > text_left_) fail("decodes the same text again and again");
  text_left_ -= text.size();
  std::string out;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const auto c = static_cast<unsigned char>(text[i]);
    if (c < 0x80) {
      out += text[i];
    } else if ((c & 0xfc) == 0xc0 && i + 1 < text.size()) {
      out += static_cast<char>((c & 3) << 6 | (static_cast<unsigned char>(text[++i]) & 0x3f));
    } else {
      fail("has bytes that are none");
    }
  }
  return Value(std::move(out));
}

Machine::Done Machine::value_of(const Item& item, std::size_t level) {
  if (level > deepest) fail("nests deeper than " + std::to_string(deepest) + " levels");
  if (const auto* value = std::get_if<Value>(&item)) return {*value, 0};
  if (const auto* global = std::get_if<Global>(&item)) {
    return {global->known.kind == GlobalKind::dtype ? Value(*global->name) : Value(Opaque{global->name}), 0};
  }
  const auto* id = std::get_if<NodeId>(&item);
  if (id == nullptr) return {Value(Opaque{std::make_shared<const std::string>("torch storage")}), 0};
  const auto [place, fresh] = done_.try_emplace(static_cast<std::uint32_t>(*id), Done{{}, 0, true});
  auto& done = place->second;  // stays good while others are added
  if (!fresh) {
    if (done.open) fail("holds a list or dict that holds itself");
    if (level + done.depth > deepest) fail("nests deeper than " + std::to_string(deepest) + " levels");
    return done;
  }
  const Node& from = nodes_[static_cast<std::size_t>(*id)];
  std::size_t depth = 0;
  Value::List items;
  items.reserve(from.items.size());
  for (const auto& child : from.items) {
    auto part = value_of(child, level + 1);
    depth = std::max(depth, part.depth);
    items.push_back(std::move(part.value));
  }
  Value value = from.value;
  if (from.kind == Node::Kind::list) value = Value(std::move(items));
  if (from.kind == Node::Kind::dict) {
    Value::Dict entries;
    entries.reserve(items.size() / 2);
    for (std::size_t i = 0; i + 1 < items.size(); i += 2)
      entries.emplace_back(std::move(items[i]), std::move(items[i + 1]));
    value = Value(std::move(entries));
  }
  done = {std::move(value), depth + 1, false};
  return done;
}

}  // namespace

Value unpickle(std::istream& in, const std::string& file, PickleLimits limits, const FindStorage& find) {
  return Machine(in, file, limits, find).run();
}

}  // namespace clipbert::io
