#include "cli/frame.hpp"

int main(int argc, char** argv) { return clipbert::cli::run({argv + 1, argv + argc}); }
