#!/usr/bin/env python3
"""Writes optim_torch.hpp: where six steps of each optimizer lead, in double.

What torch.optim has comes from torch (float64 tensors); LAMB, NovoGrad, LARC, Hugging Face's AdamW and Adam with eps in
the root are written out in numpy from their formulas. Usage: python3 tests/golden/optim_torch.py > tests/golden/optim_torch.hpp
"""
import numpy as np
import torch

SIZES = (5, 3, 4)
STEPS = 6


def start():
    flat = np.array([((i * 29) % 17 - 8) / 4 for i in range(sum(SIZES))])
    return np.split(flat, np.cumsum(SIZES)[:-1])


def grads(t):
    flat = np.array([((t * 37 + i * 23) % 41 - 20) / 16 for i in range(sum(SIZES))])
    return np.split(flat, np.cumsum(SIZES)[:-1])


def by_torch(make):
    params = [torch.nn.Parameter(torch.tensor(w)) for w in start()]
    optimizer = make(params)
    for t in range(1, STEPS + 1):
        for p, g in zip(params, grads(t)):
            p.grad = torch.tensor(g)
        optimizer.step()
    return np.concatenate([p.detach().numpy() for p in params])


def by_formula(step):
    """step(t, tensors, gradients, states): moves tensors in place; states is a dict per tensor."""
    tensors, states = start(), [dict() for _ in SIZES]
    for t in range(1, STEPS + 1):
        step(t, tensors, grads(t), states)
    return np.concatenate(tensors)


def moments(s, g, b1, b2, b3=None):
    s["m"] = b1 * s.get("m", 0) + (1 - b1 if b3 is None else b3) * g
    s["v"] = b2 * s.get("v", 0) + (1 - b2) * g * g
    return s["m"], s["v"]


def adam_eps_in_root(lr=0.01, b1=0.9, b2=0.999, eps=1e-3):
    def step(t, ws, gs, ss):
        for w, g, s in zip(ws, gs, ss):
            m, v = moments(s, g, b1, b2)
            w -= lr * (m / (1 - b1**t)) / np.sqrt(v / (1 - b2**t) + eps)
    return step


def hf_adamw(lr=0.01, b1=0.9, b2=0.98, eps=1e-6, wd=0.1):
    def step(t, ws, gs, ss):
        for w, g, s in zip(ws, gs, ss):
            m, v = moments(s, g, b1, b2)
            w -= lr * np.sqrt(1 - b2**t) / (1 - b1**t) * m / (np.sqrt(v) + eps)
            w -= lr * wd * w
    return step


def lamb(lr=0.05, b1=0.9, b2=0.999, eps=1e-6, wd=0.01, top=1., decoupled=True, averaging=True, nvlamb=False):
    def step(t, ws, gs, ss):
        norm = np.sqrt(sum((g * g).sum() for g in gs))
        for w, g, s in zip(ws, gs, ss):
            g = g / (norm / top) if norm > top else g
            if not decoupled:
                g = g + wd * w
            m, v = moments(s, g, b1, b2, None if averaging else 1.)
            u = (m / (1 - b1**t)) / (np.sqrt(v / (1 - b2**t)) + eps)
            if decoupled:
                u = u + wd * w
            a, b = np.linalg.norm(w), np.linalg.norm(u)
            ratio = a / b if a != 0 and b != 0 and (wd != 0 or nvlamb) else 1.
            w -= lr * ratio * u
    return step


def novograd(lr=0.05, b1=0.9, b2=0.98, eps=1e-8, wd=0.1, inside=False, zero=False, kind=2):
    def step(t, ws, gs, ss):
        c1, c2 = 1 - b1**t, np.sqrt(1 - b2**t)
        for w, g, s in zip(ws, gs, ss):
            n = np.linalg.norm(g) if kind == 2 else np.abs(g).max()
            if "n" not in s:
                s["n"] = 0. if zero else n
            s["n"] = np.sqrt(b2 * s["n"]**2 + (1 - b2) * n**2) if kind == 2 else b2 * s["n"] + (1 - b2) * n
            d = s["n"] / c2 + eps
            if inside:
                g = g / d + wd * w
            s["m"] = b1 * s.get("m", 0) + (1 - b1) * g
            w -= lr * s["m"] / c1 if inside else lr * ((s["m"] / c1) / d + wd * w)
    return step


def larc(lr=0.1, momentum=0.9, wd=0.1, trust=0.02, clip=True, eps=1e-8):
    def step(t, ws, gs, ss):
        for w, g, s in zip(ws, gs, ss):
            a, b = np.linalg.norm(w), np.linalg.norm(g)
            if a != 0 and b != 0:
                rate = trust * a / (b + wd * a + eps)
                g = (g + wd * w) * (min(rate / lr, 1) if clip else rate)
            s["b"] = g if t == 1 else momentum * s["b"] + g
            w -= lr * s["b"]
    return step


O = torch.optim
CASES = {
    "adam": by_torch(lambda p: O.Adam(p, lr=0.01, weight_decay=0.1)),
    "adamw": by_torch(lambda p: O.AdamW(p, lr=0.01, weight_decay=0.1)),
    "adam_amsgrad": by_torch(lambda p: O.Adam(p, lr=0.01, betas=(0.9, 0.5), weight_decay=0.1, amsgrad=True)),
    "adamw_amsgrad": by_torch(lambda p: O.AdamW(p, lr=0.01, betas=(0.9, 0.5), weight_decay=0.1, amsgrad=True)),
    "adamax": by_torch(lambda p: O.Adamax(p, lr=0.01, weight_decay=0.1)),
    "adagrad": by_torch(lambda p: O.Adagrad(p, lr=0.01, weight_decay=0.1, eps=1e-10)),
    "sgd": by_torch(lambda p: O.SGD(p, lr=0.1, weight_decay=0.1)),
    "sgd_momentum": by_torch(lambda p: O.SGD(p, lr=0.1, momentum=0.9, dampening=0.25, weight_decay=0.1)),
    "sgd_nesterov": by_torch(lambda p: O.SGD(p, lr=0.1, momentum=0.9, weight_decay=0.1, nesterov=True)),
    "adam_eps_in_root": by_formula(adam_eps_in_root()),
    "hf_adamw": by_formula(hf_adamw()),
    "lamb": by_formula(lamb()),
    "lamb_l2": by_formula(lamb(decoupled=False, averaging=False)),
    "lamb_without_decay": by_formula(lamb(wd=0.)),
    "nvlamb": by_formula(lamb(wd=0., nvlamb=True, top=100.)),
    "novograd": by_formula(novograd()),
    "novograd_inside": by_formula(novograd(inside=True)),
    "novograd_init_zero": by_formula(novograd(zero=True)),
    "novograd_infinity": by_formula(novograd(kind=0)),
    "larc_clip": by_formula(larc()),
    "larc_scale": by_formula(larc(clip=False)),
}


def clipped(p):
    params = [torch.nn.Parameter(torch.tensor(w)) for w in start()]
    for q, g in zip(params, grads(1)):
        q.grad = torch.tensor(g)
    norm = torch.nn.utils.clip_grad_norm_(params, 0.5, p)
    return np.concatenate([[norm.item()], *[q.grad.numpy() for q in params]])


CLIPS = {"p1": 1., "p2": 2., "p3": 3., "infinity": float("inf")}


def row(values):
    lines, line = [], "   "
    for v in values:
        word = f" {float(v)!r},"
        if len(line) + len(word) > 118:
            lines.append(line)
            line = "   "
        line += word
    return "\n".join(lines + [line])


print(f"""/// Where six steps of each optimizer lead. Written by optim_torch.py with torch {torch.__version__.split('+')[0]} (float64) and numpy
/// {np.__version__}.
#pragma once
#include <array>
#include <cstddef>
#include <map>
#include <string>
#include <vector>

namespace golden {{

/// Tensors of these sizes; element i of all starts at ((i*29) % 17 - 8) / 4, its gradient of step t is
/// ((t*37 + i*23) % 41 - 20) / 16.
inline constexpr std::array<std::size_t, {len(SIZES)}> optim_sizes{{{', '.join(map(str, SIZES))}}};
inline constexpr int optim_steps = {STEPS};
// clang-format off
inline const std::map<std::string, std::vector<double>> optim_weights{{""")
for name, values in CASES.items():
    print(f'  {{"{name}", {{\n{row(values)}\n  }}}},')
print("""};
/// clip_grad_norm with limit 0.5 on the gradients of step 1: the norm before, then the gradients.
inline const std::map<std::string, std::vector<double>> clip_grad_norm{""")
for name, p in CLIPS.items():
    print(f'  {{"{name}", {{\n{row(clipped(p))}\n  }}}},')
print("""};
// clang-format on

}  // namespace golden""")
