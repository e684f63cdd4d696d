#include "frames_here.h"

#include "group_reader.h"
#include "keys.h"

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

}  // namespace foreshock::store
