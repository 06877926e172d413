#include "train/schedule.hpp"

#include <doctest/doctest.h>

#include "config/errors.hpp"

using namespace clipbert::train;
using clipbert::config::Config;

TEST_SUITE("schedule/rates") {
  TEST_CASE("linear rises to the base at the end of the warm-up and falls to the floor at the end") {
    CHECK(scheduled_rate(1, "linear", 1e-3, 100, 0.1) == doctest::Approx(1e-4).epsilon(1e-12));
    CHECK(scheduled_rate(10, "linear", 1e-3, 100, 0.1) == 1e-3);
    CHECK(scheduled_rate(55, "linear", 1e-3, 100, 0.1) == doctest::Approx(5e-4).epsilon(1e-12));
    CHECK(scheduled_rate(100, "linear", 1e-3, 100, 0.1) == 1e-8);
    CHECK(scheduled_rate(500, "linear", 1e-3, 100, 0.1) == 1e-8);
    CHECK(scheduled_rate(7, "linear", 1e-3, 7, 1.0) == 1e-8);  // no step is left to fall in
  }

  TEST_CASE("multi_step halves at each milestone, in any order, once more behind the last") {
    const std::vector<std::int64_t> milestones{5, 2};
    CHECK(scheduled_rate(1, "multi_step", 8.0, 100, 0.1, milestones, 1) == 8.0);
    CHECK(scheduled_rate(1, "multi_step", 8.0, 100, 0.1, milestones, 2) == 4.0);
    CHECK(scheduled_rate(1, "multi_step", 8.0, 100, 0.1, milestones, 4) == 4.0);
    CHECK(scheduled_rate(1, "multi_step", 8.0, 100, 0.1, milestones, 5) == 1.0);
  }

  TEST_CASE("an unknown schedule is refused by name") {
    CHECK_THROWS_AS(static_cast<void>(scheduled_rate(1, "cosine", 1.0, 10, 0.1)), clipbert::usage_error);
  }

  TEST_CASE("the eight rates are transformer top twice, rest twice, then cnn likewise") {
    Config config;
    config.learning_rate = 2.0;
    config.cnn_learning_rate = 3.0;
    config.transformer_lr_mul = 10.0;
    config.cnn_lr_mul = 100.0;
    config.decay = config.cnn_lr_decay = "constant";
    const RateSchedule schedule(config, 10, 4, 40);
    CHECK(schedule.rates(3) == std::array<double, 8>{20, 20, 2, 2, 300, 300, 3, 3});
    CHECK(schedule.epoch(9) == 0);
    CHECK(schedule.epoch(10) == 1);
  }
}

TEST_SUITE("schedule/plan") {
  TEST_CASE("B69 steps and total batch follow from data, processes, accumulation and epochs, or from max_train_steps") {
    Config config;
    config.train_batch_size = 16;
    config.max_n_example_per_group = 1;
    config.num_train_epochs = 27.2;
    config.num_valid = 4;
    auto plan = run_plan(config, 1000);
    CHECK(plan.total_n_examples == 1000);
    CHECK(plan.total_train_batch_size == 16);
    CHECK(plan.num_train_steps == 1700);
    CHECK(plan.valid_steps == 500);
    CHECK(plan.actual_num_valid == 4);
    config.gradient_accumulation_steps = 2;
    CHECK(run_plan(config, 1000, 4).total_train_batch_size == 128);
    config.max_train_steps = 9;
    plan = run_plan(config, 1000);
    CHECK(plan.num_train_steps == 9);
    CHECK(plan.valid_steps == 100);
    CHECK(plan.actual_num_valid == 1);
    CHECK_THROWS_AS(static_cast<void>(run_plan(config, 0)), clipbert::content_error);
  }

  TEST_CASE("counts that multiply to more than a run can have are refused, not wrapped around") {
    Config config;
    config.train_batch_size = config.gradient_accumulation_steps = 2147483647;
    CHECK_THROWS_AS(static_cast<void>(run_plan(config, 1000)), clipbert::usage_error);
    config = {};
    config.num_train_epochs = 1e300;
    CHECK_THROWS_AS(static_cast<void>(run_plan(config, 1000)), clipbert::usage_error);
    config.max_train_steps = 9;
    CHECK(run_plan(config, 1000).num_train_steps == 9);
  }

  TEST_CASE("the running loss starts at the first value, smooths, and continues from a saved one") {
    RunningLoss loss(0.5);
    CHECK_FALSE(loss.started());
    loss.add(4.0);
    CHECK(loss.value() == 4.0);
    loss.add(2.0);
    CHECK(loss.value() == 3.0);
    RunningLoss other(0.5);
    other.restore(loss.value(), loss.started());
    loss.add(1.0), other.add(1.0);
    CHECK(other.value() == loss.value());
  }
}
