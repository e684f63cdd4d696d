#include "frames_here.h"

#include <algorithm>
#include <limits>
#include <set>

#include "foreshock/wire/codec.h"
#include "group_reader.h"
#include "keys.h"
#include "payload_filter.h"

namespace foreshock::store {

Status EachFrameHere(const Layouts::Look& look, const FramesOf& source,
                     const std::function<void(const FrameHere&)>& each) {
  for (const SealedGroup& group : *look.groups) {
    FS_ASSIGN_OR_RETURN(const GroupReader reader, GroupReader::Open(look.view, source, group));
    const GroupRows& rows = reader.rows();
    for (size_t i = 0; i < rows.size(); ++i)
      each({group.incarnation, rows.steps[i], static_cast<uint64_t>(rows.seqs[i]), true});
  }
  const auto scan = [&](Table table, auto parse) {
    return look.view.Scan(SourcePrefix(table, source.run, source.attempt, source.rank), {},
                          [&](std::string_view key, std::string_view) {
                            if (const auto parts = parse(key))
                              each({parts->source.incarnation, parts->step, parts->seq, false});
                            return true;
                          });
  };
  FS_RETURN_IF_ERROR(scan(Table::kFrame, ParseFrameKey));
  return scan(Table::kKept, ParseKeptKey);
}

Result<PartsHere> FindPartsHere(const Database::View& view, const SourceId& source, int64_t step,
                                uint64_t first) {
  // Of a part its place is wanted alone.
  static const SeriesFilter kNoSeries{.signals = {std::numeric_limits<uint16_t>::max()}, .layer = {}};
  PartsHere here;
  std::set<uint32_t> found;
  Status trouble;
  const auto look = [&](Table table, auto parse) {
    return view.Scan(SourcePrefix(table, source.run, source.attempt, source.rank),
                     FramePrefix(table, source.run, source.attempt, source.rank, step),
                     [&](std::string_view key, std::string_view value) {
                       const auto parts = parse(key);
                       if (!parts || parts->step != step) return false;
                       if (parts->source.incarnation != source.incarnation) return true;
                       uint32_t seal = 0;
                       if (table == Table::kKept) {
                         const auto kept = ParseKeptValue(value);
                         if (!kept) return true;
                         seal = kept->seal;
                         value = kept->payload;
                       }
                       const Result<wire::Frame> frame = wire::DecodeFrame(FilterPayload(value, kNoSeries));
                       trouble = frame.status();
                       if (!frame.ok()) return false;
                       if (frame->seq - frame->part != first) return true;
                       here.any = true;
                       here.open |= table == Table::kFrame;
                       here.seal = std::max(here.seal, seal);
                       found.insert(frame->part);
                       here.all |= found.size() >= std::max(frame->parts, 1u);
                       return true;
                     });
  };
  FS_RETURN_IF_ERROR(look(Table::kFrame, ParseFrameKey));
  FS_RETURN_IF_ERROR(trouble);
  FS_RETURN_IF_ERROR(look(Table::kKept, ParseKeptKey));
  FS_RETURN_IF_ERROR(trouble);
  return here;
}

}  // namespace foreshock::store
