#include "io/zip_archive.hpp"

#include <zip.h>

#include <cerrno>
#include <cstring>
#include <exception>
#include <utility>

#include "config/errors.hpp"
#include "io/atomic_file.hpp"

namespace clipbert::io {
namespace {

constexpr std::uint64_t alignment = 64;
constexpr zip_uint16_t padding_field = 0x4246;  // "FB", the extra field that PyTorch pads with

struct ZipError : zip_error_t {
  ZipError() : zip_error_t{} { zip_error_init(this); }
  ~ZipError() { zip_error_fini(this); }
  ZipError(const ZipError&) = delete;  // owns its text
  ZipError& operator=(const ZipError&) = delete;
};

/// What libzip writes goes to an AtomicFile. Exceptions do not cross it: they are kept.
struct Sink {
  AtomicFile& out;
  std::uint64_t at = 0, end = 0;
  std::exception_ptr failed;
  ZipError error;

  zip_int64_t move(zip_uint64_t place) {
    out.seek(at = place);
    return 0;
  }
  zip_int64_t write(const void* data, zip_uint64_t size) {
    out.write({static_cast<const std::byte*>(data), static_cast<std::size_t>(size)});
    at += size;
    end = std::max(end, at);
    return static_cast<zip_int64_t>(size);
  }
  zip_int64_t seek(void* data, zip_uint64_t size) {
    const auto place = zip_source_seek_compute_offset(at, end, data, size, &error);
    return place < 0 ? -1 : move(static_cast<zip_uint64_t>(place));
  }
};

zip_int64_t answer(void* state, void* data, zip_uint64_t size, zip_source_cmd_t command) noexcept {
  auto& sink = *static_cast<Sink*>(state);
  try {
    switch (command) {
      case ZIP_SOURCE_SUPPORTS:
        return zip_source_make_command_bitmap(ZIP_SOURCE_OPEN, ZIP_SOURCE_READ, ZIP_SOURCE_CLOSE, ZIP_SOURCE_STAT,
                                              ZIP_SOURCE_ERROR, ZIP_SOURCE_FREE, ZIP_SOURCE_SEEK, ZIP_SOURCE_TELL,
                                              ZIP_SOURCE_BEGIN_WRITE, ZIP_SOURCE_COMMIT_WRITE,
                                              ZIP_SOURCE_ROLLBACK_WRITE, ZIP_SOURCE_WRITE, ZIP_SOURCE_SEEK_WRITE,
                                              ZIP_SOURCE_TELL_WRITE, ZIP_SOURCE_REMOVE, -1);
      case ZIP_SOURCE_STAT: {
        zip_stat_t stat;
        zip_stat_init(&stat);
        stat.valid = ZIP_STAT_SIZE;
        stat.size = 0;
        std::memcpy(data, &stat, sizeof(stat));
        return sizeof(stat);
      }
      case ZIP_SOURCE_ERROR:
        return zip_error_to_data(&sink.error, data, size);
      case ZIP_SOURCE_WRITE:
        return sink.write(data, size);
      case ZIP_SOURCE_SEEK_WRITE:
        return sink.seek(data, size);
      case ZIP_SOURCE_TELL_WRITE:
        return static_cast<zip_int64_t>(sink.at);
      default:
        return 0;
    }
  } catch (...) {
    sink.failed = std::current_exception();
    zip_error_set(&sink.error, ZIP_ER_WRITE, EIO);
    return -1;
  }
}

/// The extra field that moves an entry's bytes to a multiple of the alignment. A local header is 30 bytes and the name,
/// a field's own header 4; entries of 4 GiB and more have a field of 20 bytes before it.
std::string padding_before(std::uint64_t header, const ZipEntry& entry) {
  const std::uint64_t large = entry.bytes.size() >= 0xffffffff ? 20 : 0;
  const std::uint64_t place = header + 30 + entry.name.size() + large + 4;
  return std::string((alignment - place % alignment) % alignment, 'Z');
}

}  // namespace

void ZipReader::Close::operator()(zip* archive) const { zip_discard(archive); }

ZipReader::ZipReader(const std::filesystem::path& file) : file_(file.string()) {
  const auto fail = [&](const std::string& what) { throw content_error(file_ + ": " + what); };
  int code = 0;
  archive_.reset(zip_open(file_.c_str(), ZIP_RDONLY | ZIP_CHECKCONS, &code));
  if (archive_ == nullptr) {
    if (code == ZIP_ER_NOZIP) fail("the zip archive has no directory at its end; the file is cut, take another copy");
    ZipError error;
    zip_error_init_with_code(&error, code);
    fail("the zip archive cannot be read (" + std::string(zip_error_strerror(&error)) +
         "); the file is damaged, take another copy");
  }
  std::uint64_t left = std::filesystem::file_size(file);
  const auto count = zip_get_num_entries(archive_.get(), 0);
  for (zip_int64_t i = 0; i < count; ++i) {
    zip_stat_t entry;
    zip_stat_init(&entry);
    constexpr zip_uint64_t needed = ZIP_STAT_NAME | ZIP_STAT_SIZE | ZIP_STAT_COMP_METHOD | ZIP_STAT_ENCRYPTION_METHOD;
    if (zip_stat_index(archive_.get(), static_cast<zip_uint64_t>(i), ZIP_FL_ENC_RAW, &entry) != 0 ||
        (entry.valid & needed) != needed)
      fail("entry " + std::to_string(i) + " of the zip archive cannot be read");
    if (entry.comp_method != ZIP_CM_STORE || entry.encryption_method != ZIP_EM_NONE)
      fail("entry " + std::to_string(i) +
           " of the zip archive is compressed or encrypted, which torch.save never does; unpack and store it");
    if (entry.size > left) fail("the entries of the zip archive are larger than the file");
    left -= entry.size;
    if (!sizes_.emplace(entry.name, entry.size).second) fail("the zip archive holds an entry twice");
  }
}

std::vector<std::byte> ZipReader::read(const std::string& name) const {
  const auto found = sizes_.find(name);
  if (found == sizes_.end()) throw content_error(file_ + ": the zip archive lacks the entry " + name);
  const std::unique_ptr<zip_file_t, int (*)(zip_file_t*)> in(zip_fopen(archive_.get(), name.c_str(), ZIP_FL_ENC_RAW),
                                                             &zip_fclose);
  std::vector<std::byte> bytes(static_cast<std::size_t>(found->second));
  std::size_t at = 0;
  std::byte behind;  // reading to the end compares the checksum
  while (in != nullptr) {
    const bool full = at == bytes.size();
    const auto got = zip_fread(in.get(), full ? &behind : bytes.data() + at, full ? 1 : bytes.size() - at);
    if (got < 0 || (full && got > 0) || (!full && got == 0)) break;
    if (full) return bytes;
    at += static_cast<std::size_t>(got);
  }
  throw content_error(file_ + ": entry " + name + " of the zip archive is damaged (" +
                      (in == nullptr ? zip_strerror(archive_.get()) : zip_file_strerror(in.get())) +
                      "); take another copy");
}

void write_zip(const std::filesystem::path& file, std::span<const ZipEntry> entries) {
  AtomicFile out(file);
  Sink sink{.out = out, .failed = nullptr, .error = {}};
  ZipError error;
  const auto fail = [&](const char* reason) {
    if (sink.failed != nullptr) std::rethrow_exception(sink.failed);
    throw content_error(file.string() + ": cannot be written (" + reason + ")");
  };
  zip_source_t* target = zip_source_function_create(&answer, &sink, &error);
  zip_t* archive = target == nullptr ? nullptr : zip_open_from_source(target, ZIP_CREATE | ZIP_TRUNCATE, &error);
  if (archive == nullptr) {
    zip_source_free(target);
    fail(zip_error_strerror(&error));
  }
  std::unique_ptr<zip_t, void (*)(zip_t*)> open(archive, &zip_discard);
  std::uint64_t header = 0;
  for (const auto& entry : entries) {
    auto* source = zip_source_buffer(archive, entry.bytes.data(), entry.bytes.size(), 0);
    const auto index = zip_file_add(archive, entry.name.c_str(), source, ZIP_FL_ENC_RAW);
    if (index < 0) {
      zip_source_free(source);
      fail(zip_strerror(archive));
    }
    const auto place = static_cast<zip_uint64_t>(index);
    const auto padding = entry.aligned ? padding_before(header, entry) : std::string();
    constexpr zip_uint16_t first_day = 1 << 5 | 1;  // 1980-01-01: equal input gives equal bytes
    if (zip_set_file_compression(archive, place, ZIP_CM_STORE, 0) != 0 ||
        zip_file_set_dostime(archive, place, 0, first_day, 0) != 0 ||
        (entry.aligned && zip_file_extra_field_set(archive, place, padding_field, ZIP_EXTRA_FIELD_NEW,
                                                   reinterpret_cast<const zip_uint8_t*>(padding.data()),
                                                   static_cast<zip_uint16_t>(padding.size()), ZIP_FL_LOCAL) != 0))
      fail(zip_strerror(archive));
    header += 30 + entry.name.size() + (entry.bytes.size() >= 0xffffffff ? 20 : 0) +
              (entry.aligned ? 4 + padding.size() : 0) + entry.bytes.size();
  }
  if (zip_close(archive) != 0) fail(zip_strerror(archive));
  static_cast<void>(open.release());
  out.commit();
}

}  // namespace clipbert::io
