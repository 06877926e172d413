#include <amp/optim/adam.hpp>

#include "train/precision_session.hpp"

namespace clipbert::train::detail {

std::unique_ptr<Precision> make_adamw(SessionParts parts) { return make_session<amp::HfAdamW>(std::move(parts)); }

}  // namespace clipbert::train::detail
