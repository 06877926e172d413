/// Everything that a resumed run needs, as typed bytes and one JSON object; no tensor library.
#pragma once
#include <amp/optim/state.hpp>
#include <cstdint>
#include <nlohmann/json.hpp>

namespace clipbert::train {

/// Tensors keep their types and bits. `meta` holds counters, data position and running loss.
struct TrainingState {
  std::int64_t step = 0;
  amp::StateDict tensors;
  nlohmann::json meta = nlohmann::json::object();
};

}  // namespace clipbert::train
