/// A fixed set of threads that share out numbered tasks.
#pragma once
#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <mutex>
#include <thread>
#include <vector>

namespace amp::apply {

/// A callable that is called with a task's number; does not own it.
class task_ref {
 public:
  template <class F>
  explicit task_ref(const F& f) noexcept
      : context_(&f), call_([](const void* context, std::int64_t i) { (*static_cast<const F*>(context))(i); }) {}

  void operator()(std::int64_t i) const { call_(context_, i); }

 private:
  const void* context_;
  void (*call_)(const void*, std::int64_t);
};

/// `run` hands out tasks by a counter; the caller works too. Which thread takes which task is left to timing, so a
/// task's result must not depend on it. Calls from several threads take turns. Tasks must not throw.
class thread_pool {
 public:
  explicit thread_pool(int threads) {
    for (int k = 1; k < threads; ++k) workers_.emplace_back([this] { serve(); });
  }
  thread_pool(const thread_pool&) = delete;  // its threads hold its address
  thread_pool& operator=(const thread_pool&) = delete;
  ~thread_pool() {
    {
      const std::lock_guard lock(mutex_);
      stop_ = true;
    }
    start_.notify_all();
    for (auto& worker : workers_) worker.join();
  }

  [[nodiscard]] int size() const noexcept { return static_cast<int>(workers_.size()) + 1; }

  void run(std::int64_t tasks, task_ref task) {
    const std::lock_guard turn(turn_);
    {
      const std::lock_guard lock(mutex_);
      task_ = &task;
      tasks_ = tasks;
      next_.store(0, std::memory_order_relaxed);
      busy_ = static_cast<int>(workers_.size());
      ++round_;
    }
    start_.notify_all();
    drain(task, tasks);
    std::unique_lock lock(mutex_);
    done_.wait(lock, [&] { return busy_ == 0; });
  }

 private:
  void drain(const task_ref& task, std::int64_t tasks) {
    for (auto i = next_.fetch_add(1, std::memory_order_relaxed); i < tasks;
         i = next_.fetch_add(1, std::memory_order_relaxed)) {
      task(i);
    }
  }
  void serve() {
    std::uint64_t seen = 0;
    std::unique_lock lock(mutex_);
    for (;;) {
      start_.wait(lock, [&] { return stop_ || round_ != seen; });
      if (stop_) return;
      seen = round_;
      const task_ref task = *task_;
      const std::int64_t tasks = tasks_;
      lock.unlock();
      drain(task, tasks);
      lock.lock();
      if (--busy_ == 0) done_.notify_one();
    }
  }

  std::mutex turn_;
  std::mutex mutex_;
  std::condition_variable start_;
  std::condition_variable done_;
  const task_ref* task_ = nullptr;
  std::int64_t tasks_ = 0;
  std::atomic<std::int64_t> next_{0};
  std::uint64_t round_ = 0;
  int busy_ = 0;
  bool stop_ = false;
  std::vector<std::thread> workers_;
};

}  // namespace amp::apply
