#include "payload_filter.h"

#include <algorithm>
#include <protozero/pbf_reader.hpp>

#include "foreshock/wire/codec.h"

namespace foreshock::store {
namespace {

// Of proto/foreshock/v1/ingest.proto.
constexpr uint32_t kSeriesOfFrame = 9, kSignalOfSeries = 1, kLayerOfSeries = 2;

bool TakesEncoded(protozero::pbf_reader series, const SeriesFilter& filter) {
  uint16_t signal = 0;
  std::optional<uint32_t> layer;
  // Both stand first where the sender writes fields in order; they may stand anywhere.
  while (series.next()) {
    if (series.tag() == kSignalOfSeries) {
      signal = static_cast<uint16_t>(series.get_uint32());
    } else if (series.tag() == kLayerOfSeries) {
      layer = series.get_uint32();
    } else {
      series.skip();
    }
  }
  return filter.Takes(signal, layer);
}

}  // namespace

bool SeriesFilter::Takes(uint16_t signal, std::optional<uint32_t> of_layer) const {
  if (layer && of_layer != layer) return false;
  return signals.empty() || std::find(signals.begin(), signals.end(), signal) != signals.end();
}

std::string FilterPayload(std::string_view payload, const SeriesFilter& filter) {
  if (filter.takes_all()) return std::string(payload);
  std::string out;
  try {
    protozero::pbf_reader frame(payload.data(), payload.size());
    const char* at = payload.data();
    while (frame.next()) {
      bool take = true;
      if (frame.tag_and_type() ==
          protozero::tag_and_type(kSeriesOfFrame, protozero::pbf_wire_type::length_delimited)) {
        take = TakesEncoded(frame.get_message(), filter);
      } else {
        frame.skip();
      }
      const char* const end = frame.data().data();
      if (take) out.append(at, end);
      at = end;
    }
  } catch (const protozero::exception&) {
    return std::string(payload);  // the decoder will say what is wrong
  }
  return out;
}

void FilterSeries(const SeriesFilter& filter, wire::Frame* frame) {
  if (filter.takes_all()) return;
  std::erase_if(frame->series, [&](const wire::Series& s) { return !filter.Takes(s.signal, s.layer); });
}

wire::Frame FilteredCopy(const wire::Frame& frame, const SeriesFilter& filter) {
  if (filter.takes_all()) return frame;
  wire::Frame copy = wire::WithoutSeries(frame);
  for (const wire::Series& s : frame.series) {
    if (filter.Takes(s.signal, s.layer)) copy.series.push_back(s);
  }
  return copy;
}

}  // namespace foreshock::store
