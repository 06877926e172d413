#include "data/loader.hpp"

#include <algorithm>
#include <condition_variable>
#include <exception>
#include <map>
#include <mutex>
#include <numeric>
#include <span>
#include <stop_token>
#include <string>
#include <thread>
#include <utility>

#include "config/errors.hpp"
#include "data/random.hpp"

namespace clipbert::data {

/// Threads that make the batches from `handed_out` on, at most `ahead` of them before they are taken.
struct Loader::Pool {
  struct Made {
    Batch batch;
    std::exception_ptr error;
  };
  const Loader& loader;
  const std::int64_t ahead;
  std::mutex mutex;
  std::condition_variable_any changed;
  std::int64_t handed_out, claimed;
  std::map<std::int64_t, Made> made;
  std::vector<std::jthread> threads;

  Pool(const Loader& owner, std::int64_t start)
      : loader(owner),
        ahead(owner.options_.prefetch > 0 ? owner.options_.prefetch : std::max(2, owner.options_.workers)),
        handed_out(start),
        claimed(start) {
    for (int i = 0; i < owner.options_.workers; ++i) threads.emplace_back([this](std::stop_token stop) { work(stop); });
  }
  ~Pool() {
    for (std::jthread& thread : threads) thread.request_stop();
  }

  void work(const std::stop_token& stop) {
    std::unique_lock lock(mutex);
    while (changed.wait(lock, stop, [&] { return claimed < handed_out + ahead; })) {
      if (stop.stop_requested()) return;
      const std::int64_t number = claimed++;
      lock.unlock();
      Made result;
      try {
        result.batch = loader.make(number);
      } catch (...) {
        result.error = std::current_exception();
      }
      lock.lock();
      made.emplace(number, std::move(result));
      changed.notify_all();
    }
  }

  Batch take() {
    std::unique_lock lock(mutex);
    changed.wait(lock, [&] { return made.contains(handed_out); });
    auto node = made.extract(handed_out);
    if (node.mapped().error) {
      made.insert(std::move(node));  // the next call meets it again
      std::rethrow_exception(made.at(handed_out).error);
    }
    ++handed_out;
    changed.notify_all();
    return std::move(node.mapped().batch);
  }
};

Loader::Loader(std::shared_ptr<const RetrievalSet> set, LoaderOptions options)
    : set_(std::move(set)), options_(options) {
  if (options_.batch_size < 1)
    throw usage_error("batch size is " + std::to_string(options_.batch_size) + ": at least 1");
  const std::int64_t rest = options_.drop_last ? 0 : options_.batch_size - 1;
  batches_per_epoch_ = (set_->size() + rest) / options_.batch_size;
  if (batches_per_epoch_ == 0) {
    throw usage_error("batch size " + std::to_string(options_.batch_size) + " is over the " +
                      std::to_string(set_->size()) + " groups of the set and short batches are left out");
  }
}

Loader::~Loader() = default;

std::vector<std::int64_t> Loader::order(std::int64_t epoch) const {
  std::vector<std::int64_t> groups(static_cast<std::size_t>(set_->size()));
  std::iota(groups.begin(), groups.end(), std::int64_t{0});
  constexpr std::uint64_t order_stream = 0x6F72646572;
  if (options_.shuffle) Random{options_.seed, order_stream, static_cast<std::uint64_t>(epoch)}.shuffle(groups);
  return groups;
}

Batch Loader::make(std::int64_t number) const {
  if (!options_.endless && number >= batches_per_epoch_) return {};
  const std::int64_t epoch = number / batches_per_epoch_, place = number % batches_per_epoch_;
  const std::vector<std::int64_t> groups = order(epoch);
  const std::int64_t first = place * options_.batch_size;
  const auto count = static_cast<std::size_t>(std::min(options_.batch_size, set_->size() - first));
  return set_->batch(std::span(groups).subspan(static_cast<std::size_t>(first), count), epoch);
}

std::optional<Batch> Loader::next() {
  if (!options_.endless && position_ >= batches_per_epoch_) return std::nullopt;
  if (options_.workers > 0 && !pool_) pool_ = std::make_unique<Pool>(*this, position_);
  Batch batch = pool_ ? pool_->take() : make(position_);
  ++position_;
  return batch;
}

void Loader::seek(std::int64_t position) {
  if (position < 0) throw usage_error("batch number " + std::to_string(position) + " is below 0");
  pool_.reset();
  position_ = position;
}

}  // namespace clipbert::data
