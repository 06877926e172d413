#include "io/atomic_file.hpp"

#include <doctest/doctest.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>

#include "config/errors.hpp"
#include "support/temp_folder.hpp"

namespace fs = std::filesystem;
using clipbert::io::AtomicFile;
using clipbert::io::write_atomically;
using Folder = test_support::TempFolder;

namespace {

std::string content(const fs::path& file) {
  std::ifstream in(file, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), std::istreambuf_iterator<char>()};
}

}  // namespace

TEST_SUITE("io/atomic_file") {
  TEST_CASE("a file appears whole on commit and not before") {
    const Folder folder;
    const auto place = folder.path() / "a.txt";
    {
      AtomicFile file(place);
      file.write("one ");
      CHECK_FALSE(fs::exists(place));
      file.write("two");
      file.commit();
    }
    CHECK(content(place) == "one two");
    { AtomicFile dropped(place); }
    CHECK(content(place) == "one two");
    CHECK(std::distance(fs::directory_iterator(folder.path()), fs::directory_iterator()) == 1);
  }

  TEST_CASE("a link keeps pointing to the file that is replaced") {
    const Folder folder;
    write_atomically(folder.path() / "real", "old");
    fs::create_symlink("real", folder.path() / "link");
    write_atomically(folder.path() / "link", "new");
    CHECK(fs::is_symlink(folder.path() / "link"));
    CHECK(content(folder.path() / "real") == "new");
  }

  TEST_CASE("a disk that takes no more leaves the old file and says so in one line") {
    const Folder folder;
    const auto place = folder.path() / "a.bin";
    write_atomically(place, "old");
    const pid_t child = ::fork();
    REQUIRE(child >= 0);
    if (child == 0) {  // a limit of the file size stands for a full disk: write() fails half way
      ::signal(SIGXFSZ, SIG_IGN);
      const rlimit limit{100'000, 100'000};
      ::setrlimit(RLIMIT_FSIZE, &limit);
      try {
        write_atomically(place, std::string(1'000'000, 'x'));
      } catch (const clipbert::content_error& e) {
        const std::string message = e.what();
        ::_exit(message.starts_with(place.string() + ": cannot be written: ") && message.find('\n') == std::string::npos
                    ? 42
                    : 1);
      }
      ::_exit(2);
    }
    int status = 0;
    ::waitpid(child, &status, 0);
    CHECK(WEXITSTATUS(status) == 42);
    CHECK(content(place) == "old");
    CHECK_FALSE(fs::exists(place.string() + ".tmp"));
  }

  TEST_CASE("a kill at any instant leaves a whole file") {
    const Folder folder;
    const auto place = folder.path() / "state";
    write_atomically(place, std::string(200'000, '0'));
    for (int round = 0; round < 20; ++round) {
      const pid_t child = ::fork();
      REQUIRE(child >= 0);
      if (child == 0)
        for (char c = '1';; c = c == '9' ? '1' : static_cast<char>(c + 1))
          write_atomically(place, std::string(200'000, c));
      ::usleep(static_cast<useconds_t>(500 + 700 * round));
      ::kill(child, SIGKILL);
      ::waitpid(child, nullptr, 0);
      const auto now = content(place);
      CHECK(now.size() == 200'000);
      CHECK(now.find_first_not_of(now[0]) == std::string::npos);
    }
    std::ofstream(folder.path() / "left.tmp") << "half";
    CHECK(clipbert::io::remove_leftovers(folder.path()) >= 1);
    CHECK(std::distance(fs::directory_iterator(folder.path()), fs::directory_iterator()) == 1);
  }

  TEST_CASE("a folder that does not exist is an error that says so") {
    CHECK_THROWS_WITH_AS(write_atomically("no/such/folder/file", "x"),
                         "no/such/folder/file: cannot be written: No such file or directory; make the folder first",
                         clipbert::content_error);
  }
}
