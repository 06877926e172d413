// Compiled once so that its precompiled <torch/torch.h> serves every file of the app that uses LibTorch.
