#include <amp/optim/adam.hpp>

#include "train/precision_session.hpp"

namespace clipbert::train::detail {

std::unique_ptr<Precision> make_adam(SessionParts parts) { return make_session<amp::Adam>(std::move(parts)); }

}  // namespace clipbert::train::detail
