/// Micro batches made by worker threads, handed out in an order that depends on the seed only.
#pragma once
#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "data/batch.hpp"
#include "data/dataset.hpp"

namespace clipbert::data {

struct LoaderOptions {
  std::int64_t batch_size = 16;
  int workers = 2;         ///< threads; 0: batches are made when asked for
  int prefetch = 0;        ///< batches made ahead at most; 0: two, or one per worker if that is more
  bool shuffle = true;     ///< a new order each epoch
  bool endless = true;     ///< else one epoch, again after seek(0)
  bool drop_last = false;  ///< leaves out an epoch's last batch where it is short
  std::uint64_t seed = 42;
};

/// Batch number n holds the same bytes whatever the number of workers and wherever the run was resumed.
class Loader : public BatchSource {
 public:
  /// throws  usage_error if batch_size < 1, or drop_last leaves no batch
  Loader(std::shared_ptr<const RetrievalSet> set, LoaderOptions options);
  ~Loader() override;

  /// throws  content_error that making this batch met
  std::optional<Batch> next() override;
  [[nodiscard]] std::int64_t position() const override { return position_; }
  void seek(std::int64_t position) override;

  [[nodiscard]] std::int64_t batches_per_epoch() const { return batches_per_epoch_; }
  [[nodiscard]] const RetrievalSet& set() const { return *set_; }

 private:
  struct Pool;
  [[nodiscard]] Batch make(std::int64_t number) const;
  [[nodiscard]] std::vector<std::int64_t> order(std::int64_t epoch) const;

  std::shared_ptr<const RetrievalSet> set_;
  LoaderOptions options_;
  std::int64_t batches_per_epoch_ = 0, position_ = 0;
  std::unique_ptr<Pool> pool_;  // last: its threads end before what they use
};

}  // namespace clipbert::data
