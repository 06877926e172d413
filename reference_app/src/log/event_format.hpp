/// What the writer and the reader of event files must agree on.
/// source  tensorflow/core/util/event.proto, framework/summary.proto
#pragma once
#include <string_view>

namespace clipbert::log::event_format {

// Field numbers of Event, SessionLog, Summary, Summary.Value, HistogramProto, TensorProto
constexpr int event_wall_time = 1, event_step = 2, event_file_version = 3, event_summary = 5, event_session_log = 7;
constexpr int session_status = 1, session_start = 1;
constexpr int summary_value = 1;
constexpr int value_tag = 1, value_simple = 2, value_histogram = 5, value_tensor = 8, value_metadata = 9;
constexpr int histogram_min = 1, histogram_max = 2, histogram_count = 3, histogram_sum = 4, histogram_squares = 5,
              histogram_limits = 6, histogram_counts = 7;
constexpr int tensor_dtype = 1, tensor_shape = 2, tensor_content = 4, tensor_floats = 5, tensor_strings = 8;
constexpr int dtype_float = 1, dtype_string = 7;

constexpr std::string_view file_prefix = "events.out.tfevents.";

}  // namespace clipbert::log::event_format
