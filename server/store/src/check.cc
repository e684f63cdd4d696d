#include "foreshock/server/store/check.h"

#include <filesystem>
#include <map>
#include <optional>
#include <set>

#include "format.h"
#include "group_reader.h"
#include "keys.h"
#include "rollup.h"

namespace foreshock::store {
namespace {

constexpr size_t kMaxFaults = 100;

std::string Where(const SourceId& source, int64_t step) {
  return "run " + std::to_string(source.run) + " attempt " + std::to_string(source.attempt) + " rank " +
         (source.rank == kMerged ? "merged" : std::to_string(source.rank)) + " step " + std::to_string(step);
}

Result<std::unique_ptr<Database>> OpenFolder(const StoreOptions& options) {
  // Opening makes a folder that is missing, which a checker must not.
  if (options.env == nullptr && !std::filesystem::exists(options.folder + "/CURRENT")) {
    return Status(Code::kNotFound, "data folder " + options.folder + ": no store is there");
  }
  return Database::Open({.folder = options.folder, .env = options.env});
}

class Checker {
 public:
  explicit Checker(const Database::View& view) : view_(view) {}

  Result<CheckReport> Run() {
    FS_RETURN_IF_ERROR(view_.Scan(TablePrefix(Table::kRun), {}, [&](std::string_view key, std::string_view) {
      const auto id = ParseRunKey(key);
      id ? void(runs_.insert(id->run)) : Fault("run record: malformed key");
      return true;
    }));
    report_.runs = runs_.size();
    FS_RETURN_IF_ERROR(Frames(Table::kFrame, ParseFrameKey, 0, &report_.open_frames));
    FS_RETURN_IF_ERROR(Frames(Table::kKept, ParseKeptKey, kSealBytes, &report_.kept_frames));
    FS_RETURN_IF_ERROR(Groups());
    FS_RETURN_IF_ERROR(Rollups());
    FS_RETURN_IF_ERROR(Strays());
    return std::move(report_);
  }

 private:
  void Fault(const std::string& what) {
    if (++report_.faults <= kMaxFaults) report_.first_faults.push_back(what);
  }
  void CheckRun(const SourceId& source, int64_t step) {
    if (!runs_.contains(source.run)) Fault(Where(source, step) + ": of a run that is gone");
  }

  template <typename Parse>
  Status Frames(Table table, Parse parse, size_t skip, uint64_t* count) {
    return view_.Scan(TablePrefix(table), {}, [&](std::string_view key, std::string_view value) {
      ++*count;
      const auto parts = parse(key);
      if (!parts || value.size() < skip) {
        Fault("frame: malformed entry");
        return true;
      }
      CheckRun(parts->source, parts->step);
      const auto frame = wire::DecodeFrame(value.substr(skip));
      if (!frame.ok()) {
        Fault(Where(parts->source, parts->step) + ": " + frame.status().message());
      } else if (frame->step != parts->step) {
        Fault(Where(parts->source, parts->step) + ": the frame says step " + std::to_string(frame->step));
      }
      return true;
    });
  }

  Status Groups() {
    return view_.Scan(TablePrefix(Table::kGroup), {}, [&](std::string_view key, std::string_view value) {
      ++report_.groups;
      const auto parts = ParseGroupKey(key);
      SealedGroup group;
      if (parts) group.first = parts->first_step, group.seal = parts->seal;
      if (!parts || !DecodeGroup(value, &group)) {
        Fault("sealed group: malformed entry");
        return true;
      }
      CheckRun(parts->source, group.first);
      const Status status = Group({parts->source.run, parts->source.attempt, parts->source.rank}, group);
      if (!status.ok()) Fault(Where(parts->source, group.first) + ": " + status.message());
      return true;
    });
  }

  Status Group(const FramesOf& source, const SealedGroup& group) {
    FS_ASSIGN_OR_RETURN(const GroupReader reader, GroupReader::Open(view_, source, group));
    const GroupRows& rows = reader.rows();
    report_.sealed_frames += rows.size();
    if (rows.size() != group.rows || rows.steps.front() != group.first || rows.steps.back() != group.last) {
      return Status(Code::kDataLoss, "the group's rows are not those that its entry names");
    }
    std::string prefix =
        GroupKey(Table::kChunk, {source.run, source.attempt, source.rank, 0}, group.first, group.seal);
    std::set<ColumnName> missing(rows.columns.begin(), rows.columns.end());
    Status trouble;
    FS_RETURN_IF_ERROR(view_.Scan(prefix, {}, [&](std::string_view key, std::string_view value) {
      ++chunks_of_groups_;
      const auto name = ParseColumn(key);
      if (name && name->signal == 0) return true;
      ++report_.columns;
      if (!name || missing.erase(*name) == 0) {
        trouble = Status(Code::kDataLoss, "a column that the rows do not name");
        return false;
      }
      trouble = CheckColumn(*name, value, rows);
      return trouble.ok();
    }));
    if (trouble.ok() && !missing.empty()) {
      trouble = Status(Code::kDataLoss, std::to_string(missing.size()) + " columns are missing");
    }
    return trouble;
  }

  static Status CheckColumn(const ColumnName& name, std::string_view value, const GroupRows& rows) {
    FS_ASSIGN_OR_RETURN(const Column column, Column::Decode(name.signal, name.layer, value));
    for (size_t i = 0; i < column.rows(); ++i) {
      const auto place = static_cast<uint64_t>(column.group_rows()[i]);
      if (place >= rows.size() || rows.steps[place] != column.steps()[i]) {
        return Status(Code::kDataLoss,
                      "signal " + std::to_string(name.signal) + ": other steps than the rows");
      }
    }
    return OkStatus();
  }

  Status Rollups() {
    uint64_t of_blocks = 0, columns = 0;
    FS_RETURN_IF_ERROR(
        view_.Scan(TablePrefix(Table::kRollup), {}, [&](std::string_view key, std::string_view value) {
          ++report_.rollups;
          const auto parts = ParseRollupKeyParts(key);
          const Result<RollupSpans> spans = RollupSpans::Decode(value);
          if (!parts || !spans.ok() || spans->first.front() != parts->first_step || parts->level == 0 ||
              parts->level > kRollupLevels) {
            Fault("rollup: malformed entry");
            return true;
          }
          CheckRun(parts->source, parts->first_step);
          const Status status = Block(*parts, *spans, &of_blocks);
          if (!status.ok()) Fault(Where(parts->source, parts->first_step) + ": " + status.message());
          return true;
        }));
    FS_RETURN_IF_ERROR(
        view_.Scan(TablePrefix(Table::kRollupColumn), {}, [&](std::string_view, std::string_view) {
          ++columns;
          return true;
        }));
    if (columns != of_blocks)
      Fault(std::to_string(columns - of_blocks) + " columns belong to no block of rollups");
    return OkStatus();
  }

  Status Block(const RollupKeyParts& block, const RollupSpans& spans, uint64_t* columns) {
    const FramesOf source{block.source.run, block.source.attempt, block.source.rank};
    Status trouble;
    FS_RETURN_IF_ERROR(view_.Scan(RollupKey(Table::kRollupColumn, source, block.level, block.first_step), {},
                                  [&](std::string_view key, std::string_view value) {
                                    ++*columns;
                                    const Result<RollupColumn> column = RollupColumn::Decode(value);
                                    if (!ParseRollupColumn(key)) {
                                      trouble = Status(Code::kDataLoss, "rollup: malformed key of a column");
                                    } else if (!column.ok()) {
                                      trouble = column.status();
                                    } else {
                                      trouble = Fits(*column, spans);
                                    }
                                    return true;
                                  }));
    return trouble;
  }

  static Status Fits(const RollupColumn& column, const RollupSpans& spans) {
    if (column.buckets != spans.size()) return Status(Code::kDataLoss, "rollup: a column of other buckets");
    for (size_t i = 0; i < column.counts.size(); ++i) {
      if (column.counts[i] < 0 || column.counts[i] > spans.rows[i / column.width()])
        return Status(Code::kDataLoss, "rollup: more values than frames");
    }
    return OkStatus();
  }

  // Chunks of no group.
  Status Strays() {
    uint64_t chunks = 0;
    FS_RETURN_IF_ERROR(view_.Scan(TablePrefix(Table::kChunk), {}, [&](std::string_view, std::string_view) {
      ++chunks;
      return true;
    }));
    if (report_.faults == 0 && chunks != chunks_of_groups_) {
      Fault(std::to_string(chunks - chunks_of_groups_) + " chunks belong to no sealed group");
    }
    return OkStatus();
  }

  const Database::View& view_;
  std::set<uint32_t> runs_;
  uint64_t chunks_of_groups_ = 0;
  CheckReport report_;
};

std::string Line(std::string_view key, size_t bytes) {
  std::string line(1, key.front());
  if (const auto f = key.front() == 'F' ? ParseFrameKey(key) : ParseKeptKey(key)) {
    line += " " + Where(f->source, f->step) + " incarnation " + std::to_string(f->source.incarnation) +
            " seq " + std::to_string(f->seq);
  } else if (const auto b = ParseRollupKeyParts(key)) {
    line += " " + Where(b->source, b->first_step) + " level " + std::to_string(b->level);
  } else if (const auto g = ParseGroupKey(key)) {
    line += " " + Where(g->source, g->first_step) + " seal " + std::to_string(g->seal);
  } else if (const auto c = ParseColumn(key)) {
    // The group's part of the key is laid out as that of its entry.
    std::string group(key.substr(0, key.size() - 7));
    group[0] = static_cast<char>(Table::kGroup);
    if (const auto owner = ParseGroupKey(group))
      line += " " + Where(owner->source, owner->first_step) + " seal " + std::to_string(owner->seal);
    line += " signal " + std::to_string(c->signal);
    if (c->layer) line += " layer " + std::to_string(*c->layer);
    line += " variant " + std::to_string(c->variant);
  } else {
    static constexpr char kDigits[] = "0123456789abcdef";
    line += " ";
    for (const char byte : key.substr(1)) {
      line.push_back(kDigits[static_cast<uint8_t>(byte) >> 4]);
      line.push_back(kDigits[static_cast<uint8_t>(byte) & 15]);
    }
  }
  return line + ": " + std::to_string(bytes) + " bytes";
}

}  // namespace

Result<CheckReport> CheckStore(const StoreOptions& options) {
  FS_ASSIGN_OR_RETURN(const std::unique_ptr<Database> db, OpenFolder(options));
  FS_RETURN_IF_ERROR(CheckFormat(*db).status());
  FS_ASSIGN_OR_RETURN(const Database::View view, db->Look());
  return Checker(view).Run();
}

Status DumpStore(const StoreOptions& options, const std::function<void(const std::string& line)>& each) {
  FS_ASSIGN_OR_RETURN(const std::unique_ptr<Database> db, OpenFolder(options));
  return db->Scan({}, {}, [&](std::string_view key, std::string_view value) {
    if (!key.empty()) each(Line(key, value.size()));
    return true;
  });
}

}  // namespace foreshock::store
