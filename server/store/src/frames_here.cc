#include "frames_here.h"

#include <algorithm>
#include <limits>
#include <map>
#include <set>

#include "foreshock/wire/codec.h"
#include "group_reader.h"
#include "keys.h"

namespace foreshock::store {

const SeriesFilter& NoSeries() {
  static const SeriesFilter kNone{.signals = {std::numeric_limits<uint16_t>::max()}, .layer = {}};
  return kNone;
}

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
  PartsHere here;
  Status trouble;
  const auto look = [&](Table table, auto parse) {
    std::map<uint32_t, std::set<uint32_t>> found;  // by seal: those of different ones are not joined
    return view.Scan(FramePrefix(table, source.run, source.attempt, source.rank, step),
                     FrameKey(table, source, step, first), [&](std::string_view key, std::string_view value) {
                       const auto parts = parse(key);
                       if (!parts || parts->source.incarnation != source.incarnation) return false;
                       uint32_t seal = 0;
                       if (table == Table::kKept) {
                         const auto kept = ParseKeptValue(value);
                         if (!kept) return true;
                         seal = kept->seal;
                         value = kept->payload;
                       }
                       const Result<wire::Frame> frame = wire::DecodeFrame(FilterPayload(value, NoSeries()));
                       trouble = frame.status();
                       if (!frame.ok()) return false;
                       // Parts have numbers that follow each other.
                       if (frame->seq - frame->part != first) return false;
                       here.any = true;
                       here.open |= table == Table::kFrame;
                       here.seal = std::max(here.seal, seal);
                       std::set<uint32_t>& together = found[seal];
                       together.insert(frame->part);
                       here.all = together.size() >= std::max(frame->parts, 1u);
                       return !here.all;
                     });
  };
  FS_RETURN_IF_ERROR(look(Table::kFrame, ParseFrameKey));
  FS_RETURN_IF_ERROR(trouble);
  if (here.all) return here;
  FS_RETURN_IF_ERROR(look(Table::kKept, ParseKeptKey));
  FS_RETURN_IF_ERROR(trouble);
  return here;
}

}  // namespace foreshock::store
