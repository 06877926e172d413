/// What the packets of a stream tell of its pictures before any is decoded. Private to this folder.
#pragma once
#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "data/decoder.hpp"

namespace clipbert::data {

/// Decoding can begin at the first packet of a group, and no picture outside it is needed for one inside.
struct PacketGroup {
  std::size_t first = 0, end = 0;  ///< packets
};

/// Which picture each packet gives, for streams where a packet is a picture: those that people keep videos in.
struct PacketIndex {
  struct Packet {
    std::int64_t pts = 0;
    bool shown = true;   ///< false: an edit list hides it
    bool needed = true;  ///< false: no other picture refers to it
    std::size_t group = 0;
  };
  std::vector<Packet> packets;      ///< in file order
  std::vector<PacketGroup> groups;  ///< in file order
  std::vector<std::size_t> shown;   ///< packets of the pictures, by time
  std::vector<av::PacketPtr> kept;  ///< the packets' data, or empty where it is too much

  /// True if this container and codec may be plain.
  [[nodiscard]] static bool possible(const Decoder& decoder);
  /// Reads the whole stream; none if it is not plain: another container or codec, stamps that are missing or equal,
  /// pictures before the first key, any sign of damage. `keep_bytes` bounds `kept`.
  [[nodiscard]] static std::optional<PacketIndex> read(Decoder& decoder, std::size_t keep_bytes);
};

}  // namespace clipbert::data
