/// All of amp::torch.
#pragma once
#include <amp/amp.hpp>
#include <amp_torch/cast.hpp>
#include <amp_torch/dtype.hpp>
#include <amp_torch/exec.hpp>
#include <amp_torch/forward.hpp>
#include <amp_torch/models.hpp>
#include <amp_torch/nn.hpp>
#include <amp_torch/op_cast.hpp>
#include <amp_torch/op_hooks.hpp>
#include <amp_torch/params.hpp>
#include <amp_torch/scaler_archive.hpp>
#include <amp_torch/session.hpp>
#include <amp_torch/state_dict.hpp>
#include <amp_torch/torch_optim.hpp>
#include <amp_torch/view.hpp>
