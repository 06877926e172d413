/// The toolkit: everything but the opt-in headers in adapters/.
#pragma once
#include <amp/fn/axpby.hpp>
#include <amp/fn/copy.hpp>
#include <amp/fn/l2norm.hpp>
#include <amp/fn/scale.hpp>
#include <amp/half_traits.hpp>
#include <amp/loss_scaler.hpp>
#include <amp/master_weights.hpp>
#include <amp/multi_tensor_apply.hpp>
#include <amp/opt_level.hpp>
#include <amp/optim/adam.hpp>
#include <amp/optim/adamax.hpp>
#include <amp/optim/clip.hpp>
#include <amp/optim/sgd.hpp>
#include <amp/scaling/policies.hpp>
#include <amp/session.hpp>
#include <amp/state_dict.hpp>
