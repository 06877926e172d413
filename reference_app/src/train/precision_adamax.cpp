#include <amp/optim/adamax.hpp>

#include "train/precision_session.hpp"

namespace clipbert::train::detail {

std::unique_ptr<Precision> make_adamax(SessionParts parts) { return make_session<amp::Adamax>(std::move(parts)); }

}  // namespace clipbert::train::detail
