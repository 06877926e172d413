#include <amp_torch/op_cast.hpp>

#if AMP_TORCH_OP_LISTS

#include <ATen/core/Tensor.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/core/stack.h>
#include <c10/core/GradMode.h>
#include <c10/core/impl/LocalDispatchKeySet.h>
#include <c10/util/ThreadLocalDebugInfo.h>
#include <torch/library.h>

#include <amp/core/check.hpp>
#include <amp_torch/dtype.hpp>
#include <atomic>
#include <cstdint>
#include <map>
#include <mutex>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

namespace amp_torch {
namespace {

namespace cast = amp::cast;
constexpr auto mode = c10::DispatchKey::TESTING_ONLY_GenericMode;
constexpr auto slot = c10::DebugInfoKind::TEST_INFO_2;  // what carries the region to the threads of a backward

/// What is known of an operator under the lists of a region.
struct OpFacts {
  std::string name;
  cast::rule rule;
  bool in_place = false, composite = false;
  int dtype_argument = -1;   ///< position of an optional output type
  int device_argument = -1;  ///< of a copy: where to
};

/// Cast weights of one outermost region.
class Cache {
 public:
  /// The cast of a weight, made by `make` unless a usable one is there.
  template <class Make>
  at::Tensor get(const at::Tensor& weight, at::ScalarType to, bool& found, Make&& make) {
    const std::lock_guard lock(mutex_);
    Entry& e = entries_[{weight.unsafeGetTensorImpl(), to}];
    // A cast made without gradients has no way back to the weight.
    found = e.cast.defined() && e.version == weight._version() && e.data == weight.const_data_ptr() &&
            (e.cast.requires_grad() || !c10::GradMode::is_enabled());
    if (!found) e = {weight, make(), weight._version(), weight.const_data_ptr()};
    return e.cast;
  }
  void clear() {
    const std::lock_guard lock(mutex_);
    entries_.clear();
  }
  std::atomic<std::int64_t> casts = 0;

 private:
  struct Entry {
    at::Tensor weight, cast;  // the weight is held, so that its address names no other tensor
    std::int64_t version = 0;
    const void* data = nullptr;
  };
  std::mutex mutex_;
  std::map<std::pair<const void*, at::ScalarType>, Entry> entries_;
};

class Region final : public c10::DebugInfoBase {
 public:
  Region(at::ScalarType t, c10::DeviceType d, bool on, op_cast_options o, std::shared_ptr<Cache> c)
      : type(t), device(d), enabled(on), options(std::move(o)), cache(std::move(c)) {}

  const at::ScalarType type;
  const c10::DeviceType device;
  const bool enabled;
  const op_cast_options options;
  const std::shared_ptr<Cache> cache;

  const OpFacts& facts(const c10::OperatorHandle& op) {
    const std::lock_guard lock(mutex_);
    const auto [it, fresh] = facts_.try_emplace(&op.schema());
    if (fresh) it->second = look_up(op);
    return it->second;
  }
  [[nodiscard]] bool eligible(const at::Tensor& t) const {
    return t.defined() && to_amp(t.scalar_type()).has_value() && t.device().type() == device &&
           !t.unsafeGetTensorImpl()->is_wrapped_number();
  }
  [[nodiscard]] at::Tensor convert(const at::Tensor& t, at::ScalarType to, const OpFacts& op) const {
    if (!eligible(t) || t.scalar_type() == to) return t;
    const bool weight = options.cache && to == type && t.scalar_type() == at::kFloat && t.requires_grad() &&
                        t.is_leaf() && !t.is_view() && !t.is_inference() && t.layout() == at::kStrided &&
                        t.has_storage();
    bool cached = false;
    const auto make = [&] {
      ++cache->casts;
      return t.to(to);
    };
    at::Tensor out = weight ? cache->get(t, to, cached, make) : make();
    tell(op, t, to, cached ? " (cached)" : "");
    return out;
  }
  void tell(const OpFacts& op, const at::Tensor& from, at::ScalarType to, const char* remark) const {
    if (!options.log) return;
    options.log(op.name + ": " + std::string(amp::name(*to_amp(from.scalar_type()))) + " -> " +
                std::string(amp::name(*to_amp(to))) + remark);
  }

 private:
  [[nodiscard]] OpFacts look_up(const c10::OperatorHandle& op) const {
    const c10::FunctionSchema& schema = op.schema();
    std::string name = schema.name();
    if (name.starts_with("aten::")) name = name.substr(6);
    OpFacts f{name, options.lists.find(cast::base_name(name))};
    const auto& args = schema.arguments();
    const auto writes = [&](std::size_t i) {
      return args[i].alias_info() != nullptr && args[i].alias_info()->isWrite();
    };
    f.in_place = cast::in_place(name) && !args.empty() && writes(0);
    f.composite = op.hasKernelForDispatchKey(c10::DispatchKey::CompositeImplicitAutograd);
    for (std::size_t i = 0; i < args.size(); ++i) {
      if (writes(i) && !(f.in_place && i == 0)) f.rule = cast::rule::free;  // out= says the type itself
      if (args[i].name() == "dtype") f.dtype_argument = static_cast<int>(i);
      if (args[i].name() == "device" && name == "_to_copy") f.device_argument = static_cast<int>(i);
    }
    if (f.device_argument >= 0) f.name = "cpu", f.rule = options.lists.find("cpu");
    return f;
  }
  std::mutex mutex_;
  std::unordered_map<const c10::FunctionSchema*, OpFacts> facts_;
};

Region* present() { return static_cast<Region*>(c10::ThreadLocalDebugInfo::get(slot)); }

/// Calls `f(tensor)` for each tensor of an argument; with a result, puts it in the tensor's place.
template <class F>
void each_tensor(c10::IValue& value, F&& f) {
  if (value.isTensor()) {
    f(value.toTensor(), [&](at::Tensor t) { value = std::move(t); });
  } else if (value.isTensorList()) {
    c10::List<at::Tensor> list = value.toTensorList().copy();
    bool changed = false;
    for (std::size_t i = 0; i < list.size(); ++i) {
      f(list.get(i), [&](at::Tensor t) { changed = true, list.set(i, std::move(t)); });
    }
    if (changed) value = list;
  } else if (value.isOptionalTensorList()) {
    auto list = value.toOptionalTensorList().copy();
    bool changed = false;
    for (std::size_t i = 0; i < list.size(); ++i) {
      const std::optional<at::Tensor> t = list.get(i);
      if (t) f(*t, [&](at::Tensor x) { changed = true, list.set(i, std::move(x)); });
    }
    if (changed) value = list;
  }
}

/// Gives a copy that leaves the region's device for the CPU, and keeps its type, the type that the lists have for
/// "cpu".
void cast_copy(const Region& region, const OpFacts& op, at::ArrayRef<c10::IValue> arguments) {
  const at::Tensor& t = arguments[0].toTensor();
  const c10::IValue& target = arguments[op.device_argument];
  if (!region.eligible(t) || t.is_cpu() || target.isNone() || !target.toDevice().is_cpu()) return;
  auto& type = const_cast<c10::IValue&>(arguments[op.dtype_argument]);  // the stack is this call's own
  if (!type.isNone() && type.toScalarType() != t.scalar_type()) return;
  const amp::dtype own = *to_amp(t.scalar_type());
  const cast::decision d = cast::decide(op.rule, false, *to_amp(region.type), {&own, 1});
  if (d.what != cast::decision::convert || d.to == own) return;
  type = static_cast<std::int64_t>(to_torch(d.to));
  region.tell(op, t, to_torch(d.to), "");
}

/// Casts the arguments on the stack as the region's lists say.
/// throws  amp::error naming the operation if it is banned or its types do not fit together
void cast_arguments(const Region& region, const OpFacts& op, at::ArrayRef<c10::IValue> arguments) {
  if (op.device_argument >= 0) return cast_copy(region, op, arguments);
  std::vector<amp::dtype> types;
  for (const c10::IValue& value : arguments) {
    c10::IValue look = value;
    each_tensor(look, [&](const at::Tensor& t, auto&&) {
      if (region.eligible(t)) types.push_back(*to_amp(t.scalar_type()));
    });
  }
  const auto low = *to_amp(region.type);
  const cast::decision d = cast::decide(op.rule, op.in_place, low, types, region.options.lists.banned_allowed());
  if (d.what == cast::decision::keep) return;
  amp::expects(d.what != cast::decision::refuse, [&] {
    const bool banned = op.rule == cast::rule::banned;
    return op.name + ": " + std::string(d.why) + (banned ? "; " + std::string(cast::advice(op.name)) : "");
  });
  auto* values = const_cast<c10::IValue*>(arguments.data());  // the stack is this call's own
  if (op.rule == cast::rule::fp32 && op.dtype_argument >= 0 && !op.in_place) {
    c10::IValue& output = values[op.dtype_argument];
    if (output.isNone()) output = static_cast<std::int64_t>(at::kFloat);
    return;  // the caller's choice, or fp32 inside of the operation
  }
  const at::ScalarType to = to_torch(d.to);
  for (std::size_t i = 0; i < arguments.size(); ++i) {
    if (op.in_place && i == 0) continue;
    each_tensor(values[i], [&](const at::Tensor& t, auto&& put) {
      at::Tensor converted = region.convert(t, to, op);
      if (!converted.is_same(t)) put(std::move(converted));
    });
  }
}

void before_every_operation(const c10::OperatorHandle& op, c10::DispatchKeySet keys, torch::jit::Stack* stack) {
  const c10::DispatchKeySet below = keys & c10::DispatchKeySet(c10::DispatchKeySet::FULL_AFTER, mode);
  Region* region = present();
  if (region == nullptr || !region->enabled) return op.redispatchBoxed(below, stack);
  const OpFacts& facts = region->facts(op);
  // A composite operation is made of others, which are looked at in turn.
  if (facts.rule == cast::rule::free && facts.composite) return op.redispatchBoxed(below, stack);
  const c10::impl::ExcludeDispatchKeyGuard inner(mode);  // kernels choose their own types
  if (facts.rule != cast::rule::free)
    cast_arguments(*region, facts, torch::jit::last(*stack, op.schema().arguments().size()));
  op.redispatchBoxed(below, stack);
}

/// Registered when the first region begins.
void install() {
  static const torch::Library library = [] {
    torch::Library made(torch::Library::IMPL, "_", mode, __FILE__, __LINE__);
    made.fallback(torch::CppFunction::makeFromBoxedFunction<&before_every_operation>());
    return made;
  }();
  static_cast<void>(library);
}

/// Puts the key of this thread on or off, and back at the end.
class ModeGuard {
 public:
  explicit ModeGuard(bool on)
      : included_(c10::impl::tls_is_dispatch_key_included(mode)),
        excluded_(c10::impl::tls_is_dispatch_key_excluded(mode)) {
    set(on, false);
  }
  ~ModeGuard() { set(included_, excluded_); }
  ModeGuard(const ModeGuard&) = delete;
  ModeGuard& operator=(const ModeGuard&) = delete;

 private:
  static void set(bool included, bool excluded) {
    c10::impl::tls_set_dispatch_key_included(mode, included);
    c10::impl::tls_set_dispatch_key_excluded(mode, excluded);
  }
  bool included_, excluded_;
};

}  // namespace

struct OpCast::State {
  State(std::shared_ptr<Region> region, bool outer, bool on)
      : outermost(outer), cache(region->cache), carried(slot, std::move(region)), key(on) {}
  ~State() {
    if (outermost) cache->clear();
  }
  bool outermost;
  std::shared_ptr<Cache> cache;
  c10::DebugInfoGuard carried;
  ModeGuard key;
};

OpCast::OpCast() noexcept = default;
OpCast::OpCast(at::ScalarType type, c10::DeviceType device, bool enabled, op_cast_options options) {
  install();
  const Region* outer = present();
  auto cache = outer != nullptr ? outer->cache : std::make_shared<Cache>();
  state_ = std::make_unique<State>(
      std::make_shared<Region>(type, device, enabled, std::move(options), std::move(cache)), outer == nullptr, enabled);
}
OpCast::~OpCast() = default;

std::optional<at::ScalarType> OpCast::type() noexcept {
  const Region* region = present();
  return region != nullptr && region->enabled ? std::optional(region->type) : std::nullopt;
}
std::optional<c10::DeviceType> OpCast::device() noexcept {
  const Region* region = present();
  return region != nullptr && region->enabled ? std::optional(region->device) : std::nullopt;
}
void OpCast::clear_cache() {
  if (const Region* region = present()) region->cache->clear();
}
std::int64_t OpCast::casts() noexcept {
  const Region* region = present();
  return region == nullptr ? 0 : region->cache->casts.load();
}
bool OpCast::own_lists() noexcept { return true; }

}  // namespace amp_torch

#else

#include <c10/macros/Export.h>

#include <utility>

// The functions of <ATen/autocast_mode.h> that are used here; that header includes every operator.
namespace at::autocast {
TORCH_API bool is_autocast_enabled(c10::DeviceType device_type);
TORCH_API void set_autocast_enabled(c10::DeviceType device_type, bool enabled);
TORCH_API c10::ScalarType get_autocast_dtype(c10::DeviceType device_type);
TORCH_API void set_autocast_dtype(c10::DeviceType device_type, c10::ScalarType dtype);
TORCH_API void clear_cache();
TORCH_API int increment_nesting();
TORCH_API int decrement_nesting();
TORCH_API bool is_autocast_cache_enabled();
TORCH_API void set_autocast_cache_enabled(bool enabled);
}  // namespace at::autocast

namespace amp_torch {
namespace {
thread_local std::optional<at::ScalarType> present_type;
thread_local std::optional<c10::DeviceType> present_device;
}  // namespace

struct OpCast::State {
  State(at::ScalarType type, c10::DeviceType on, bool enabled, bool cache)
      : device(on),
        was_enabled(at::autocast::is_autocast_enabled(on)),
        was_type(at::autocast::get_autocast_dtype(on)),
        was_caching(at::autocast::is_autocast_cache_enabled()),
        outer(present_type),
        outer_device(present_device) {
    at::autocast::set_autocast_enabled(device, enabled);
    if (enabled) at::autocast::set_autocast_dtype(device, type);
    at::autocast::set_autocast_cache_enabled(cache);
    at::autocast::increment_nesting();
    present_type = enabled ? std::optional(type) : std::nullopt;
    present_device = enabled ? std::optional(on) : std::nullopt;
  }
  ~State() {
    if (at::autocast::decrement_nesting() == 0) at::autocast::clear_cache();
    at::autocast::set_autocast_enabled(device, was_enabled);
    at::autocast::set_autocast_dtype(device, was_type);
    at::autocast::set_autocast_cache_enabled(was_caching);
    present_type = outer;
    present_device = outer_device;
  }
  State(const State&) = delete;
  State& operator=(const State&) = delete;

  c10::DeviceType device;
  bool was_enabled;
  at::ScalarType was_type;
  bool was_caching;
  std::optional<at::ScalarType> outer;
  std::optional<c10::DeviceType> outer_device;
};

OpCast::OpCast() noexcept = default;
OpCast::OpCast(at::ScalarType type, c10::DeviceType device, bool enabled, op_cast_options options)
    : state_(std::make_unique<State>(type, device, enabled, options.cache)) {}
OpCast::~OpCast() = default;

std::optional<at::ScalarType> OpCast::type() noexcept { return present_type; }
std::optional<c10::DeviceType> OpCast::device() noexcept { return present_device; }
void OpCast::clear_cache() { at::autocast::clear_cache(); }
std::int64_t OpCast::casts() noexcept { return 0; }
bool OpCast::own_lists() noexcept { return false; }

}  // namespace amp_torch

#endif
