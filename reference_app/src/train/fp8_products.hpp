/// Products of the transformer's linear layers with fp8 operands, by the toolkit's recipes.
#pragma once
#include <amp/optim/state.hpp>
#include <memory>
#include <string>
#include <utility>
#include <vector>

namespace clipbert::model {
class ClipBert;
}

namespace clipbert::train {

/// The product of one linear layer, forward and backward, with what its recipe remembers.
class Fp8Product;

/// Puts fp8 operands into every linear layer of a model while it lives, in training mode only: scores are made with the
/// products of the level. Convolutions keep the level's format.
class Fp8Products {
 public:
  /// recipe  delayed, current, block or mxfp8
  /// throws  usage_error for another one
  Fp8Products(model::ClipBert& model, const std::string& recipe);
  ~Fp8Products();
  Fp8Products(const Fp8Products&) = delete;  // the model's layers point into it
  Fp8Products& operator=(const Fp8Products&) = delete;

  /// Ends an optimizer step: weights are quantised anew, and delayed scales move.
  void end_step();
  /// The scales and histories of delayed scaling, under `prefix`.
  void save(amp::StateDict& state, const std::string& prefix) const;
  /// Goes on from them; a state without them is one of a run without fp8, so that scales start anew.
  /// throws  amp::error for a state that does not fit
  void load(const amp::StateDict& state, const std::string& prefix);

 private:
  model::ClipBert& model_;
  std::vector<std::pair<std::string, std::unique_ptr<Fp8Product>>> products_;  ///< by the layer's name
};

}  // namespace clipbert::train
