#include "data/packet_index.hpp"

#include <algorithm>
#include <cstring>
#include <numeric>
#include <span>
#include <string_view>
#include <utility>

namespace clipbert::data {
namespace {

using Bytes = std::span<const std::uint8_t>;

/// What the units inside a packet say.
struct PacketKind {
  bool entry = false;  ///< decoding can begin here
  bool needed = true;  ///< other pictures may refer to this one
  bool sound = true;
};

/// Runs over the length-prefixed units of an H.264 or HEVC packet.
/// source  ISO/IEC 14496-15, 5.3 and 8.3: the size of a length stands in the decoder's configuration
template <typename OnUnit>
bool each_unit(Bytes packet, std::size_t length_size, OnUnit on_unit) {
  while (!packet.empty()) {
    if (packet.size() <= length_size) return false;
    std::size_t length = 0;
    for (std::size_t i = 0; i < length_size; ++i) length = length << 8 | packet[i];
    packet = packet.subspan(length_size);
    if (length == 0 || length > packet.size()) return false;
    on_unit(packet.first(length));
    packet = packet.subspan(length);
  }
  return true;
}

/// source  ITU-T H.264, table 7-1: units 1 to 5 carry slices, 5 those of an IDR picture; nal_ref_idc 0 is never referred to
PacketKind h264_kind(Bytes packet, std::size_t length_size) {
  PacketKind kind{.needed = false};
  bool slices = false, all_idr = true;
  kind.sound = each_unit(packet, length_size, [&](Bytes unit) {
    const int type = unit[0] & 0x1F, reference = unit[0] >> 5 & 3;
    if (type >= 1 && type <= 5) {
      slices = true;
      all_idr = all_idr && type == 5;
      kind.needed = kind.needed || reference != 0 || type != 1;
    } else {
      kind.needed =
          kind.needed || !(type == 6 || type == 9 || type == 12);  // what else there is concerns more than one
    }
  });
  kind.entry = slices && all_idr;
  return kind;
}

/// source  ITU-T H.265, table 7-1: units 0 to 31 carry slices, 19 and 20 those of an IDR picture
PacketKind hevc_kind(Bytes packet, std::size_t length_size) {
  PacketKind kind;
  bool slices = false, all_idr = true;
  kind.sound = each_unit(packet, length_size, [&](Bytes unit) {
    const int type = unit[0] >> 1 & 0x3F;
    if (type > 31) return;
    slices = true;
    all_idr = all_idr && (type == 19 || type == 20);
  });
  kind.entry = slices && all_idr;
  return kind;
}

/// Tells packets of one stream apart.
class Classifier {
 public:
  explicit Classifier(const Decoder& decoder) : codec_(decoder.stream().codecpar->codec_id) {
    const AVCodecParameters& parameters = *decoder.stream().codecpar;
    const std::string_view container = decoder.container().name;
    const bool stamped = container.starts_with("mov,") || container.starts_with("matroska,");
    const Bytes setup(parameters.extradata, static_cast<std::size_t>(std::max(parameters.extradata_size, 0)));
    const std::size_t place = codec_ == AV_CODEC_ID_H264 ? 4 : 21;
    switch (codec_) {
      case AV_CODEC_ID_H264:
      case AV_CODEC_ID_HEVC:
        plain_ = stamped && setup.size() > place && setup[0] == 1;
        if (plain_) length_size_ = (setup[place] & 3) + std::size_t{1};
        break;
      case AV_CODEC_ID_VP9:
      case AV_CODEC_ID_AV1:
      case AV_CODEC_ID_MJPEG:
        plain_ = stamped;
        break;
      default:
        break;
    }
  }
  [[nodiscard]] bool plain() const { return plain_; }
  [[nodiscard]] PacketKind operator()(const AVPacket& packet) const {
    const Bytes bytes(packet.data, static_cast<std::size_t>(packet.size));
    if (codec_ == AV_CODEC_ID_H264) return h264_kind(bytes, length_size_);
    if (codec_ == AV_CODEC_ID_HEVC) return hevc_kind(bytes, length_size_);
    return {.entry = (packet.flags & AV_PKT_FLAG_KEY) != 0};
  }

 private:
  AVCodecID codec_;
  bool plain_ = false;
  std::size_t length_size_ = 4;
};

/// Joins a group to the one before where one of its pictures is shown before the picture that it begins with: such a
/// picture may refer backwards.
void join_open_groups(PacketIndex& index) {
  std::vector<PacketGroup> joined;
  for (const PacketGroup& group : index.groups) {
    const auto begin = index.packets.begin() + static_cast<std::ptrdiff_t>(group.first);
    const auto end = index.packets.begin() + static_cast<std::ptrdiff_t>(group.end);
    const bool open = std::any_of(begin, end, [&](const auto& packet) { return packet.pts < begin->pts; });
    if (open && !joined.empty()) {
      joined.back().end = group.end;
    } else {
      joined.push_back(group);
    }
    for (auto packet = begin; packet != end; ++packet) packet->group = joined.size() - 1;
  }
  index.groups = std::move(joined);
}

/// True if the pictures' times are apart and none lies before the first key picture.
bool order_shown(PacketIndex& index) {
  for (std::size_t i = 0; i < index.packets.size(); ++i) {
    if (index.packets[i].shown) index.shown.push_back(i);
  }
  const auto pts = [&](std::size_t packet) { return index.packets[packet].pts; };
  std::sort(index.shown.begin(), index.shown.end(), [&](std::size_t a, std::size_t b) { return pts(a) < pts(b); });
  for (std::size_t i = 1; i < index.shown.size(); ++i) {
    if (pts(index.shown[i]) == pts(index.shown[i - 1])) return false;
  }
  return !index.shown.empty() && pts(index.shown.front()) >= index.packets.front().pts;
}

}  // namespace

bool PacketIndex::possible(const Decoder& decoder) { return Classifier(decoder).plain(); }

std::optional<PacketIndex> PacketIndex::read(Decoder& decoder, std::size_t keep_bytes) {
  const Classifier classify(decoder);
  PacketIndex index;
  bool keep = true;
  std::size_t held = 0;
  av::PacketPtr packet = av::make_packet();
  while (decoder.read(*packet)) {
    const PacketKind kind = classify(*packet);
    if (packet->pts == AV_NOPTS_VALUE || packet->size <= 0 || !kind.sound) return std::nullopt;
    const std::size_t number = index.packets.size();
    if (kind.entry) {
      if (!index.groups.empty()) index.groups.back().end = number;
      index.groups.push_back({number, number});
    }
    if (index.groups.empty()) return std::nullopt;  // it does not begin with a key picture
    index.packets.push_back(
        {.pts = packet->pts, .shown = (packet->flags & AV_PKT_FLAG_DISCARD) == 0, .needed = kind.needed});
    constexpr std::size_t around = 512;  // of libav's own records
    held += around + static_cast<std::size_t>(packet->size);
    keep = keep && held <= keep_bytes;
    if (keep) {
      index.kept.push_back(std::move(packet));
      packet = av::make_packet();
    } else {
      index.kept.clear();
      av_packet_unref(packet.get());
    }
  }
  if (index.packets.empty() || !decoder.complaint().empty()) return std::nullopt;
  index.groups.back().end = index.packets.size();
  join_open_groups(index);
  if (!order_shown(index)) return std::nullopt;
  return index;
}

}  // namespace clipbert::data
