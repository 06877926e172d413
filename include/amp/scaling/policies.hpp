/// All loss-scale policies: where the scale starts, what follows a clean step or an overflow, whether an overflow
/// skips.
#pragma once
#include <amp/scaling/any_scale.hpp>
#include <amp/scaling/bounded.hpp>
#include <amp/scaling/dynamic.hpp>
#include <amp/scaling/policy.hpp>
