#include <doctest/doctest.h>

#include <cstdlib>
#include <limits>

#include "app/io/support.hpp"
#include "io/checkpoint_file.hpp"
#include "io/saved_training.hpp"
#include "io/torch_file.hpp"
#include "support/skip.hpp"

using namespace clipbert::io;
using test_support::tensor_of;
using Folder = test_support::TempFolder;

namespace {

/// A Python that has PyTorch: AMP_TORCH_PYTHON, or that of a virtual environment of the project; empty without one.
std::string torch_python() {
  const char* named = std::getenv("AMP_TORCH_PYTHON");
  for (const std::string python : {named == nullptr ? "" : named, ".venv/bin/python", ".venv-peers/bin/python"}) {
    if (python.empty() || !std::filesystem::exists(python)) continue;
    if (std::system(("'" + python + "' -c 'import torch' > /dev/null 2>&1").c_str()) == 0)
      return std::filesystem::absolute(python).string();
  }
  test_support::skip("no Python with PyTorch: CI=true bash scripts/test.sh installs one, AMP_TORCH_PYTHON names one");
  return {};
}

/// Runs a program with the folder as its argument. -> its exit code is 0
bool run(const std::string& python, const Folder& folder, const std::string& program) {
  test_support::write_bytes(
      folder.path() / "program.py",
      "import sys, torch\nfrom collections import OrderedDict\nd = sys.argv[1] + '/'\n" + program);
  const auto code = std::system(("'" + python + "' '" + (folder.path() / "program.py").string() + "' '" +
                                 folder.path().string() + "' > '" + (folder.path() / "said").string() + "' 2>&1")
                                    .c_str());
  INFO(test_support::content_of(folder.path() / "said"));
  CHECK(code == 0);
  return code == 0;
}

}  // namespace

TEST_SUITE("io/python") {
  TEST_CASE("B52 PyTorch itself reads what is written, weights only and mapped, and what it writes is read") {
    const auto python = torch_python();
    if (python.empty()) return;
    const Folder folder;
    const auto tensors = test_support::tensors_of_every_type("odd");
    write_torch(folder.path() / "ours.pt", views_of(tensors));
    if (!run(python, folder, R"(
s = torch.load(d + 'ours.pt', weights_only=True)
assert type(s) is OrderedDict and list(s) == sorted(s), s
want = dict(w=torch.tensor([[1, 2, 3], [4, 5, 6.5]]), d=torch.tensor(0.1, dtype=torch.float64),
            h=torch.tensor([1, 65504, 2.0**-24], dtype=torch.float16), b=torch.ones(1, 1, dtype=torch.bfloat16),
            i=torch.tensor([-1, 2**63 - 1]), i32=torch.tensor([-7], dtype=torch.int32),
            i16=torch.tensor([-7], dtype=torch.int16), i8=torch.tensor([-7], dtype=torch.int8),
            u8=torch.tensor([0, 128, 255], dtype=torch.uint8), flag=torch.tensor([False, True]), empty=torch.zeros(0, 5),
            odd=torch.tensor([9], dtype=torch.uint8))
assert set(want) == set(s)
for form in (s, torch.load(d + 'ours.pt', weights_only=True, mmap=True)):
    for k, v in want.items():
        assert form[k].dtype == v.dtype and form[k].shape == v.shape and torch.equal(form[k], v), k
torch.save(s, d + 'zip.pt')
torch.save(s, d + 'old.pt', _use_new_zipfile_serialization=False)
base = torch.arange(24.).reshape(4, 6)
model = torch.nn.Sequential(torch.nn.Linear(3, 2), torch.nn.LayerNorm(2))
optimizer = torch.optim.AdamW(model.parameters())
for _ in range(3):
    model(torch.ones(1, 3)).square().sum().backward()
    optimizer.step()
views = {'rows': base[1:3], 'turned': base.t(), 'step': base[:, ::2], 'wide': base[:1].expand(3, 6),
         'parameter': torch.nn.Parameter(base), 'tied': base}
for name, old in (('a.pt', True), ('b.pt', False)):
    torch.save({'state_dict': views, 'optimizer': optimizer.state_dict(), 'amp': {'loss_scaler0': {'loss_scale': 512.0,
                'unskipped': 7}}, 'seen': {1, 2}, 'device': torch.device('cuda:1'), 'dtype': torch.float16,
                'size': torch.Size([1, 2]), 'epoch': 3}, d + name, _use_new_zipfile_serialization=old)
)"))
      return;
    CHECK(read_weights(folder.path() / "zip.pt").tensors == tensors);
    CHECK(read_weights(folder.path() / "old.pt").tensors == tensors);
    std::vector<float> base(24), turned, every_second;
    for (std::size_t i = 0; i < 24; ++i) base[i] = static_cast<float>(i);
    for (std::size_t i = 0; i < 24; ++i) turned.push_back(base[i % 4 * 6 + i / 4]);
    for (std::size_t i = 0; i < 24; i += 2) every_second.push_back(base[i]);
    std::vector<float> wide;
    for (int i = 0; i < 3; ++i) wide.insert(wide.end(), base.begin(), base.begin() + 6);
    for (const char* name : {"a.pt", "b.pt"}) {
      CAPTURE(name);
      const auto root = read_checkpoint(folder.path() / name);
      const auto read = weights_in(root, folder.path() / name);
      CHECK(read.under == "state_dict");
      CHECK(read.passed_over.empty());
      CHECK(read.tensors.at("rows") == tensor_of<float>(DType::f32, {2, 6}, {base.begin() + 6, base.begin() + 18}));
      CHECK(read.tensors.at("turned") == tensor_of<float>(DType::f32, {6, 4}, turned));
      CHECK(read.tensors.at("step") == tensor_of<float>(DType::f32, {4, 3}, every_second));
      CHECK(read.tensors.at("wide") == tensor_of<float>(DType::f32, {3, 6}, wide));
      CHECK(read.tensors.at("parameter") == tensor_of<float>(DType::f32, {4, 6}, base));
      CHECK(read.tensors.at("tied") == read.tensors.at("parameter"));
      CHECK(saved_adam_step(root) == 3);
      REQUIRE(saved_scalers(root).size() == 1);
      CHECK(saved_scalers(root)[0].scale == 512);
      CHECK(saved_scalers(root)[0].unskipped == 7);
      CHECK(root.find("epoch")->as_int() == 3);
      CHECK(*root.find("device")->text() == "cuda");
      CHECK(saved_optimizer(root)->find("param_groups")->items().size() == 1);
    }
  }
}
