/// The walk over an LMDB's pages that makes it safe to hand the file to liblmdb.
/// source  liblmdb 0.9's mdb.c: page, node and meta layouts of a 64-bit build
#include <cstdint>
#include <cstring>
#include <fstream>
#include <string>
#include <string_view>
#include <vector>

#include "config/errors.hpp"
#include "data/lmdb.hpp"

namespace clipbert::data {
namespace {

static_assert(sizeof(std::size_t) == 8, "the page layout of 32-bit builds is another one");

constexpr std::size_t header_size = 16, node_size = 8;
enum PageFlag : std::uint16_t { branch_page = 0x01, leaf_page = 0x02, overflow_page = 0x04 };
enum NodeFlag : std::uint16_t { big_data = 0x01, sub_data = 0x02, duplicates = 0x04 };
constexpr std::uint64_t no_page = ~std::uint64_t{0};

/// The part of a meta page that counts here.
struct Meta {
  std::uint64_t page_size = 0, depth = 0, entries = 0, root = no_page, last_page = 0, transaction = 0;
  std::uint16_t flags = 0;
};

class PageWalk {
 public:
  explicit PageWalk(const std::filesystem::path& file) : file_(file), in_(file, std::ios::binary) {
    std::error_code code;
    if (!std::filesystem::is_regular_file(file, code)) throw fault("not a regular file");
    size_ = std::filesystem::file_size(file, code);
    if (!in_ || code) throw fault("cannot be read; check its permissions");
    choose_meta();
  }

  std::vector<std::string> keys() {
    if (meta_.root != no_page) walk(meta_.root, 1);
    if (found_ != meta_.entries) {
      throw fault("it claims " + std::to_string(meta_.entries) + " entries but holds " + std::to_string(found_));
    }
    return std::move(keys_);
  }

 private:
  using Page = std::vector<char>;

  [[nodiscard]] content_error fault(const std::string& what) const {
    return content_error(file_.string() + ": the LMDB is damaged or cut: " + what + "; make it again from its videos");
  }
  [[nodiscard]] content_error page_fault(std::uint64_t page, const std::string& what) const {
    return fault("page " + std::to_string(page) + " " + what);
  }
  template <typename Number>
  [[nodiscard]] static Number at(const Page& page, std::size_t offset) {
    Number value;
    std::memcpy(&value, page.data() + offset, sizeof value);
    return value;
  }

  [[nodiscard]] Page read(std::uint64_t offset, std::size_t count) {
    Page page(count);
    if (offset > size_ || size_ - offset < count ||
        !in_.seekg(static_cast<std::streamoff>(offset)).read(page.data(), static_cast<std::streamsize>(count))) {
      throw fault("it ends at byte " + std::to_string(size_) + " inside what it holds");
    }
    return page;
  }

  /// The newer of the two meta pages, as liblmdb chooses.
  void choose_meta() {
    const Meta first = meta_at(0);
    const Meta second = meta_at(first.page_size);
    if (first.page_size != second.page_size) throw fault("its two heads differ in page size");
    meta_ = second.transaction > first.transaction ? second : first;
    if (meta_.flags != 0) throw fault("its values have an order of their own, which no set of videos has");
    if (meta_.depth > 32 || meta_.last_page >= std::uint64_t{1} << 48) throw fault("its head makes no sense");
  }

  Meta meta_at(std::uint64_t offset) {
    constexpr std::uint32_t magic = 0xBEEFC0DE, version = 1;
    const Page page = read(offset, header_size + 136);
    const std::size_t head = header_size, own = head + 24, main = own + 48, tail = main + 48;
    if (at<std::uint32_t>(page, head) != magic) throw fault("it does not begin as one");
    if (at<std::uint32_t>(page, head + 4) != version) throw fault("it is of another version");
    Meta meta;
    meta.page_size = at<std::uint32_t>(page, own);
    meta.flags = at<std::uint16_t>(page, main + 4);
    meta.depth = at<std::uint16_t>(page, main + 6);
    meta.entries = at<std::uint64_t>(page, main + 32);
    meta.root = at<std::uint64_t>(page, main + 40);
    meta.last_page = at<std::uint64_t>(page, tail);
    meta.transaction = at<std::uint64_t>(page, tail + 8);
    const std::uint64_t size = meta.page_size;
    if (size < 512 || size > 65536 || (size & (size - 1)) != 0) throw fault("its page size makes no sense");
    return meta;
  }

  /// Reads the start of page `number`, which must say of itself what it is.
  Page page_at(std::uint64_t number, std::size_t count) {
    if (number < 2 || number > meta_.last_page) throw page_fault(number, "is none of the file's");
    Page page = read(number * meta_.page_size, count);
    if (at<std::uint64_t>(page, 0) != number) throw page_fault(number, "has another number in it");
    return page;
  }

  void walk(std::uint64_t number, std::uint64_t level) {
    if (level > meta_.depth || ++visited_ > meta_.last_page) throw page_fault(number, "lies deeper than the tree is");
    const Page page = page_at(number, meta_.page_size);
    const auto flags = at<std::uint16_t>(page, 10), lower = at<std::uint16_t>(page, 12);
    const std::size_t upper = at<std::uint16_t>(page, 14);
    const bool leaf = level == meta_.depth;
    if (flags != (leaf ? leaf_page : branch_page)) throw page_fault(number, "is of another kind than its place asks");
    if (lower < header_size || lower % 2 != 0 || lower > upper || upper > meta_.page_size) {
      throw page_fault(number, "has bounds outside itself");
    }
    const std::size_t count = (lower - header_size) / 2;
    if (count == 0 || (!leaf && count < 2)) throw page_fault(number, "is empty");
    for (std::size_t i = 0; i < count; ++i) {
      const std::size_t node = at<std::uint16_t>(page, header_size + 2 * i);
      if (node < upper || node + node_size > meta_.page_size) throw page_fault(number, "points outside itself");
      const std::size_t key_end = node + node_size + at<std::uint16_t>(page, node + 6);
      if (key_end > meta_.page_size) throw page_fault(number, "has a key that leads outside it");
      if (!leaf) {
        const auto low = at<std::uint32_t>(page, node);
        walk(low | std::uint64_t{at<std::uint16_t>(page, node + 4)} << 32, level + 1);
        continue;
      }
      take_entry(number, page, node, key_end);
    }
  }

  void take_entry(std::uint64_t number, const Page& page, std::size_t node, std::size_t key_end) {
    const auto size = at<std::uint32_t>(page, node), flags = std::uint32_t{at<std::uint16_t>(page, node + 4)};
    std::string key(page.data() + node + node_size, key_end - node - node_size);
    if (key.empty() || (found_ > 0 && key <= last_)) throw page_fault(number, "has keys out of order");
    ++found_;
    last_ = key;
    if ((flags & (duplicates | ~std::uint32_t{7})) != 0) throw page_fault(number, "has an entry of an unknown kind");
    if ((flags & big_data) != 0) {
      if (key_end + 8 > meta_.page_size) throw page_fault(number, "has a value that leads outside it");
      check_overflow(at<std::uint64_t>(page, key_end), size);
    } else if (key_end + size > meta_.page_size) {
      throw page_fault(number, "has a value that leads outside it");
    }
    if ((flags & sub_data) == 0) keys_.push_back(std::move(key));  // a data base inside this one is no value
  }

  void check_overflow(std::uint64_t number, std::uint64_t size) {
    const Page page = page_at(number, header_size);
    const std::uint64_t pages = at<std::uint32_t>(page, 12);
    if (at<std::uint16_t>(page, 10) != overflow_page) throw page_fault(number, "holds no value");
    if (pages * meta_.page_size < header_size + size || number + pages - 1 > meta_.last_page ||
        number * meta_.page_size + header_size + size > size_) {
      throw page_fault(number, "begins a value that leads past the end");
    }
  }

  std::filesystem::path file_;
  std::ifstream in_;
  std::uint64_t size_ = 0, visited_ = 0, found_ = 0;
  Meta meta_;
  std::vector<std::string> keys_;
  std::string last_;
};

}  // namespace

std::vector<std::string> sound_lmdb_keys(const std::filesystem::path& data_file) { return PageWalk(data_file).keys(); }

}  // namespace clipbert::data
